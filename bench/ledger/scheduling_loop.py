"""A scheduling loop without an API server: pods and nodes as from a watch, cycles, a ledger."""

import asyncio
import json
from collections.abc import AsyncGenerator, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from time import perf_counter

import msgspec
import numpy as np

from afflux.app import make_scheduler
from afflux.cluster.state import State
from afflux.config import parse_scheduler_spec
from afflux.control.ledger_writer import LedgerWriter
from afflux.cycle.loop import Cycle, Outcome
from afflux.kube import objects
from afflux.kube.api.client import Api
from afflux.kube.api.client_config import ClientConfig
from afflux.kube.live.pod_locator import PodLocator
from afflux.kube.pods import DEFAULT_SCHEDULER
from afflux.kube.reader.cluster_reader import ClusterReader
from afflux.ledger.embedded_postgres import EmbeddedPostgres
from afflux.ledger.postgres import PostgresLedger

SPEC = "cpu-memory@flow"
SHAPES = 50


def pods(groups: int, size: int, first: int = 0) -> list[objects.Pod]:
    """The pods of `groups` groups of `size`, in 50 shapes; the first group has number `first`.

    10,000 of them take nine tenths of the CPU of 1,000 machines, as in `bench.cold_cycle`.
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


class SchedulingLoop:
    """The parts of the live scheduler that work with the ledger, with or without one."""

    def __init__(
        self, reader: ClusterReader, cycle: Cycle, ledger_writer: LedgerWriter | None
    ) -> None:
        self.reader = reader
        self._ledger_writer = ledger_writer
        # The time in which the loop worked or waited for the ledger.
        self.ledger_seconds = 0.0
        self._cycle = cycle
        self._thread = ThreadPoolExecutor(1)

    async def cycle(self, now_seconds: float) -> Outcome:
        """Runs one cycle like the live scheduler."""
        events = self.reader.take_events(now_seconds)
        loop = asyncio.get_running_loop()
        outcome = await loop.run_in_executor(self._thread, self._cycle.run, events, now_seconds)
        self.reader.assume(outcome.placements)
        if self._ledger_writer is not None:
            with self._counted():
                await self._ledger_writer.write_decision(outcome)
        if outcome.decision is not None:
            reasons = self._cycle.explain() if len(self._cycle.queue) else {}
            self.reader.register.set_reasons(reasons, outcome.unsatisfiable)
        return outcome

    @contextmanager
    def _counted(self) -> Generator[None]:
        began = perf_counter()
        yield
        self.ledger_seconds += perf_counter() - began

    def bound(self, outcome: Outcome) -> None:
        """Lets every bind succeed, and the watch report it."""
        with self._counted():
            for placement in outcome.placements:
                self.reader.register.bound(placement.task.id, placement.machine)
        for placement in outcome.placements:
            pod = self.reader.pods.get(placement.task.name)
            assert pod is not None
            metadata = msgspec.structs.replace(pod.metadata, resource_version="2")
            spec = msgspec.structs.replace(pod.spec, node_name=placement.machine)
            self.reader.pods.changed(msgspec.structs.replace(pod, metadata=metadata, spec=spec))

    def ended(self, outcome: Outcome) -> None:
        """Lets all these pods end, and the watch report it."""
        for placement in outcome.placements:
            pod = self.reader.pods.get(placement.task.name)
            assert pod is not None
            metadata = msgspec.structs.replace(pod.metadata, resource_version="3")
            status = objects.PodStatus(phase="Succeeded")
            self.reader.pods.changed(msgspec.structs.replace(pod, metadata=metadata, status=status))

    async def queued(self) -> None:
        """Waits until all arrived groups are in the queue's table, without a decision."""
        assert self._ledger_writer is not None
        self.reader.take_events()
        await self._ledger_writer.write_decision(Outcome())
        await self.written()

    async def written(self) -> None:
        """Waits until the ledger has written everything."""
        if self._ledger_writer is not None:
            await self._ledger_writer.wait_written()


@asynccontextmanager
async def scheduling_loop(
    machines: Sequence[objects.Node], directory: str | None = None
) -> AsyncGenerator[SchedulingLoop]:
    """A scheduling loop over these machines, with a ledger if `directory` is given."""
    reader = ClusterReader([DEFAULT_SCHEDULER])
    reader.nodes.replaced(machines)
    state = State()
    cycle = Cycle(state, make_scheduler(parse_scheduler_spec(SPEC), state))
    if directory is None:
        yield SchedulingLoop(reader, cycle, None)
        return
    server = EmbeddedPostgres(directory)
    ledger = PostgresLedger(server.address)
    async with Api(ClientConfig("http://127.0.0.1:9", "no-server")) as api:
        ledger_writer = LedgerWriter(ledger, reader.register)
        try:
            await ledger_writer.take_over(cycle, PodLocator(api, reader), None, 0.0)
            writing = asyncio.create_task(ledger_writer.run())
            try:
                yield SchedulingLoop(reader, cycle, ledger_writer)
            finally:
                writing.cancel()
                await asyncio.wait({writing})
        finally:
            await ledger.close()
            server.stop()
