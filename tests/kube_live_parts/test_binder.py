"""Binds: a server with absurd wishes, an end that comes while they are under way."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest
from small_api import Fault, Request, SmallApi, run, serving, until

from afflux.kube import objects
from afflux.kube.api.client import Api
from afflux.kube.live import binding, reading_back
from afflux.kube.live.mirror import Mirror
from afflux.model.placement import Placement
from afflux.model.resources import resources
from afflux.model.task import Shape, Task
from afflux.web.metrics import Metrics


class Told:
    """What became of the binds."""

    def __init__(self) -> None:
        self.bound_pods: list[str] = []
        self.doubts: list[str] = []

    def bound(self, placement: Placement, seconds: float) -> None:
        self.bound_pods.append(placement.task.name)

    def not_bound(self, placement: Placement, seconds: float) -> None:
        raise AssertionError(placement)

    def in_doubt(self, placement: Placement, why: str) -> None:
        self.doubts.append(why)


class NothingToPrepare:
    def concerns(self, placement: Placement) -> bool:
        return False

    async def prepare(self, placement: Placement) -> str | None:
        raise AssertionError(placement)


def cluster() -> tuple[Mirror, Placement]:
    """A node, a pod, and the decision to bring them together."""
    mirror = Mirror(["afflux"])
    metadata = {"name": "p", "namespace": "default", "uid": "u"}
    spec = {"schedulerName": "afflux", "containers": [{"name": "c"}]}
    pod = json.dumps({"metadata": metadata, "spec": spec})
    mirror.pods.changed(msgspec.json.decode(pod, type=objects.Pod))
    mirror.nodes.changed(msgspec.json.decode('{"metadata": {"name": "n"}}', type=objects.Node))
    return mirror, Placement(Task("u", "default/p", Shape(resources({}))), "n")


@asynccontextmanager
async def binding_one(
    api: Api,
    told: Told,
    remaining_seconds: Callable[[], float | None] = lambda: None,
    mirror: Mirror | None = None,
) -> AsyncIterator[asyncio.Task[None]]:
    """Somebody at work on one bind."""
    known, placement = cluster()
    mirror = mirror or known
    hands = binding.Binding(
        api,
        mirror,
        told,
        metrics=Metrics(),
        remaining_seconds=remaining_seconds,
        parallelism=2,
        timeout_seconds=30.0,
        preparing=NothingToPrepare(),
    )
    working = asyncio.create_task(hands.run())
    hands.start([placement])
    try:
        yield working
    finally:
        working.cancel()
        await asyncio.wait({working})


def binds(server: SmallApi) -> int:
    return sum(request.path.endswith("/binding") for request in server.requests)


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_asks_for_a_year_of_patience_is_asked_again_before(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(binding, "LONGEST_PATIENCE_SECONDS", 0.1)

    async def test() -> None:
        told = Told()
        async with serving() as server, server.api() as api:
            answers = [Fault(status=status, retry_after="31536000"), Fault()]

            def fault(request: Request) -> Fault:
                return answers.pop(0) if len(answers) > 1 else answers[0]

            server.fault = fault
            async with binding_one(api, told):
                await until(lambda: told.bound_pods == ["default/p"])
        assert binds(server) == 2

    run(test)


def test_what_is_under_way_at_the_end_is_heard_to_its_end() -> None:
    async def test() -> None:
        told = Told()
        async with serving() as server, server.api() as api:
            server.fault = lambda _: Fault(after_seconds=0.3)
            async with binding_one(api, told) as working:
                await until(lambda: binds(server) == 1)
                working.cancel()
            assert told.bound_pods == ["default/p"]

    run(test)


def test_nothing_is_sent_after_the_end_that_was_decided_before_it() -> None:
    async def test() -> None:
        told = Told()
        async with serving() as server, server.api(connections=1) as api:
            server.fault = lambda _: Fault(after_seconds=1.0)
            ends_at = time.monotonic() + 0.5
            # Takes the only connection: the bind has to wait for it, and waits too long.
            other = asyncio.create_task(api.send("POST", "/others", {"metadata": {"name": "o"}}))
            await until(lambda: len(server.requests) == 1)
            async with binding_one(api, told, lambda: ends_at - time.monotonic()):
                await other
                await asyncio.sleep(0.1)
            assert binds(server) == 0
            assert told.bound_pods == []

    run(test)


# --- Reading back


POD = "/api/v1/namespaces/default/pods/p"


def refusing(*paths: str) -> Callable[[Request], Fault]:
    """Binds conflict, and these may not be read."""

    def fault(request: Request) -> Fault:
        if request.path.endswith("/binding"):
            return Fault(status=409)
        return Fault(status=403) if request.path in paths else Fault()

    return fault


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setattr(reading_back, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(reading_back, "LONGEST_REFUSED_SECONDS", 0.02)


@pytest.mark.usefixtures("_soon")
def test_who_may_not_read_one_pod_lists_it() -> None:
    async def test() -> None:
        told = Told()
        async with serving() as server, server.api() as api:
            server.fault = refusing(POD)
            pod = {"metadata": {"name": "p", "namespace": "default", "uid": "u"}}
            spec = {"nodeName": "n", "containers": [{"name": "c"}]}
            server.objects["/api/v1/pods"] = {"items": [{**pod, "spec": spec}]}
            async with binding_one(api, told):
                await until(lambda: told.bound_pods == ["default/p"])
            assert told.doubts == []

    run(test)


@pytest.mark.usefixtures("_soon")
def test_who_may_not_read_at_all_says_so_and_what_would_help(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        told = Told()
        async with serving() as server, server.api() as api:
            server.fault = refusing(POD, "/api/v1/pods")
            async with binding_one(api, told):
                await until(lambda: len(told.doubts) == 3)
                asked = len(server.requests)
            assert 16 <= asked < 24
            assert told.bound_pods == []
            assert "bound to n" in told.doubts[0]
            assert "needs the right to get and list pods" in told.doubts[0]

    with caplog.at_level(logging.WARNING):
        run(test)
    assert caplog.text.count("default/p cannot be read back") == 1


@pytest.mark.usefixtures("_soon")
def test_the_watch_may_say_what_may_not_be_read() -> None:
    async def test() -> None:
        told = Told()
        mirror, _ = cluster()
        async with serving() as server, server.api() as api:
            server.fault = refusing(POD, "/api/v1/pods")
            async with binding_one(api, told, mirror=mirror):
                await until(lambda: len(told.doubts) == 1)
                known = mirror.pods.get("default/p")
                assert known is not None
                spec = msgspec.structs.replace(known.spec, node_name="n")
                mirror.pods.changed(msgspec.structs.replace(known, spec=spec))
                await until(lambda: told.bound_pods == ["default/p"])

    run(test)
