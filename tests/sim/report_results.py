"""Results for report tests: a mix under three toy schedulers, and tasks listed one by one."""

import heapq
import random
from dataclasses import replace

import numpy as np

from afflux.model.devices import DeviceRequest
from afflux.model.machine import Machine
from afflux.model.resources import amount_of, resources
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from afflux.sim.report import render
from afflux.sim.result import CycleTiming, Result, Run
from afflux.sim.workload import Submission, Workload

GIB = 2**30
SHAPES = (
    Shape(resources({"cpu": 1000, "memory": 2 * GIB})),
    Shape(resources({"cpu": 4000, "memory": 4 * GIB})),
    Shape(resources({"cpu": 2000, "memory": 24 * GIB})),
    Shape(resources({"cpu": 4000, "memory": 16 * GIB}), devices=DeviceRequest(1, 500)),
)


def made_up(groups: int, machines: int, seed: int = 1, load: float = 0.95) -> Workload:
    """Bursts of jobs, a few gangs, services and priorities."""
    draw = random.Random(seed)
    hosts = tuple(
        Machine(
            f"node-{i:03}",
            resources({"cpu": 32_000, "memory": 128 * GIB, "pods": 110}),
            devices=4 if i % 4 == 0 else 0,
        )
        for i in range(machines)
    )
    submissions: list[Submission] = []
    now = 0.0
    between = 4100 / (machines * 32 * load)
    for index in range(groups):
        busy = 0.45 if (index * 8 // groups) % 2 else 1.55
        now += draw.expovariate(1 / (between * busy))
        size = draw.choice([1, 1, 1, 1, 1, 1, 2, 4, 8, 16])
        shape = draw.choices(SHAPES, [6, 3, 2, 1])[0]
        name = f"job-{index:05}"
        tasks = tuple(Task(f"{name}/{k}", f"{name}-{k}", shape) for k in range(size))
        seconds = min(2400.0, draw.lognormvariate(5.6, 1.1))
        run = None if draw.random() < 0.004 else round(seconds, 1)
        priority = draw.choices([0, 50, 100], [6, 3, 1])[0]
        group = WaitingGroup(
            name, tasks, priority=priority, ready_seconds=round(now, 3), run_seconds=run
        )
        submissions.append(Submission(group, run))
    return Workload("made-up mix", hosts, tuple(submissions))


def simulate(
    workload: Workload, scheduler: str, *, tight: bool, skips: bool, piecemeal: bool = False
) -> Result:
    """A toy scheduler: first come first served; with `skips`, later groups may pass.

    `tight` packs, otherwise it spreads; `piecemeal` binds members of a gang one by one.
    """
    draw = random.Random(scheduler)
    names = [machine.name for machine in workload.machines]
    keys = ("cpu", "memory")
    free = np.array(
        [
            [*(amount_of(m.capacity, key) for key in keys), 1000 * m.devices]
            for m in workload.machines
        ],
        dtype=np.float64,
    ).reshape(len(names), 3)
    lives: dict[str, Run] = {
        task.id: Run(task, s.group.name, s.group.ready_seconds, None, None, None, None)
        for s in workload.submissions
        for task in s.group.tasks
    }
    waiting: list[Submission] = []
    arrivals = list(workload.submissions)[::-1]
    ends: list[tuple[float, int, np.ndarray]] = []
    partial: dict[str, list[tuple[Task, int, float]]] = {}
    cycles: list[CycleTiming] = []
    now, ticket = 0.0, 0

    def needs(task: Task) -> np.ndarray:
        asked = task.shape.devices
        devices = asked.count * asked.milli if asked else 0
        return np.array([*(amount_of(task.shape.requests, key) for key in keys), devices])

    def place(submission: Submission) -> bool:
        nonlocal ticket
        held = partial.setdefault(submission.group.name, [])
        taken: list[tuple[Task, int, float]] = []
        for task in submission.group.tasks[len(held) :]:
            want = needs(task)
            fits = (free >= want).all(axis=1)
            if not fits.any():
                break
            rank = np.where(fits, free[:, 0] if tight else -free[:, 0], np.inf)
            row = int(rank.argmin())
            free[row] -= want
            taken.append((task, row, now))
        if len(held) + len(taken) < len(submission.group.tasks) and not piecemeal:
            for task, row, _ in taken:
                free[row] += needs(task)
            return False
        held += taken
        for task, row, bound in taken:
            lives[task.id] = replace(lives[task.id], bound=bound, machine=names[row])
        if len(held) < len(submission.group.tasks):
            return False
        end = None if submission.run_seconds is None else now + submission.run_seconds
        for task, row, _ in held:
            lives[task.id] = replace(lives[task.id], start=now, end=end)
            if end is not None:
                gain = np.zeros_like(free)
                gain[row] = needs(task)
                ticket += 1
                heapq.heappush(ends, (end, ticket, gain))
        return True

    while arrivals or ends:
        next_arrival = arrivals[-1].group.ready_seconds if arrivals else np.inf
        now = min(next_arrival, ends[0][0] if ends else np.inf)
        while ends and ends[0][0] <= now:
            free += heapq.heappop(ends)[2]
        while arrivals and arrivals[-1].group.ready_seconds <= now:
            waiting.append(arrivals.pop())
        before, still = len(waiting), []
        for index, submission in enumerate(waiting):
            if not place(submission):
                still.append(submission)
                if not skips or index > 40:
                    still.extend(waiting[index + 1 :])
                    break
        waiting = still
        seconds = 2e-4 * (1 + before) ** 0.6 * draw.lognormvariate(0, 0.35)
        cycles.append(CycleTiming(now, seconds, before, before - len(waiting)))
    return Result(scheduler, workload, tuple(lives.values()), tuple(cycles), now)


def three(workload: Workload) -> list[Result]:
    return [
        simulate(workload, "cpu-memory", tight=True, skips=True),
        simulate(workload, "load-spreading", tight=False, skips=True),
        simulate(workload, "pod-by-pod", tight=False, skips=True, piecemeal=True),
    ]


def tiny(
    lives: list[tuple[float | None, float | None, float | None]],
    scheduler: str = "toy",
    machines: int = 1,
    ended_at: float = 100.0,
    cycles: tuple[CycleTiming, ...] = (CycleTiming(0.0, 0.002, 1, 1),),
) -> Result:
    """Tasks submitted at 0, each with its bound, start and end, all on the first machine."""
    hosts = tuple(Machine(f"m{i}", resources({"cpu": 8000})) for i in range(machines))
    tasks = [Task(f"t{i}", f"t{i}", SHAPES[0]) for i in range(len(lives))]
    submissions = tuple(Submission(WaitingGroup(f"g{i}", (t,)), 10.0) for i, t in enumerate(tasks))
    runs = tuple(
        Run(task, f"g{i}", 0.0, *life, None if life[0] is None else "m0")
        for i, (task, life) in enumerate(zip(tasks, lives, strict=True))
    )
    return Result(scheduler, Workload("tiny", hosts, submissions), runs, cycles, ended_at)


MIX = made_up(groups=120, machines=6)
RESULTS = three(MIX)
PAGE = render(RESULTS)
RAN, NEVER, STRANDED = (0.0, 0.0, 10.0), (None, None, None), (0.0, None, None)
