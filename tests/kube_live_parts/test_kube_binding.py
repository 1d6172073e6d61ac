"""Binds: a server with absurd wishes, an end that comes while they are under way."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest
from small_api import Fault, Request, SmallApi, run, serving, until

from afflux.kube import objects
from afflux.kube.api.client import Api
from afflux.kube.live import binding
from afflux.kube.live.mirror import Mirror
from afflux.model.placement import Placement
from afflux.model.resources import resources
from afflux.model.task import Shape, Task
from afflux.web.metrics import Metrics


class Told:
    """What became of the binds."""

    def __init__(self) -> None:
        self.bound_pods: list[str] = []

    def bound(self, placement: Placement, seconds: float) -> None:
        self.bound_pods.append(placement.task.name)

    def not_bound(self, placement: Placement, seconds: float) -> None:
        raise AssertionError(placement)


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
    api: Api, told: Told, remaining_seconds: Callable[[], float | None] = lambda: None
) -> AsyncIterator[asyncio.Task[None]]:
    """Somebody at work on one bind."""
    mirror, placement = cluster()
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
