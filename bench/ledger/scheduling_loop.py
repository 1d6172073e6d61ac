"""Pods as a watch would bring them, and the door between them and a ledger."""

import asyncio
import json
from collections.abc import AsyncGenerator, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from time import perf_counter

import msgspec
import numpy as np

from afflux.app import scheduler
from afflux.cluster.state import State
from afflux.config import parse_spec
from afflux.cycle.loop import Cycle, Outcome
from afflux.kube import objects
from afflux.kube.api.client import Api
from afflux.kube.api.connection import Connection
from afflux.kube.decoding import KUBERNETES_SCHEDULER
from afflux.kube.live.keeping import Keeping
from afflux.kube.live.mirror import Mirror
from afflux.ledger.embedded import Embedded
from afflux.ledger.postgres import PostgresLedger

SPEC = "cpu-memory@flow"
SHAPES = 50


def pods(groups: int, size: int, first: int = 0) -> list[objects.Pod]:
    """So many groups of so many pods, of fifty different shapes.

    10,000 of them take nine tenths of the CPU of 1,000 machines, as in bench/cold_cycle.
    """
    rng = np.random.default_rng(1)
    cpu, memory = rng.lognormal(0.0, 0.7, (2, SHAPES))
    cpu_milli = (cpu / cpu.mean() * 3_600).astype(int)
    memory_mib = (memory / memory.mean() * 11_000).astype(int)
    return [
        _pod(f"g{number}", size, member, cpu_milli[number % SHAPES], memory_mib[number % SHAPES])
        for number in range(first, first + groups)
        for member in range(size)
    ]


def _pod(group: str, size: int, member: int, cpu_milli: int, memory_mib: int) -> objects.Pod:
    labels = {"afflux.dev/group-name": group, "afflux.dev/group-size": str(size)}
    requests = {"cpu": f"{cpu_milli}m", "memory": f"{memory_mib}Mi"}
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
    """Machines of two sizes."""
    found: list[objects.Node] = []
    for number in range(count):
        cpu = "64" if number % 4 == 0 else "32"
        capacity = {"cpu": cpu, "memory": "128Gi", "pods": "110"}
        ready = [{"type": "Ready", "status": "True"}]
        node = {
            "metadata": {"name": f"n{number}", "resourceVersion": "1"},
            "status": {"allocatable": capacity, "capacity": capacity, "conditions": ready},
        }
        found.append(msgspec.json.decode(json.dumps(node), type=objects.Node))
    return found


class Door:
    """The parts of the live door that a ledger has to do with, if there is one."""

    def __init__(self, mirror: Mirror, cycle: Cycle, keeping: Keeping | None) -> None:
        self.mirror = mirror
        self._keeping = keeping
        # What the ledger has taken of the loop's time, waiting for it included.
        self.ledger_seconds = 0.0
        self._cycle = cycle
        self._thread = ThreadPoolExecutor(1)

    async def cycle(self, now_seconds: float) -> Outcome:
        """As the loop does it."""
        events = self.mirror.drain()
        held = self.mirror.gathering.take_held_back()
        loop = asyncio.get_running_loop()
        deciding = loop.run_in_executor(self._thread, self._cycle.run, events, now_seconds)
        if self._keeping is not None:
            with self._counted():
                self._keeping.observe(events, held)
        outcome = await deciding
        self.mirror.assume(outcome.placements)
        if self._keeping is not None:
            with self._counted():
                await self._keeping.decided(outcome)
        if outcome.round is not None:
            reasons = self._cycle.explain() if len(self._cycle.queue) else {}
            if self._keeping is not None:
                with self._counted():
                    self._keeping.explained(reasons, outcome)
        return outcome

    @contextmanager
    def _counted(self) -> Generator[None]:
        began = perf_counter()
        yield
        self.ledger_seconds += perf_counter() - began

    def bound(self, outcome: Outcome) -> None:
        """Every bind succeeds, and the watch says so."""
        if self._keeping is not None:
            with self._counted():
                for placement in outcome.placements:
                    self._keeping.settled(placement, "bound")
        for placement in outcome.placements:
            pod = self.mirror.pods.get(placement.task.name)
            assert pod is not None
            metadata = msgspec.structs.replace(pod.metadata, resource_version="2")
            spec = msgspec.structs.replace(pod.spec, node_name=placement.machine)
            self.mirror.pods.changed(msgspec.structs.replace(pod, metadata=metadata, spec=spec))

    def ended(self, outcome: Outcome) -> None:
        """All of them have run, and the watch says so."""
        for placement in outcome.placements:
            pod = self.mirror.pods.get(placement.task.name)
            assert pod is not None
            metadata = msgspec.structs.replace(pod.metadata, resource_version="3")
            status = objects.PodStatus(phase="Succeeded")
            self.mirror.pods.deleted(msgspec.structs.replace(pod, metadata=metadata, status=status))

    async def queued(self) -> None:
        """Until everybody who has come stands in the queue, with nothing decided."""
        assert self._keeping is not None
        self._keeping.observe(self.mirror.drain(), self.mirror.gathering.take_held_back())
        await self._keeping.decided(Outcome())
        await self.written()

    async def written(self) -> None:
        """Until the ledger has everything."""
        if self._keeping is not None:
            await self._keeping.written()


@asynccontextmanager
async def door(
    machines: Sequence[objects.Node], directory: str | None = None
) -> AsyncGenerator[Door]:
    """A door over these machines; a ledger in this directory, if one is named."""
    mirror = Mirror([KUBERNETES_SCHEDULER])
    mirror.nodes.replaced(machines)
    state = State()
    cycle = Cycle(state, scheduler(parse_spec(SPEC), state))
    if directory is None:
        yield Door(mirror, cycle, None)
        return
    server = Embedded(directory)
    ledger = PostgresLedger(server.address)
    async with Api(Connection("http://127.0.0.1:9", "nobody")) as api:
        keeping = Keeping(ledger, mirror, api, scheduler_names=[KUBERNETES_SCHEDULER])
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
