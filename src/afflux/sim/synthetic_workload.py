"""Workloads made from a seed: services, batch jobs and gangs that arrive over a day.

`synthetic:PRESET[,key=value...]` names one, such as `synthetic:mixed,machines=500,seed=7`. The
same text gives the same workload every time. docs/workloads.md has every distribution with its
formula and its parameters.

The load is set last: all run times are multiplied by one factor, found by bisection, so that in
the busiest third of the span the tasks would ask for `load` of the cluster if each started on
arrival.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from afflux.model.devices import WHOLE_MILLI
from afflux.model.errors import InputError
from afflux.model.group import Group
from afflux.model.resources import CPU, MEMORY, Resources, amount_of
from afflux.model.task import Shape, Task
from afflux.sim.distributions import (
    Table,
    bounded_pareto,
    daily_arrivals,
    even_arrivals,
    log_normal,
    pick,
)
from afflux.sim.fleet import (
    BATCH_SIZES,
    CPU_FLEET,
    GPU_FLEET,
    SERVICE_SIZES,
    Cluster,
    cover,
    deal,
    menu,
)
from afflux.sim.workload import Submission, Workload

PREFIX = "synthetic:"


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a spec can set. `services`, `gangs` and `gpu` are shares of the tasks.

    What is neither a service nor in a gang is batch; `gpu` cuts across all three kinds.
    """

    machines: int = 200
    tasks: int = 2000
    load: float = 0.9
    seed: int = 1
    hours: float = 24.0
    services: float = 0.25
    gangs: float = 0.2
    gpu: float = 0.0


PRESETS = {
    "mixed": Parameters(),
    "batch": Parameters(services=0.0, gangs=0.0),
    "services": Parameters(services=1.0, gangs=0.0),
    "gangs": Parameters(services=0.0, gangs=1.0),
    "gpu": Parameters(gpu=0.8),
}
RANGES: dict[str, tuple[float, float]] = {
    "machines": (1, 100_000),
    "tasks": (1, 1_000_000),
    "load": (0.01, 10),
    "seed": (0, 2**63 - 1),
    "hours": (0.1, 10_000),
    "services": (0, 1),
    "gangs": (0, 1),
    "gpu": (0, 1),
}
SERVICE_PRIORITY = 100
GANG_PRIORITIES: Table[int] = ((0, 0.7), (10, 0.3))
JOB_PRIORITIES: Table[int] = ((0, 0.85), (10, 0.15))
GANG_KINDS: Table[int] = ((1, 0.5), (2, 0.3), (3, 0.2))
LARGEST_JOB = 256
WINDOWS = 3  # of which the busiest has the load asked for


@dataclass(frozen=True, slots=True)
class _Draft:
    """A group before its run time is scaled to the load.

    `longest` bounds what it may become by that; `limit` is what the scheduler is told.
    """

    name: str
    shapes: tuple[Shape, ...]
    priority: int
    arrival_seconds: float
    run_seconds: float
    longest_seconds: float
    limit_seconds: float | None = None


def generate(spec: str, machines: int | None = None) -> Workload:
    """The workload of a spec; `machines` stands for the key of that name."""
    if machines is not None:
        spec = f"{spec},machines={machines}"
    parameters = parse(spec)
    cluster = deal(GPU_FLEET if parameters.gpu > 0 else CPU_FLEET, parameters.machines)
    span = parameters.hours * 3600
    drafts = _drafts(parameters, cluster, span)
    stretch = _stretch(drafts, cluster, parameters.load, span)
    submissions = [_submission(draft, stretch) for draft in drafts]
    submissions.sort(key=lambda submission: submission.group.ready_seconds)
    return Workload(spec, tuple(cluster.machines()), tuple(submissions))


def parse(spec: str) -> Parameters:
    """The parameters that `synthetic:PRESET[,key=value...]` stands for."""
    preset, *settings = spec.removeprefix(PREFIX).split(",")
    if preset not in PRESETS:
        raise InputError(f"{spec!r:.99}: preset is {preset!r:.40}; expected {', '.join(PRESETS)}")
    seen: dict[str, int | float] = {}
    for setting in settings:
        key, _, value = setting.partition("=")
        if key not in RANGES:
            raise InputError(f"{spec!r:.99}: key is {key!r:.40}; expected {', '.join(RANGES)}")
        if key in seen:
            raise InputError(f"{spec!r:.99}: {key} is given twice; expected it once")
        seen[key] = _number(spec, key, value)
    parameters = replace(PRESETS[preset], **seen)
    if parameters.services + parameters.gangs > 1:
        total = parameters.services + parameters.gangs
        raise InputError(f"{spec!r:.99}: services + gangs is {total:g}; expected at most 1")
    return parameters


def _number(spec: str, key: str, value: str) -> int | float:
    whole = next(field.type is int for field in fields(Parameters) if field.name == key)
    low, high = RANGES[key]
    try:
        number = int(value) if whole else float(value)
    except ValueError:
        number = math.nan
    if not low <= number <= high:
        kind = "a whole number" if whole else "a number"
        raise InputError(
            f"{spec!r:.99}: {key} is {value!r:.40}; expected {kind} from {low} to {high}"
        )
    return number


def _drafts(parameters: Parameters, cluster: Cluster, span: float) -> list[_Draft]:
    """All groups, kind by kind; each has a generator of its own, so that none disturbs another."""
    services_rng, gangs_rng, jobs_rng = (
        np.random.default_rng((parameters.seed, kind)) for kind in range(3)
    )
    tasks, gpu = parameters.tasks, parameters.gpu
    in_services = round(tasks * parameters.services)
    in_gangs = min(round(tasks * parameters.gangs), tasks - in_services)
    drafts = _services(services_rng, menu(cluster, SERVICE_SIZES, gpu), in_services, span)
    drafts += _gangs(gangs_rng, cluster, gpu, in_gangs, span)
    left = tasks - sum(len(draft.shapes) for draft in drafts)
    return drafts + _jobs(jobs_rng, menu(cluster, BATCH_SIZES, gpu), left, span)


def _services(
    rng: np.random.Generator, shapes: Table[Shape], tasks: int, span: float
) -> list[_Draft]:
    """Replicas that arrive and end together, by the end of the span; nobody says when.

    They come in its first three quarters, so that even the last have a life to live.
    """
    sizes = _sizes(tasks, lambda: min(max(round(log_normal(rng, 3, 0.8)), 1), 50))
    drafts: list[_Draft] = []
    for number, arrival in enumerate(even_arrivals(rng, len(sizes), span * 3 / 4)):
        shape, life = pick(rng, shapes), log_normal(rng, 12 * 3600, 0.5)
        draft = _Draft("", (shape,), SERVICE_PRIORITY, arrival, life, span - arrival)
        names = (f"service-{number}/{index}" for index in range(sizes[number]))
        drafts += (replace(draft, name=name) for name in names)
    return drafts


def _jobs(rng: np.random.Generator, shapes: Table[Shape], tasks: int, span: float) -> list[_Draft]:
    """Independent tasks of one shape, most jobs small and a few very large."""
    most = max(1, min(LARGEST_JOB, tasks // 8))
    sizes = _sizes(tasks, lambda: int(bounded_pareto(rng, 1.1, 1, most + 1)))
    drafts: list[_Draft] = []
    for number, arrival in enumerate(daily_arrivals(rng, len(sizes), span)):
        shape, priority = pick(rng, shapes), pick(rng, JOB_PRIORITIES)
        typical = log_normal(rng, 3600, 1.2)
        runs = [log_normal(rng, typical, 0.2) for _ in range(sizes[number])]
        limit = max(runs) / _accuracy(rng)
        drafts += (
            _Draft(f"job-{number}/{index}", (shape,), priority, arrival, run, span / 2, limit)
            for index, run in enumerate(runs)
        )
    return drafts


def _sizes(tasks: int, draw: Callable[[], int]) -> list[int]:
    """Sizes that add up to `tasks`; the last one takes what is left."""
    sizes: list[int] = []
    while tasks > 0:
        sizes.append(min(draw(), tasks))
        tasks -= sizes[-1]
    return sizes


def _accuracy(rng: np.random.Generator) -> float:
    """Run time over estimate: users ask for up to five times what they need."""
    return rng.uniform(0.2, 1.0)


def _gangs(
    rng: np.random.Generator, cluster: Cluster, gpu: float, tasks: int, span: float
) -> list[_Draft]:
    """Groups that start together; a last single task that makes no gang is left to batch."""
    workers, plain = menu(cluster, BATCH_SIZES, gpu), menu(cluster, BATCH_SIZES, 0.0)
    gangs: list[tuple[Shape, ...]] = []
    while tasks >= 2:
        gangs.append(_members(rng, cluster, workers, plain, tasks))
        tasks -= len(gangs[-1])
    drafts: list[_Draft] = []
    for number, arrival in enumerate(daily_arrivals(rng, len(gangs), span)):
        priority, run = pick(rng, GANG_PRIORITIES), log_normal(rng, 5400, 1.0)
        limit = run / _accuracy(rng)
        name, members = f"gang-{number}", gangs[number]
        drafts.append(_Draft(name, members, priority, arrival, run, span / 2, limit))
    return drafts


def _members(
    rng: np.random.Generator,
    cluster: Cluster,
    workers: Table[Shape],
    plain: Table[Shape],
    most: int,
) -> tuple[Shape, ...]:
    """2 to 32 members: workers, often with a leader, sometimes with servers for a quarter.

    All of them must fit on the empty cluster at once. That is certain if as many fit of the
    least shape that covers all of theirs; a gang for which it is not becomes smaller.
    """
    size = min(round(2 ** rng.uniform(1, 5)), most)
    kinds = min(pick(rng, GANG_KINDS), size)
    worker = pick(rng, workers)
    others = (pick(rng, plain), pick(rng, plain))[: kinds - 1]
    room = cluster.room(cover(worker, *others))
    if room < kinds:
        others, room = (), cluster.room(worker)
    if room < 2:
        worker = min((shape for shape, _ in plain), key=lambda shape: shape.requests)
        room = cluster.room(worker)
    size = min(size, room)
    apart = (*others[:1], *others[1:] * max(1, size // 4))
    return apart + (worker,) * (size - len(apart))


def _stretch(drafts: Sequence[_Draft], cluster: Cluster, load: float, span: float) -> float:
    """The factor for all run times at which the busiest third of the span asks for `load`.

    A third, not an instant: bursts within it ask for more than there is, and queues form.

    Demand grows with the factor, so bisection finds it. With too few tasks for such a load the
    factor stays at its upper bound.
    """
    arrivals = np.array([draft.arrival_seconds for draft in drafts])
    runs = np.array([draft.run_seconds for draft in drafts])
    longest = np.array([draft.longest_seconds for draft in drafts])
    shares = _shares(drafts, cluster)
    edges = np.linspace(0.0, span, WINDOWS + 1)

    def peak(factor: float) -> float:
        lengths = np.minimum(runs * factor, longest)
        worked = np.clip(edges - arrivals[:, None], 0.0, lengths[:, None])
        return float(np.diff(shares @ worked).max() / edges[1])

    low, high = 1e-4, 8.0
    for _ in range(24):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if peak(middle) < load else (low, middle)
    # Few digits, so that the order in which numbers were added up leaves no trace.
    return float(f"{high:.3g}")


def _shares(drafts: Sequence[_Draft], cluster: Cluster) -> NDArray[np.float64]:
    """What each group asks for of the whole cluster: a row per resource, a column per group."""
    capacity = np.sum(
        [
            np.array(_amounts(machine.capacity, machine.devices * WHOLE_MILLI)) * count
            for machine, count in cluster.types
        ],
        axis=0,
    )
    asked = np.array([_asked(draft.shapes) for draft in drafts], dtype=np.float64)
    return (asked / np.maximum(capacity, 1)).T


def _asked(shapes: Sequence[Shape]) -> tuple[int, ...]:
    rows = (
        _amounts(shape.requests, shape.devices.count * shape.devices.milli if shape.devices else 0)
        for shape in shapes
    )
    return tuple(sum(column) for column in zip(*rows, strict=True))


def _amounts(vector: Resources, devices_milli: int) -> tuple[int, int, int]:
    return amount_of(vector, CPU), amount_of(vector, MEMORY), devices_milli


def _submission(draft: _Draft, stretch: float) -> Submission:
    """Whole seconds, as logs have them, and estimates in steps of five minutes, as users do."""
    run = max(1.0, float(round(min(draft.run_seconds * stretch, draft.longest_seconds))))
    told = None
    if draft.limit_seconds is not None:
        limit = min(draft.limit_seconds * stretch, draft.longest_seconds)
        told = max(math.ceil(limit / 300) * 300.0, run)
    names = [draft.name]
    if len(draft.shapes) > 1:
        names = [f"{draft.name}/{index}" for index in range(len(draft.shapes))]
    group = Group(
        name=draft.name,
        tasks=tuple(map(Task, names, names, draft.shapes)),
        priority=draft.priority,
        ready_seconds=float(round(draft.arrival_seconds)),
        run_seconds=told,
    )
    return Submission(group, run)
