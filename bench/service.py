"""`python -m bench.service`: the gRPC service on this machine, beside the cycle without it.

10,000 tasks of ten classes on 1,000 machines are submitted one by one to `afflux serve`, a process
of its own, and scheduled by one call. No task may be lost. The same cycle is run in this process.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, cast

import grpc
import grpc.aio

from afflux.app import make_scheduler
from afflux.cluster.state import State
from afflux.config import parse_scheduler_spec
from afflux.cycle.events import GroupReady, MachineSet
from afflux.cycle.loop import Cycle
from afflux.groups.register import GroupRegister
from afflux.model.resources import PODS, amount_of
from afflux.rpc.machine_messages import described_machines
from afflux.rpc.proto.firmament import resources_pb2 as machines
from afflux.rpc.proto.firmament import scheduler_pb2 as pb
from afflux.rpc.task_messages import described_task

MACHINES = 1_000
TASKS = 10_000
CLASSES = 10
SLOTS = 110
CALLS_AT_ONCE = 64
RUNS = 3

_CONFIGURATION = {
    "apiVersion": "afflux.dev/v1alpha1",
    "kind": "AffluxConfiguration",
    "serving": {"bindAddress": "127.0.0.1", "port": 0},
}
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Figures:
    """Medians of some runs. `submit_seconds` and `submit_server_seconds`: until all tasks were
    submitted, and the processor time of the server for them. `schedule_seconds`: one call.
    `cycle_seconds`: the same cycle without the service, with the reasons of tasks that wait."""

    with_state_file: bool
    tasks: int
    placed: int
    submit_seconds: float
    submit_server_seconds: float
    schedule_seconds: float
    cycle_seconds: float

    @property
    def ratio(self) -> float:
        return self.schedule_seconds / self.cycle_seconds


def _nodes() -> list[machines.ResourceTopologyNodeDescriptor]:
    kinds = machines.ResourceDescriptor
    return [
        machines.ResourceTopologyNodeDescriptor(
            resource_desc=kinds(
                uuid=f"machine-{number}",
                type=kinds.RESOURCE_MACHINE,
                max_pods=SLOTS,
                available_resources=machines.ResourceVector(cpu_cores=32_000, ram_cap=2**47),
            ),
            children=[
                machines.ResourceTopologyNodeDescriptor(
                    resource_desc=kinds(uuid=f"unit-{number}", type=kinds.RESOURCE_PU)
                )
            ],
        )
        for number in range(MACHINES)
    ]


def _tasks() -> list[pb.TaskDescription]:
    return [
        pb.TaskDescription(
            task_descriptor={
                "uid": uid,
                "name": f"bench/task-{uid}",
                "task_namespace": "bench",
                "resource_request": {"cpu_cores": 500 + 100 * (uid % CLASSES), "ram_cap": 2**40},
            },
            job_descriptor={"uuid": f"job-{uid % CLASSES}", "name": f"job-{uid % CLASSES}"},
        )
        for uid in range(1, TASKS + 1)
    ]


# --- The service


class _Server:
    """`afflux serve` as a process."""

    def __init__(self, directory: str, *, with_state_file: bool) -> None:
        config, self._log = Path(directory, "config.yaml"), Path(directory, "log")
        config.write_text(json.dumps(_CONFIGURATION))
        command = [sys.executable, "-m", "afflux.cli", "serve", "--listen", "127.0.0.1:0"]
        state = ["--state", str(Path(directory, "state"))] if with_state_file else []
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "--config", str(config), *state], stdout=log, stderr=log
            )
        while (found := re.search(r"FirmamentScheduler on .*, port (\d+)", self._text())) is None:
            if self._process.poll() is not None:
                raise RuntimeError(self._text())
            time.sleep(0.05)
        self.address = f"127.0.0.1:{found[1]}"

    def cpu_seconds(self) -> float:
        """The processor time that it has used."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()

    def _text(self) -> str:
        return self._log.read_text()


async def _call_all(channel: grpc.aio.Channel, name: str, requests: Sequence[bytes]) -> None:
    call = cast("Any", channel).unary_unary(f"/firmament.FirmamentScheduler/{name}")

    async def some(part: Sequence[bytes]) -> None:
        for each in part:
            await call(each)

    await asyncio.gather(*(some(requests[n::CALLS_AT_ONCE]) for n in range(CALLS_AT_ONCE)))


async def _drive(server: _Server) -> tuple[float, float, float, int]:
    """Seconds of submitting, of the server's processor for it, of the schedule; placed tasks."""
    tasks = [each.SerializeToString() for each in _tasks()]
    options = (("grpc.max_receive_message_length", -1),)
    async with grpc.aio.insecure_channel(server.address, options=options) as channel:
        await _call_all(channel, "NodeAdded", [each.SerializeToString() for each in _nodes()])
        cpu, began = server.cpu_seconds(), time.perf_counter()
        await _call_all(channel, "TaskSubmitted", tasks)
        submitted, cpu = time.perf_counter() - began, server.cpu_seconds() - cpu
        schedule = cast("Any", channel).unary_unary("/firmament.FirmamentScheduler/Schedule")
        began = time.perf_counter()
        reply = pb.SchedulingDeltas.FromString(await schedule(b""))
        scheduled = time.perf_counter() - began
    placed = {each.task_id for each in reply.deltas}
    if placed | {*reply.unscheduled_tasks} != {*range(1, TASKS + 1)}:
        raise RuntimeError(f"{TASKS} tasks were submitted, and some were lost")
    return submitted, cpu, scheduled, len(placed)


# --- The same cycle without it


def _cycle_seconds() -> float:
    """The cycle over the same machines and tasks, and the reasons of those that wait."""
    state = State()
    cycle = Cycle(state, make_scheduler(parse_scheduler_spec("cpu-memory"), state))
    found = [each for node in _nodes() for each in described_machines(node)]
    set_up = [MachineSet(each.with_slots(SLOTS)) for each in found]
    assert all(amount_of(each.machine.capacity, PODS) == SLOTS for each in set_up)
    register = GroupRegister()
    for number, message in enumerate(_tasks()):
        register.set(described_task(message, float(number)).member)
    _, ready = register.take_starts()
    began = time.perf_counter()
    cycle.run([*set_up, *map(GroupReady, ready)])
    cycle.explain()
    return time.perf_counter() - began


def measure(*, with_state_file: bool) -> Figures:
    """Medians of some runs, each with a new service."""
    runs: list[tuple[float, float, float, int]] = []
    for _ in range(RUNS):
        with TemporaryDirectory() as directory:
            server = _Server(directory, with_state_file=with_state_file)
            try:
                runs.append(asyncio.run(_drive(server)))
            finally:
                server.stop()
    submits, cpus, schedules, placed = zip(*runs, strict=True)
    cycles = [_cycle_seconds() for _ in range(RUNS)]
    return Figures(
        with_state_file,
        TASKS,
        min(placed),
        median(submits),
        median(cpus),
        median(schedules),
        median(cycles),
    )


def show(figures: Figures) -> None:
    """Prints the figures in words."""
    state = "with" if figures.with_state_file else "without"
    print(
        f"{state} a state file, {figures.tasks:,} tasks are submitted in"
        f" {figures.submit_seconds:.2f} s: {figures.tasks / figures.submit_seconds:,.0f} a second,"
        f" {figures.tasks / figures.submit_server_seconds:,.0f} for each second of the server's"
        f" processor; one call schedules {figures.placed:,} of them on {MACHINES:,} machines in"
        f" {figures.schedule_seconds:.2f} s, {figures.ratio:.2f} times the cycle without the"
        f" service ({figures.cycle_seconds:.2f} s)"
    )


def main() -> None:
    """Measures the gRPC service and prints the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.service", description=main.__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    found = [measure(with_state_file=each) for each in (False, True)]
    for each in found:
        show(each)
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(each) for each in found], indent=2) + "\n")


if __name__ == "__main__":
    main()
