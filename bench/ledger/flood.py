"""Pods as a watch would bring them, and the door between them and a ledger."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter

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


@dataclass
class Spent:
    """Seconds of one cycle: everything, and what of it is the ledger's."""

    total: float = 0.0
    ledger: float = 0.0


class Door:
    """The parts of the live door that a ledger has to do with."""

    def __init__(self, mirror: Mirror, cycle: Cycle, keeping: Keeping) -> None:
        self.mirror = mirror
        self._cycle = cycle
        self._keeping = keeping

    async def cycle(self, now_seconds: float) -> tuple[Spent, Outcome]:
        """As the loop does it, with the last row written at the end."""
        began = perf_counter()
        events = self.mirror.drain()
        held = self.mirror.gathering.take_held_back()
        observed = perf_counter()
        self._keeping.observe(events, held)
        kept = perf_counter() - observed
        outcome = self._cycle.run(events, now_seconds)
        self.mirror.assume(outcome.placements)
        decided = perf_counter()
        await self._keeping.decided(outcome)
        await self._keeping.written()
        kept += perf_counter() - decided
        if outcome.round is not None:
            reasons = self._cycle.explain() if len(self._cycle.queue) else {}
            explained = perf_counter()
            self._keeping.explained(reasons, outcome)
            kept += perf_counter() - explained
        return Spent(perf_counter() - began, kept), outcome

    def bound(self, outcome: Outcome) -> float:
        """Every bind succeeded, and the watch says so; seconds that the ledger took of it."""
        began = perf_counter()
        for placement in outcome.placements:
            self._keeping.settled(placement, "bound")
        seconds = perf_counter() - began
        for placement in outcome.placements:
            pod = self.mirror.pods.get(placement.task.name)
            assert pod is not None
            metadata = msgspec.structs.replace(pod.metadata, resource_version="2")
            spec = msgspec.structs.replace(pod.spec, node_name=placement.machine)
            self.mirror.pods.changed(msgspec.structs.replace(pod, metadata=metadata, spec=spec))
        return seconds


@asynccontextmanager
async def door(directory: str, machines: Sequence[objects.Node]) -> AsyncIterator[Door]:
    """A door over an embedded server in this directory, and over these machines."""
    server = Embedded(directory)
    ledger = PostgresLedger(server.address)
    async with Api(Connection("http://127.0.0.1:9", "nobody")) as api:
        mirror = Mirror([DEFAULT_SCHEDULER])
        mirror.nodes.replaced(machines)
        state = State()
        cycle = Cycle(state, scheduler(parse_spec(SPEC), state))
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
