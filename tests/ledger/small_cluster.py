"""A leader with a ledger: pods and nodes come as from a watch; the API server is a fake."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from small_api import SmallApi, serving

from afflux.app import make_scheduler
from afflux.cluster.state import State
from afflux.config import parse_scheduler_spec
from afflux.control.ledger_writer import LedgerWriter
from afflux.cycle.interfaces import Ledger
from afflux.cycle.loop import Cycle, Outcome
from afflux.kube import objects
from afflux.kube.live.pod_locator import PodLocator
from afflux.kube.pods import DEFAULT_SCHEDULER
from afflux.kube.reader.cluster_reader import ClusterReader

NOW = 1_763_236_800.0


def pod(
    name: str,
    group: str | None = None,
    size: int | str = 2,
    *,
    node: str | None = None,
    version: int = 1,
    created: int = 0,
    cpu: str = "1",
    uid: str | None = None,
    **more: Any,
) -> objects.Pod:
    """A pod of the namespace default; a member of `group` if one is given."""
    labels = {"afflux.dev/group-name": group, "afflux.dev/group-size": str(size)} if group else {}
    found = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid or f"uid-{name}",
            "labels": labels,
            "creationTimestamp": f"2025-11-15T20:00:{created:02}Z",
            "resourceVersion": str(version),
            **more.pop("metadata", {}),
        },
        "spec": {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
            **({"nodeName": node} if node else {}),
            **more.pop("spec", {}),
        },
        **more,
    }
    return msgspec.json.decode(json.dumps(found), type=objects.Pod)


def node(
    name: str, cpu: int = 8, *, version: int = 1, labels: dict[str, str] | None = None
) -> objects.Node:
    capacity = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
    found = {
        "metadata": {"name": name, "resourceVersion": str(version), "labels": labels},
        "status": {
            "allocatable": capacity,
            "capacity": capacity,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    return msgspec.json.decode(json.dumps(found), type=objects.Node)


class Leader:
    """The reader, cycle and ledger writer of one leader; only the test moves the clock `now`."""

    def __init__(self, ledger: Ledger, api: SmallApi, **options: Any) -> None:
        self.now = NOW
        # The seconds that the ledger writer would have slept between attempts.
        self.pauses: list[float] = []
        self.reader = ClusterReader([DEFAULT_SCHEDULER])
        state = State()
        self.cycle = Cycle(state, make_scheduler(parse_scheduler_spec("cpu-memory@fcfs"), state))
        self.server = api
        self._api = api.api()
        self._locator = PodLocator(self._api, self.reader, sleep=self._pause)
        self.ledger_writer = LedgerWriter(
            ledger,
            self.reader.register,
            now_seconds=lambda: self.now,
            sleep=self._pause,
            **options,
        )
        self.writing: asyncio.Task[None] | None = None

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0.001)

    async def begin(
        self,
        nodes: Sequence[objects.Node] = (),
        pods: Sequence[objects.Pod] = (),
        epoch: int | None = None,
        lease_seconds: float = 0.0,
    ) -> None:
        """Take over with these nodes and pods, and start the ledger writer."""
        self.reader.nodes.replaced(nodes)
        self.reader.pods.replaced(pods)
        await self.ledger_writer.take_over(self.cycle, self._locator, epoch, lease_seconds)
        self.writing = asyncio.create_task(self.ledger_writer.run())

    async def once(self) -> Outcome:
        """One cycle, up to the moment at which binds may be sent."""
        outcome = self.decide()
        await self.ledger_writer.write_decision(outcome)
        return outcome

    def decide(self) -> Outcome:
        """One cycle, up to the moment at which its decision must be written to the ledger."""
        outcome = self.cycle.run(self.reader.take_events(self.now), self.now)
        self.reader.assume(outcome.placements)
        return outcome

    async def settled(self) -> Outcome:
        """One cycle, until everything is written."""
        outcome = await self.once()
        if outcome.decision is not None:
            self.reader.register.set_reasons(self.cycle.explain(), outcome.unsatisfiable)
        await self.ledger_writer.wait_written()
        return outcome

    def bound(self, outcome: Outcome, version: int = 2) -> None:
        """Every bind of this cycle succeeds, and the watch reports it."""
        for placement in outcome.placements:
            self.reader.register.bound(placement.task.id, placement.machine)
            known = self.reader.pods.get(placement.task.name)
            assert known is not None
            metadata = msgspec.structs.replace(known.metadata, resource_version=str(version))
            spec = msgspec.structs.replace(known.spec, node_name=placement.machine)
            self.reader.pods.changed(msgspec.structs.replace(known, metadata=metadata, spec=spec))


@asynccontextmanager
async def leader_with(ledger: Ledger, **options: Any) -> AsyncIterator[Leader]:
    """A leader with this ledger, and a fake API server without objects."""
    async with serving() as server:
        one = Leader(ledger, server, **options)
        async with one._api:
            try:
                yield one
            finally:
                if one.writing is not None:
                    one.writing.cancel()
                    await asyncio.wait({one.writing})
                    if not one.writing.cancelled():
                        one.writing.exception()


async def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that another task makes true."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)


async def let_tasks_run() -> None:
    """Let every task run until it waits for input or output, however slow the machine is."""
    for _ in range(100):
        await asyncio.sleep(0)
