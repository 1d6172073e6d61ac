"""Binder: Retry-After, shutdown and the end of the term during bindings, confirmation."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest
from small_api import Fault, Request, SmallApi, run, serving, until

from afflux.kube import objects
from afflux.kube.api.client import Api
from afflux.kube.live.binder import BINDER_TIMES, Binder, BinderTimes
from afflux.kube.live.pod_locator import LocatorTimes
from afflux.kube.reader.cluster_reader import ClusterReader
from afflux.kube.rejection import Rejection
from afflux.model.placement import Placement
from afflux.model.resources import resources
from afflux.model.task import Shape, Task
from afflux.web.scheduler_metrics import Metrics


class Recorded:
    """Records the outcomes of bindings."""

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

    async def prepare(self, placement: Placement) -> Rejection | None:
        raise AssertionError(placement)

    def is_joint(self, placement: Placement) -> bool:
        return False

    def cancel(self, placement: Placement, rejection: Rejection) -> None: ...


def cluster() -> tuple[ClusterReader, Placement]:
    """A node, a pod, and the placement of the pod on the node."""
    reader = ClusterReader(["afflux"])
    metadata = {"name": "p", "namespace": "default", "uid": "u"}
    spec = {"schedulerName": "afflux", "containers": [{"name": "c"}]}
    pod = json.dumps({"metadata": metadata, "spec": spec})
    reader.pods.changed(msgspec.json.decode(pod, type=objects.Pod))
    reader.nodes.changed(msgspec.json.decode('{"metadata": {"name": "n"}}', type=objects.Node))
    return reader, Placement(Task("u", "default/p", Shape(resources({}))), "n")


@asynccontextmanager
async def binder_at_work(
    api: Api,
    recorded: Recorded,
    remaining_seconds: Callable[[], float | None] = lambda: None,
    reader: ClusterReader | None = None,
    times: BinderTimes = BINDER_TIMES,
) -> AsyncIterator[asyncio.Task[None]]:
    """A binder at work on one placement."""
    known, placement = cluster()
    reader = reader or known
    binder = Binder(
        api,
        reader,
        recorded,
        metrics=Metrics(),
        remaining_seconds=remaining_seconds,
        parallelism=2,
        timeout_seconds=30.0,
        pre_binder=NothingToPrepare(),
        times=times,
    )
    working = asyncio.create_task(binder.run())
    binder.submit([placement])
    try:
        yield working
    finally:
        working.cancel()
        await asyncio.wait({working})


def bindings(server: SmallApi) -> int:
    return sum(request.path.endswith("/binding") for request in server.requests)


@pytest.mark.parametrize("status", [429, 503])
def test_a_retry_after_of_a_year_is_cut(status: int) -> None:
    async def test() -> None:
        recorded = Recorded()
        async with serving() as server, server.api() as api:
            answers = [Fault(status=status, retry_after="31536000"), Fault()]

            def fault(request: Request) -> Fault:
                return answers.pop(0) if len(answers) > 1 else answers[0]

            server.fault = fault
            async with binder_at_work(
                api, recorded, times=BinderTimes(max_retry_after_seconds=0.1)
            ):
                await until(lambda: recorded.bound_pods == ["default/p"])
        assert bindings(server) == 2

    run(test)


def test_bindings_in_flight_are_awaited_on_shutdown() -> None:
    async def test() -> None:
        recorded = Recorded()
        async with serving() as server, server.api() as api:
            release = asyncio.Event()
            server.fault = lambda _: Fault(until=release)
            times = BinderTimes(shutdown_timeout_seconds=30.0)
            async with binder_at_work(api, recorded, times=times) as working:
                await until(lambda: bindings(server) == 1)
                working.cancel()
                release.set()
            assert recorded.bound_pods == ["default/p"]

    run(test)


def test_no_binding_is_sent_after_the_term_has_ended() -> None:
    async def test() -> None:
        recorded, remaining = Recorded(), [0.2]
        async with serving() as server, server.api(connections=1) as api:
            release = asyncio.Event()
            server.fault = lambda _: Fault(until=release)
            # Takes the only connection: the binding has to wait for it until the term has ended.
            other = asyncio.create_task(api.send("POST", "/others", {"metadata": {"name": "o"}}))
            await until(lambda: len(server.requests) == 1)
            ended = asyncio.Event()

            def remaining_seconds() -> float:
                if not remaining:
                    ended.set()
                    return 0.0
                return remaining.pop()

            async with binder_at_work(api, recorded, remaining_seconds):
                await ended.wait()
                release.set()
                await other
            assert bindings(server) == 0
            assert recorded.bound_pods == []

    run(test)


# --- Confirmation


POD = "/api/v1/namespaces/default/pods/p"


def refusing(*paths: str) -> Callable[[Request], Fault]:
    """Bindings conflict, and these paths may not be read."""

    def fault(request: Request) -> Fault:
        if request.path.endswith("/binding"):
            return Fault(status=409)
        return Fault(status=403) if request.path in paths else Fault()

    return fault


# The pod is read back at once and again at short intervals.
SOON = BinderTimes(
    locator=LocatorTimes(initial_backoff_seconds=0.01, max_refused_backoff_seconds=0.02)
)


def test_a_pod_that_may_not_be_read_is_listed() -> None:
    async def test() -> None:
        recorded = Recorded()
        async with serving() as server, server.api() as api:
            server.fault = refusing(POD)
            pod = {"metadata": {"name": "p", "namespace": "default", "uid": "u"}}
            spec = {"nodeName": "n", "containers": [{"name": "c"}]}
            server.objects["/api/v1/pods"] = {"items": [{**pod, "spec": spec}]}
            async with binder_at_work(api, recorded, times=SOON):
                await until(lambda: recorded.bound_pods == ["default/p"])
            assert recorded.doubts == []

    run(test)


def test_missing_rights_are_reported_with_the_right_that_is_needed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        recorded = Recorded()
        async with serving() as server, server.api() as api:
            server.fault = refusing(POD, "/api/v1/pods")
            async with binder_at_work(api, recorded, times=SOON):
                await until(lambda: len(recorded.doubts) == 3)
                asked = len(server.requests)
            assert 16 <= asked < 24
            assert recorded.bound_pods == []
            assert "bound to n" in recorded.doubts[0]
            assert "needs the right to get and list pods" in recorded.doubts[0]

    with caplog.at_level(logging.WARNING):
        run(test)
    assert caplog.text.count("default/p cannot be read back") == 1


def test_the_watch_confirms_a_binding_that_may_not_be_read() -> None:
    async def test() -> None:
        recorded = Recorded()
        reader, _ = cluster()
        async with serving() as server, server.api() as api:
            server.fault = refusing(POD, "/api/v1/pods")
            async with binder_at_work(api, recorded, reader=reader, times=SOON):
                await until(lambda: len(recorded.doubts) == 1)
                known = reader.pods.get("default/p")
                assert known is not None
                spec = msgspec.structs.replace(known.spec, node_name="n")
                reader.pods.changed(msgspec.structs.replace(known, spec=spec))
                await until(lambda: recorded.bound_pods == ["default/p"])

    run(test)
