"""Binder: a binding succeeds after everything that was sent after it has been refused."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from small_api import Fault, Request, run, until
from volume_cluster import Cluster, clusters, node, pod

from afflux.kube.live.binder import BinderTimes

# No answer at all, and an answer of a proxy that did not wait for the API server.
NO_ANSWER, GIVEN_UP = Fault(hang_up_before=True), Fault(status=504)

pytestmark = [
    pytest.mark.parametrize("first", [NO_ANSWER, GIVEN_UP], ids=["no answer", "given up"]),
    pytest.mark.parametrize("status", [403, 409, 500, 504]),
]


SOON = BinderTimes(initial_backoff_seconds=0.01, max_backoff_seconds=0.02)


def answering(first: Fault, status: int) -> tuple[list[Request], Callable[[Request], Fault]]:
    """The bindings of a pod: the first meets this fault, the others get this status."""
    bindings: list[Request] = []

    def fault(request: Request) -> Fault:
        if not request.path.endswith("/pods/a/binding"):
            return Fault()
        bindings.append(request)
        return first if len(bindings) == 1 else Fault(status=status)

    return bindings, fault


def read_backs(one: Cluster) -> int:
    """How often the pod was read back."""
    seen = [request.path for request in one.server.requests if request.method == "GET"]
    return sum(path.endswith("/pods/a") for path in seen)


def test_a_pod_that_may_still_be_bound_keeps_its_place(first: Fault, status: int) -> None:
    async def test() -> None:
        async with clusters(binder_times=SOON) as one, one.at_work():
            bindings, one.server.fault = answering(first, status)
            one.add(node("n", cpu="1"), pod("a"))
            await until(lambda: len(bindings) > 0)
            one.add(pod("b"))
            await until(lambda: bool(one.places() or (len(bindings) > 5 and one.reason("b"))))
            one.server.put(f"{bindings[0].path}/a", bindings[0].body)
            asked = read_backs(one)
            await until(lambda: one.recorded.bound_pods == ["default/a"])
            assert one.places() == {"a": "n"}
            assert read_backs(one) <= asked + 1

    run(test)


def test_a_pod_is_bound_as_soon_as_refusals_end(first: Fault, status: int) -> None:
    """An API server that has just started refuses, because it has not loaded the roles yet."""

    async def test() -> None:
        async with clusters(binder_times=SOON) as one, one.at_work():
            bindings, fault = answering(first, status)
            one.server.fault = lambda request: fault(request) if len(bindings) < 4 else Fault()
            one.add(node("n", cpu="1"), pod("a"))
            await one.all_placed("a")
            assert len(bindings) == 4
            assert one.recorded.errors == []

    run(test)


def test_the_place_is_free_once_the_binding_cannot_happen(first: Fault, status: int) -> None:
    times = replace(SOON, request_lifetime_seconds=0.3)

    async def test() -> None:
        async with clusters(binder_times=times) as one, one.at_work():
            bindings, one.server.fault = answering(first, status)
            one.add(node("n", cpu="1"), pod("a"))
            await until(lambda: len(bindings) > 0)
            one.add(pod("b"))
            await one.all_placed("b")
            assert one.places() == {"b": "n"}
            assert one.recorded.errors == ["default/a"]

    run(test)
