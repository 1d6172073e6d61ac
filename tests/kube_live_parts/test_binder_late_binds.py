"""Binds that come through when everything that was sent after them has been refused."""

import asyncio
from collections.abc import Callable

import pytest
from small_api import Fault, Request, run, until
from volume_cluster import Cluster, clusters, node, pod

from afflux.kube.live import binding

# Nobody has answered; somebody on the way has, who did not wait for the API server.
NO_ANSWER, GIVEN_UP = Fault(hang_up_before=True), Fault(status=504)

pytestmark = [
    pytest.mark.usefixtures("_soon"),
    pytest.mark.parametrize("first", [NO_ANSWER, GIVEN_UP], ids=["no answer", "given up"]),
    pytest.mark.parametrize("status", [403, 409, 500, 504]),
]


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setattr(binding, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(binding, "LONGEST_PAUSE_SECONDS", 0.02)


def answering(first: Fault, status: int) -> tuple[list[Request], Callable[[Request], Fault]]:
    """The binds of a pod: the first of them meets this fault, the others are answered so."""
    binds: list[Request] = []

    def fault(request: Request) -> Fault:
        if not request.path.endswith("/pods/a/binding"):
            return Fault()
        binds.append(request)
        return first if len(binds) == 1 else Fault(status=status)

    return binds, fault


def reads(one: Cluster) -> int:
    """How often that pod was read back."""
    seen = [request.path for request in one.server.requests if request.method == "GET"]
    return sum(path.endswith("/pods/a") for path in seen)


def test_a_pod_that_may_still_be_bound_keeps_its_place(first: Fault, status: int) -> None:
    async def test() -> None:
        async with clusters() as one, one.at_work():
            binds, one.server.fault = answering(first, status)
            one.add(node("n", cpu="1"), pod("a"))
            await until(lambda: len(binds) > 0)
            one.add(pod("b"))
            await until(lambda: bool(one.places() or (len(binds) > 5 and one.reason("b"))))
            one.server.put(f"{binds[0].path}/a", binds[0].body)
            asked = reads(one)
            await asyncio.sleep(0.2)
            assert one.places() == {"a": "n"}
            assert reads(one) <= asked + 1

    run(test)


def test_a_refusal_that_ends_is_no_reason_to_wait(first: Fault, status: int) -> None:
    """As from an API server that has just started, and does not know yet who may do what."""

    async def test() -> None:
        async with clusters() as one, one.at_work():
            binds, fault = answering(first, status)
            one.server.fault = lambda request: fault(request) if len(binds) < 4 else Fault()
            one.add(node("n", cpu="1"), pod("a"))
            await one.all_placed("a")
            assert len(binds) == 4
            assert one.told.errors == []

    run(test)


def test_when_it_cannot_be_bound_any_more_others_have_its_place(
    monkeypatch: pytest.MonkeyPatch, first: Fault, status: int
) -> None:
    monkeypatch.setattr(binding, "LONGEST_REQUEST_SECONDS", 0.3)

    async def test() -> None:
        async with clusters() as one, one.at_work():
            binds, one.server.fault = answering(first, status)
            one.add(node("n", cpu="1"), pod("a"))
            await until(lambda: len(binds) > 0)
            one.add(pod("b"))
            await one.all_placed("b")
            assert one.places() == {"b": "n"}
            assert one.told.errors == ["default/a"]

    run(test)
