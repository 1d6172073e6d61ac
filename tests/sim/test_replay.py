"""A replay: starts and ends, their order, and no machine over its capacity."""

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afflux import app
from afflux.cluster.state import State
from afflux.cycle.decision import Decision
from afflux.cycle.interfaces import Scheduler
from afflux.model.devices import WHOLE_MILLI, DeviceRequest
from afflux.model.machine import Machine
from afflux.model.placement import Placement
from afflux.model.resources import amount_of, resources
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from afflux.plan.plan import Plan
from afflux.policies.policy import Policy
from afflux.sim.replay import SimulatedScheduler, replay
from afflux.sim.result import Result, Run
from afflux.sim.workload import Submission, Workload

SCHEDULERS = ["cpu-memory", "load-spreading", "cpu-memory@fcfs", "pod-by-pod"]


# --- Workloads


def processors(count: int) -> tuple[Machine, ...]:
    capacity = resources({"cpu": 1000, "pods": 1})
    return tuple(Machine(f"m{number}", capacity) for number in range(count))


def job(name: str, submit: float, run: float | None, size: int = 1) -> Submission:
    shape = Shape(resources({"cpu": 1000, "pods": 1}))
    tasks = tuple(Task(f"{name}.{i}", f"{name}.{i}", shape) for i in range(size))
    return Submission(WaitingGroup(name, tasks, ready_seconds=submit, run_seconds=run), run)


def workload(
    machines: int | tuple[Machine, ...], *jobs: Submission, cycle_per_event: bool = False
) -> Workload:
    if isinstance(machines, int):
        machines = processors(machines)
    return Workload("test", machines, jobs, cycle_per_event)


def simulated_scheduler(name: str) -> SimulatedScheduler:
    (found,) = app.simulated_schedulers([name])
    return found


def spans(result: Result) -> dict[str, tuple[float | None, float | None]]:
    """Start and end of each task."""
    return {run.task.name: (run.start, run.end) for run in result.runs}


def machines_of(result: Result) -> dict[str, str | None]:
    return {run.task.name: run.machine for run in result.runs}


@dataclass
class FirstFit:
    """A scheduler of processors only; it records the events of every cycle."""

    asked: list[list[str]] = field(default_factory=list)

    def policies_of(self, shape: Shape) -> Sequence[Policy]:
        return ()

    def decide(self, state: State, queue: Sequence[WaitingGroup], *when: object) -> Decision:
        self.asked.append([group.name for group in queue])
        free = [machine.name for row, machine in state.machines() if not state.running[row]]
        placements: list[Placement] = []
        placed: list[WaitingGroup] = []
        for group in queue:
            if len(group.tasks) <= len(free):
                placements += [Placement(task, free.pop(0)) for task in group.tasks]
                placed.append(group)
        return Decision(Plan(tuple(placements), tuple(placed), 0, 0, 0))


def first_fit(whole_groups: bool = True) -> tuple[SimulatedScheduler, FirstFit]:
    spy = FirstFit()
    return SimulatedScheduler("first-fit", lambda _: spy, whole_groups), spy


# --- Times


@pytest.mark.parametrize("name", SCHEDULERS)
def test_tasks_start_when_there_is_room_and_run_for_their_time(name: str) -> None:
    jobs = job("a", 0, 10), job("b", 2, 10), job("c", 3, 5)
    result = replay(workload(2, *jobs), simulated_scheduler(name))
    assert spans(result) == {"a.0": (0, 10), "b.0": (2, 12), "c.0": (10, 15)}
    assert result.ended_at == 15
    assert result.scheduler == name


@pytest.mark.parametrize("name", SCHEDULERS)
def test_runs_are_in_the_order_of_submission(name: str) -> None:
    jobs = job("b", 0, 10, 2), job("a", 0, 10), job("c", 1, None)
    result = replay(workload(2, *jobs), simulated_scheduler(name))
    assert [run.task.name for run in result.runs] == ["b.0", "b.1", "a.0", "c.0"]
    assert [run.group for run in result.runs] == ["b", "b", "a", "c"]
    assert [run.submit for run in result.runs] == [0, 0, 0, 1]


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_task_without_end_holds_its_machine_for_good(name: str) -> None:
    result = replay(
        workload(1, job("service", 0, None), job("batch", 5, 10)), simulated_scheduler(name)
    )
    assert spans(result) == {"service.0": (0, None), "batch.0": (None, None)}
    assert machines_of(result) == {"service.0": "m0", "batch.0": None}
    assert result.ended_at == 5


@pytest.mark.parametrize("name", ["cpu-memory", "load-spreading"])
def test_a_task_that_fits_nowhere_waits_and_blocks_no_other(name: str) -> None:
    result = replay(workload(2, job("huge", 0, 10, 3), job("a", 1, 10)), simulated_scheduler(name))
    assert spans(result)["a.0"] == (1, 11)
    assert [(r.bound, r.start, r.end, r.machine) for r in result.runs[:3]] == [(None,) * 4] * 3


def test_under_fcfs_a_waiting_group_blocks_later_ones_unless_it_can_never_start() -> None:
    jobs = job("first", 0, 10), job("huge", 1, 10, 3), job("both", 2, 10, 2), job("a", 3, 10)
    result = replay(workload(2, *jobs), simulated_scheduler("cpu-memory@fcfs"))
    assert spans(result)["first.0"] == (0, 10)
    assert spans(result)["huge.0"] == (None, None)
    assert spans(result)["both.0"] == (10, 20)
    assert spans(result)["a.0"] == (20, 30)


def test_a_workload_without_submissions_ends_at_once() -> None:
    result = replay(workload(2), simulated_scheduler("cpu-memory"))
    assert (result.runs, result.cycles, result.ended_at) == ((), (), 0)


def test_a_workload_without_machines_leaves_everything_waiting() -> None:
    for name in SCHEDULERS:
        result = replay(workload(0, job("a", 0, 10), job("b", 1, 10, 2)), simulated_scheduler(name))
        assert set(spans(result).values()) == {(None, None)}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_resource_that_no_machine_has_makes_its_task_wait(name: str) -> None:
    odd = Shape(resources({"example.com/odd": 1, "pods": 1}))
    group = WaitingGroup("odd", (Task("odd.0", "odd.0", odd),), ready_seconds=0.0)
    result = replay(workload(1, Submission(group, 10.0)), simulated_scheduler(name))
    assert spans(result) == {"odd.0": (None, None)}


# --- Order of events at the same time


def test_all_events_of_one_time_are_decided_together() -> None:
    who, spy = first_fit()
    replay(workload(1, job("a", 0, 10), job("b", 10, 1), job("c", 10, 1)), who)
    # At 10 the machine is free again, and both other groups have arrived.
    assert spy.asked == [["a"], ["b", "c"], ["c"], []]


def test_with_a_cycle_per_event_submissions_come_before_ends() -> None:
    who, spy = first_fit()
    jobs = job("a", 0, 10), job("b", 0, 10), job("c", 10, 5), job("d", 10, 5)
    result = replay(workload(2, *jobs, cycle_per_event=True), who)
    #                submit a, b, c, d           end of a, of b     of c, d
    assert spy.asked == [["a"], ["b"], ["c"], ["c", "d"], ["c", "d"], ["d"], [], []]
    machines = machines_of(result)
    assert machines["c.0"] == machines["a.0"]
    assert machines["d.0"] == machines["b.0"]


def test_with_a_cycle_per_event_a_submission_is_decided_before_machines_are_released() -> None:
    jobs = job("a", 0, 10), job("wide", 5, 1, 2), job("late", 10, 7)
    result = replay(workload(2, *jobs, cycle_per_event=True), simulated_scheduler("cpu-memory"))
    # When `late` arrives one processor is free; the other is given back after that, still at 10.
    assert spans(result)["late.0"] == (10, 17)
    assert spans(result)["wide.0"] == (17, 18)


def test_ends_at_the_same_time_come_in_order_of_submission_not_of_start() -> None:
    who, _ = first_fit()
    # b starts before a (which needs two), both end at 20; c then gets a machine of a.
    jobs = job("x", 0, 10, 2), job("a", 1, 10, 2), job("b", 2, 18), job("c", 3, 5)
    result = replay(workload(3, *jobs, cycle_per_event=True), who)
    assert spans(result)["a.0"] == spans(result)["a.1"] == (10, 20)
    assert spans(result)["b.0"] == (2, 20)
    assert spans(result)["c.0"] == (20, 25)
    assert machines_of(result)["c.0"] in {machines_of(result)["a.0"], machines_of(result)["a.1"]}


# --- Groups


@pytest.mark.parametrize("name", ["cpu-memory", "load-spreading", "cpu-memory@fcfs"])
def test_a_gang_starts_as_a_whole(name: str) -> None:
    result = replay(workload(3, job("a", 0, 10), job("gang", 1, 5, 3)), simulated_scheduler(name))
    assert spans(result)["gang.0"] == spans(result)["gang.2"] == (10, 15)
    assert all(run.bound == run.start for run in result.runs)


def test_without_whole_groups_members_hold_their_machines_until_the_last_one_is_placed() -> None:
    for who in (first_fit(whole_groups=False)[0], simulated_scheduler("pod-by-pod")):
        result = replay(workload(2, job("a", 0, 10), job("gang", 1, 5, 2)), who)
        assert [(r.bound, r.start, r.end) for r in result.runs] == [
            (0, 0, 10),
            (1, 10, 15),
            (10, 10, 15),
        ]


def test_without_whole_groups_a_gang_that_lacks_a_member_can_hold_machines_for_good() -> None:
    who, _ = first_fit(whole_groups=False)
    result = replay(workload(2, job("x", 0, 10, 2), job("gang", 1, 5, 3), job("c", 20, 1)), who)
    held = [run for run in result.runs if run.group == "gang"]
    assert [(r.bound, r.start, r.end) for r in held] == [
        (10, None, None),
        (10, None, None),
        (None, None, None),
    ]
    assert spans(result)["c.0"] == (None, None)


def test_without_whole_groups_members_and_groups_may_share_a_name() -> None:
    who, _ = first_fit(whole_groups=False)
    single = job("a.1", 0, 5)  # the group has the name of a member of the other group
    result = replay(workload(4, job("a", 0, 5, 2), single), who)
    assert all(run.start == 0 for run in result.runs)


# --- With an interval


def test_with_an_interval_the_scheduler_runs_at_its_multiples_once_for_all() -> None:
    for per_event in (False, True):
        who, spy = first_fit()
        jobs = job("a", 0, 12), job("b", 3, 5), job("c", 4, 5)
        result = replay(workload(2, *jobs, cycle_per_event=per_event), who, 10)
        assert spans(result) == {"a.0": (0, 12), "b.0": (10, 15), "c.0": (20, 25)}
        assert spy.asked == [["a"], ["b", "c"], ["c"], []]
        assert [cycle.at for cycle in result.cycles] == [0, 10, 20]
        assert result.ended_at == 30


@settings(max_examples=200)
@given(
    st.floats(0, 1e6),
    st.one_of(st.floats(1e-9, 1e6), st.sampled_from([0.1, 0.3, 0.7, 1e-300, 5e-324])),
    st.integers(0, 100_000),
)
def test_an_interval_never_stops_the_clock(offset: float, interval: float, step: int) -> None:
    for submit in {offset, step * interval, math.nextafter(step * interval, math.inf)}:
        who, _ = first_fit()
        (run,) = replay(workload(1, job("a", submit, 1)), who, interval).runs
        assert run.start is not None
        assert submit <= run.start <= submit + interval * (1 + 1e-6)


# --- Progress and cycles


def test_progress_counts_every_submission_and_every_end() -> None:
    heard: list[int] = []
    jobs = job("a", 0, 10, 2), job("b", 1, None), job("huge", 2, 5, 9), job("c", 3, 1)
    replay(workload(3, *jobs), simulated_scheduler("cpu-memory"), progress=heard.append)
    assert sum(heard) == 4 + 2, "four groups arrive, a and c end"


def test_cycles_count_tasks_that_waited_and_were_placed() -> None:
    who, _ = first_fit()
    result = replay(workload(2, job("a", 0, 10, 2), job("b", 1, 10, 2), job("c", 2, 1, 3)), who)
    assert [(c.at, c.waiting, c.placed) for c in result.cycles] == [
        (0, 2, 2),
        (1, 2, 0),
        (2, 5, 0),
        (10, 5, 2),
        (20, 3, 0),
    ]
    assert all(cycle.seconds >= 0 for cycle in result.cycles)


# --- Against an independent simulator


def fcfs_starts(jobs: Sequence[tuple[int, int, int]], size: int) -> list[int]:
    """First come, first served on `size` processors; jobs are (submit, run, processors)."""
    running: list[tuple[int, int]] = []
    free, now, starts = size, 0, []
    for submit, run, wanted in jobs:
        now = max(now, submit)
        while running and (running[0][0] <= now or free < wanted):
            end, given_back = heapq.heappop(running)
            free += given_back
            now = max(now, end)
        starts.append(now)
        free -= wanted
        heapq.heappush(running, (now + run, wanted))
    return starts


logs = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 20), st.integers(1, 8)), min_size=1, max_size=25
)


@settings(max_examples=150)
@given(logs, st.booleans())
def test_fcfs_starts_every_job_when_an_independent_simulator_does(
    log: list[tuple[int, int, int]], cycle_per_event: bool
) -> None:
    log = sorted(log, key=lambda entry: entry[0])
    jobs = [job(f"{n}", submit, run, size) for n, (submit, run, size) in enumerate(log)]
    result = replay(
        workload(8, *jobs, cycle_per_event=cycle_per_event), simulated_scheduler("cpu-memory@fcfs")
    )
    starts = {run.group: run.start for run in result.runs}
    assert [starts[f"{n}"] for n in range(len(log))] == fcfs_starts(log, 8)


# --- No machine is over its capacity


@dataclass
class Watched:
    """Wraps a scheduler and records the devices of each task."""

    inner: Scheduler
    devices: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def policies_of(self, shape: Shape) -> Sequence[Policy]:
        return self.inner.policies_of(shape)

    def decide(self, state: State, queue: Sequence[WaitingGroup], *when: object) -> Decision:
        decided = self.inner.decide(state, queue, *when)
        self.devices |= {p.task.id: p.devices for p in decided.plan.placements}
        return decided


machines_strategy = st.lists(
    st.builds(
        lambda cpu, memory, odd, pods, devices: (
            resources({"cpu": cpu, "memory": memory, "example.com/odd": odd, "pods": pods}),
            devices,
        ),
        st.integers(0, 8),
        st.integers(0, 8),
        st.integers(0, 2),
        st.integers(0, 6),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=4,
)
shapes_strategy = st.builds(
    lambda cpu, memory, odd, devices: Shape(
        resources({"cpu": cpu, "memory": memory, "example.com/odd": odd, "pods": 1}), devices
    ),
    st.integers(0, 5),
    st.integers(0, 5),
    st.sampled_from([0, 0, 0, 1, 2]),
    st.one_of(
        st.none(),
        st.builds(DeviceRequest, st.integers(1, 2), st.sampled_from([200, 500, 600, 1000])),
    ),
)
groups_strategy = st.lists(
    st.tuples(
        st.lists(shapes_strategy, min_size=1, max_size=4),
        st.integers(0, 10),
        st.one_of(st.integers(1, 8), st.integers(1, 8), st.none()),
        st.integers(0, 1),
    ),
    min_size=1,
    max_size=12,
)


def random_workload(machines: Iterable, groups: Iterable, cycle_per_event: bool) -> Workload:
    submissions = []
    for number, (shapes, submit, run, priority) in enumerate(groups):
        tasks = tuple(Task(f"{number}.{i}", f"{number}.{i}", s) for i, s in enumerate(shapes))
        group = WaitingGroup(f"{number}", tasks, priority, float(submit), run)
        submissions.append(Submission(group, run))
    submissions.sort(key=lambda submission: submission.group.ready_seconds)
    cluster = tuple(Machine(f"m{n}", *offer) for n, offer in enumerate(machines))
    return workload(cluster, *submissions, cycle_per_event=cycle_per_event)


def check_capacity(result: Result, devices: dict[str, tuple[int, ...]]) -> None:
    """At every binding, the tasks of each machine fit, device by device."""
    held = [run for run in result.runs if run.machine is not None]
    for machine in result.workload.machines:
        here = [run for run in held if run.machine == machine.name]
        for moment in {run.bound for run in here}:
            assert moment is not None
            now = [run for run in here if holds(run, moment)]
            names = {name for run in now for name, _ in run.task.shape.requests}
            for name in names:
                used = sum(amount_of(run.task.shape.requests, name) for run in now)
                assert used <= amount_of(machine.capacity, name), (machine.name, name, moment)
            left = [WHOLE_MILLI] * machine.devices
            for run in now:
                check_devices(run, devices[run.task.id], left)


def check_devices(run: Run, taken: tuple[int, ...], left: list[int]) -> None:
    request = run.task.shape.devices
    if request is None:
        assert taken == ()
        return
    assert len(set(taken)) == request.count, "different devices"
    for index in taken:
        left[index] -= request.milli
        assert left[index] >= 0, "a device is over its capacity"


def holds(run: Run, moment: float) -> bool:
    return run.bound is not None and run.bound <= moment and (run.end is None or moment < run.end)


def check_groups(result: Result, whole: bool) -> None:
    for submission in result.workload.submissions:
        group = submission.group
        runs = [run for run in result.runs if run.group == group.name]
        started = {run.start for run in runs}
        assert len(started) == 1
        (start,) = started
        if start is not None:
            assert start == max(run.bound or 0.0 for run in runs)
            assert start >= group.ready_seconds
            for run in runs:
                assert run.end == (
                    None if submission.run_seconds is None else start + submission.run_seconds
                )
        if whole:
            assert len({run.bound for run in runs}) == 1, "all at once or none at all"


@pytest.mark.slow
@settings(max_examples=100)
@given(machines_strategy, groups_strategy, st.booleans(), st.sampled_from([0.0, 0.0, 3.0]))
def test_no_machine_is_ever_over_capacity(
    machines: list, groups: list, cycle_per_event: bool, interval: float
) -> None:
    for name in SCHEDULERS:
        who = simulated_scheduler(name)
        watched: list[Watched] = []

        def make(
            state: State, who: SimulatedScheduler = who, seen: list[Watched] = watched
        ) -> Watched:
            seen.append(Watched(who.make(state)))
            return seen[-1]

        result = replay(
            random_workload(machines, groups, cycle_per_event),
            SimulatedScheduler(name, make, who.whole_groups),
            interval,
        )
        check_capacity(result, watched[0].devices)
        check_groups(result, who.whole_groups)
        if name in {"cpu-memory", "load-spreading"}:
            check_nobody_was_forgotten(result)


def check_nobody_was_forgotten(result: Result) -> None:
    """After everything else has ended, only tasks wait that do not fit the empty cluster."""
    if any(submission.run_seconds is None for submission in result.workload.submissions):
        return
    for submission in result.workload.submissions:
        (first, *others) = submission.group.tasks
        start = next(run.start for run in result.runs if run.task is first)
        if not others and start is None:
            assert not any(takes(machine, first.shape) for machine in result.workload.machines)


def takes(machine: Machine, shape: Shape) -> bool:
    enough = all(amount_of(machine.capacity, name) >= n for name, n in shape.requests)
    return enough and (shape.devices is None or shape.devices.count <= machine.devices)


@settings(max_examples=25)
@given(machines_strategy, groups_strategy)
def test_the_same_replay_twice_gives_the_same_result(machines: list, groups: list) -> None:
    for name in SCHEDULERS:
        replayed = random_workload(machines, groups, cycle_per_event=False)
        one, other = (replay(replayed, simulated_scheduler(name)) for _ in range(2))
        assert one.runs == other.runs
        assert one.ended_at == other.ended_at
