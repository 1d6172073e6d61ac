"""Pods as a watch would bring them, and the door between them and a ledger."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import msgspec

from afflux.app import scheduler
from afflux.cluster.state import State
from afflux.config import parse_spec
from afflux.cycle.loop import Cycle, Outcome
from afflux.kube import objects
from afflux.kube.api.client import Api
from afflux.kube.api.connection import Connection
from afflux.kube.live.keeping import Keeping
from afflux.kube.live.mirror import DEFAULT_SCHEDULER, Mirror
from afflux.ledger.embedded import Embedded
from afflux.ledger.postgres import PostgresLedger

SPEC = "cpu-memory@flow"


def pods(groups: int, size: int, first: int = 0) -> list[objects.Pod]:
    """So many groups of so many pods, of ten different shapes."""
    return [
        _pod(f"g{number}", size, member, 100 + 10 * (number % 10))
        for number in range(first, first + groups)
        for member in range(size)
    ]


def _pod(group: str, size: int, member: int, cpu_milli: int) -> objects.Pod:
    labels = {"afflux.dev/group-name": group, "afflux.dev/group-size": str(size)}
    requests = {"cpu": f"{cpu_milli}m", "memory": "64Mi"}
    name = f"{group}-{member}"
    found = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"00000000-0000-4000-8000-{name:0>12}",
            "labels": labels,
            "creationTimestamp": "2026-11-15T20:00:00Z",
            "resourceVersion": "1",
        },
        "spec": {
            "activeDeadlineSeconds": 3600,
            "containers": [{"name": "c", "resources": {"requests": requests}}],
        },
    }
    return msgspec.json.decode(json.dumps(found), type=objects.Pod)


def nodes(count: int) -> list[objects.Node]:
    """Machines that are all alike."""
    found: list[objects.Node] = []
    for number in range(count):
        capacity = {"cpu": "64", "memory": "256Gi", "pods": "200"}
        ready = [{"type": "Ready", "status": "True"}]
        node = {
            "metadata": {"name": f"n{number}", "resourceVersion": "1"},
            "status": {"allocatable": capacity, "capacity": capacity, "conditions": ready},
        }
        found.append(msgspec.json.decode(json.dumps(node), type=objects.Node))
    return found


class Door:
    """The parts of the live door that a ledger has to do with; with or without one."""

    def __init__(self, mirror: Mirror, cycle: Cycle, keeping: Keeping | None) -> None:
        self.mirror = mirror
        self._cycle = cycle
        self._keeping = keeping
        self._thread = ThreadPoolExecutor(1)

    async def cycle(self, now_seconds: float) -> Outcome:
        """As the loop does it."""
        events = self.mirror.drain()
        held = self.mirror.gathering.take_held_back()
        loop = asyncio.get_running_loop()
        deciding = loop.run_in_executor(self._thread, self._cycle.run, events, now_seconds)
        if self._keeping is not None:
            self._keeping.observe(events, held)
        outcome = await deciding
        self.mirror.assume(outcome.placements)
        if self._keeping is not None:
            await self._keeping.decided(outcome)
        if outcome.round is not None:
            reasons = self._cycle.explain() if len(self._cycle.queue) else {}
            if self._keeping is not None:
                self._keeping.explained(reasons, outcome)
        return outcome

    def bound(self, outcome: Outcome) -> None:
        """Every bind succeeds, and the watch says so."""
        for placement in outcome.placements:
            if self._keeping is not None:
                self._keeping.settled(placement, "bound")
            pod = self.mirror.pods.get(placement.task.name)
            assert pod is not None
            metadata = msgspec.structs.replace(pod.metadata, resource_version="2")
            spec = msgspec.structs.replace(pod.spec, node_name=placement.machine)
            self.mirror.pods.changed(msgspec.structs.replace(pod, metadata=metadata, spec=spec))

    async def written(self) -> None:
        """Wait for what the ledger does beside the cycles."""
        if self._keeping is not None:
            await self._keeping.written()

    async def queued(self) -> None:
        """Until everybody who has come stands in the queue, with nothing decided."""
        assert self._keeping is not None
        self._keeping.observe(self.mirror.drain(), self.mirror.gathering.take_held_back())
        await self._keeping.decided(Outcome())
        await self._keeping.written()


@asynccontextmanager
async def door(directory: str | None, machines: Sequence[objects.Node]) -> AsyncGenerator[Door]:
    """A door over these machines, with an embedded server in this directory, or without."""
    mirror = Mirror([DEFAULT_SCHEDULER])
    mirror.nodes.replaced(machines)
    state = State()
    cycle = Cycle(state, scheduler(parse_spec(SPEC), state))
    if directory is None:
        yield Door(mirror, cycle, None)
        return
    server = Embedded(directory)
    ledger = PostgresLedger(server.address)
    async with Api(Connection("http://127.0.0.1:9", "nobody")) as api:
        keeping = Keeping(ledger, mirror, api, scheduler_names=[DEFAULT_SCHEDULER])
        try:
            await keeping.begin(cycle, None, 0.0)
            writing = asyncio.create_task(keeping.run())
            try:
                yield Door(mirror, cycle, keeping)
            finally:
                writing.cancel()
                await asyncio.wait({writing})
        finally:
            await ledger.close()
            server.stop()
