"""Generates workloads from a seed: services, batch jobs and gangs that arrive over a day.

`synthetic:PRESET[,key=value...]` names a workload, such as `synthetic:mixed,machines=500,seed=7`.
The same text always gives the same workload. docs/workloads.md has every distribution with its
formula and parameters.

The load is set last: all run times are multiplied by one factor, found by bisection, so that in
the busiest third of the span the tasks would request `load` of the cluster if each started on
arrival.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from afflux.model.devices import WHOLE_MILLI
from afflux.model.disks import VolumeIO
from afflux.model.errors import InputError
from afflux.model.resources import CPU, MEMORY, Resources, amount_of
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from afflux.sim.random_variables import (
    WeightedValues,
    bounded_pareto,
    daily_arrivals,
    log_normal,
    uniform_arrivals,
    weighted_choice,
)
from afflux.sim.synthetic_cluster import (
    BATCH_SIZES,
    CPU_FLEET,
    GPU_FLEET,
    MACHINE_TYPE_LABEL,
    SERVICE_SIZES,
    Cluster,
    elementwise_max,
    feasible_shapes,
    make_cluster,
)
from afflux.sim.synthetic_disks import disks_of, draw_profile, normalise, on_disk
from afflux.sim.workload import NO_DISKS, Disks, Submission, Workload

PREFIX = "synthetic:"


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a spec. `services`, `gangs` and `gpu` are shares of the tasks.

    Tasks that are neither in services nor in gangs are batch; `gpu` applies to all three kinds, and
    so does `disk`, the share of the jobs, gangs and services that do something on disks.
    """

    machines: int = 200
    tasks: int = 2000
    load: float = 0.9
    seed: int = 1
    hours: float = 24.0
    services: float = 0.25
    gangs: float = 0.2
    gpu: float = 0.0
    disk: float = 0.0


PRESETS = {
    "mixed": Parameters(),
    "batch": Parameters(services=0.0, gangs=0.0),
    "services": Parameters(services=1.0, gangs=0.0),
    "gangs": Parameters(services=0.0, gangs=1.0),
    "gpu": Parameters(gpu=0.8),
    "disk-io": Parameters(tasks=6000, load=0.8, disk=0.8),
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
    "disk": (0, 1),
}
SERVICE_PRIORITY = 100
GANG_PRIORITIES: WeightedValues[int] = ((0, 0.7), (10, 0.3))
JOB_PRIORITIES: WeightedValues[int] = ((0, 0.85), (10, 0.15))
GANG_KINDS: WeightedValues[int] = ((1, 0.5), (2, 0.3), (3, 0.2))
MAX_JOB_TASKS = 256
LOAD_WINDOWS = 3  # the busiest of these has the requested load


@dataclass(frozen=True, slots=True)
class _UnscaledGroup:
    """A group before its run time is scaled to the load.

    `max_run_seconds` bounds the scaled run time; `estimate_seconds` is for the scheduler.
    """

    name: str
    shapes: tuple[Shape, ...]
    priority: int
    arrival_seconds: float
    run_seconds: float
    max_run_seconds: float
    estimate_seconds: float | None = None


def generate(spec: str, machines: int | None = None) -> Workload:
    """The workload of a spec; `machines` stands for the key of that name."""
    if machines is not None:
        spec = f"{spec},machines={machines}"
    parameters = parse(spec)
    cluster = make_cluster(GPU_FLEET if parameters.gpu > 0 else CPU_FLEET, parameters.machines)
    span = parameters.hours * 3600
    groups = _unscaled_groups(parameters, cluster, span)
    factor = _run_time_factor(groups, cluster, parameters.load, span)
    hosts, disks = tuple(cluster.machines()), NO_DISKS
    if parameters.disk > 0:
        groups = _with_disk_profiles(groups, parameters)
        disks = Disks(disks_of(hosts, MACHINE_TYPE_LABEL), normalise)
    submissions = [_submission(unscaled, factor) for unscaled in groups]
    submissions.sort(key=lambda submission: submission.group.ready_seconds)
    return Workload(spec, hosts, tuple(submissions), disks=disks)


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
    is_integer = next(field.type is int for field in fields(Parameters) if field.name == key)
    low, high = RANGES[key]
    try:
        number = int(value) if is_integer else float(value)
    except ValueError:
        number = math.nan
    if not low <= number <= high:
        kind = "a whole number" if is_integer else "a number"
        raise InputError(
            f"{spec!r:.99}: {key} is {value!r:.40}; expected {kind} from {low} to {high}"
        )
    return number


def _unscaled_groups(parameters: Parameters, cluster: Cluster, span: float) -> list[_UnscaledGroup]:
    """All groups, kind by kind; each kind has its own generator, so that kinds are independent."""
    services_rng, gangs_rng, jobs_rng = (
        np.random.default_rng((parameters.seed, kind)) for kind in range(3)
    )
    tasks, gpu = parameters.tasks, parameters.gpu
    in_services = round(tasks * parameters.services)
    in_gangs = min(round(tasks * parameters.gangs), tasks - in_services)
    shapes = feasible_shapes(cluster, SERVICE_SIZES, gpu)
    groups = _services(services_rng, shapes, in_services, span)
    groups += _gangs(gangs_rng, cluster, gpu, in_gangs, span)
    left = tasks - sum(len(unscaled.shapes) for unscaled in groups)
    return groups + _jobs(jobs_rng, feasible_shapes(cluster, BATCH_SIZES, gpu), left, span)


def _with_disk_profiles(
    groups: Sequence[_UnscaledGroup], parameters: Parameters
) -> list[_UnscaledGroup]:
    """The tasks of a job, a gang or a service do the same on disks."""
    rng = np.random.default_rng((parameters.seed, 3))
    profiles: dict[str, VolumeIO | None] = {}
    found: list[_UnscaledGroup] = []
    for group in groups:
        job = group.name.partition("/")[0]
        if job not in profiles:
            profiles[job] = draw_profile(rng, parameters.disk)
        profile = profiles[job]
        if profile is None:
            found.append(group)
        else:
            shapes = tuple(on_disk(shape, profile) for shape in group.shapes)
            found.append(replace(group, shapes=shapes))
    return found


def _services(
    rng: np.random.Generator, shapes: WeightedValues[Shape], tasks: int, span: float
) -> list[_UnscaledGroup]:
    """Services: replicas that arrive and end together before the span ends; without estimates.

    They arrive in the first three quarters of the span, so that even the last ones run for a while.
    """
    sizes = _sizes(tasks, lambda: min(max(round(log_normal(rng, 3, 0.8)), 1), 50))
    groups: list[_UnscaledGroup] = []
    for number, arrival in enumerate(uniform_arrivals(rng, len(sizes), span * 3 / 4)):
        shape, life = weighted_choice(rng, shapes), log_normal(rng, 12 * 3600, 0.5)
        unscaled = _UnscaledGroup("", (shape,), SERVICE_PRIORITY, arrival, life, span - arrival)
        names = (f"service-{number}/{index}" for index in range(sizes[number]))
        groups += (replace(unscaled, name=name) for name in names)
    return groups


def _jobs(
    rng: np.random.Generator, shapes: WeightedValues[Shape], tasks: int, span: float
) -> list[_UnscaledGroup]:
    """Independent tasks of one shape, most jobs small and a few very large."""
    most = max(1, min(MAX_JOB_TASKS, tasks // 8))
    sizes = _sizes(tasks, lambda: int(bounded_pareto(rng, 1.1, 1, most + 1)))
    groups: list[_UnscaledGroup] = []
    for number, arrival in enumerate(daily_arrivals(rng, len(sizes), span)):
        shape, priority = weighted_choice(rng, shapes), weighted_choice(rng, JOB_PRIORITIES)
        typical = log_normal(rng, 3600, 1.2)
        runs = [log_normal(rng, typical, 0.2) for _ in range(sizes[number])]
        estimate = max(runs) / _estimate_accuracy(rng)
        for index, run in enumerate(runs):
            name = f"job-{number}/{index}"
            job = _UnscaledGroup(name, (shape,), priority, arrival, run, span / 2, estimate)
            groups.append(job)
    return groups


def _sizes(tasks: int, draw: Callable[[], int]) -> list[int]:
    """Sizes that add up to `tasks`; the last one takes the remainder."""
    sizes: list[int] = []
    while tasks > 0:
        sizes.append(min(draw(), tasks))
        tasks -= sizes[-1]
    return sizes


def _estimate_accuracy(rng: np.random.Generator) -> float:
    """Run time over estimate: users overestimate up to five times."""
    return rng.uniform(0.2, 1.0)


def _gangs(
    rng: np.random.Generator, cluster: Cluster, gpu: float, tasks: int, span: float
) -> list[_UnscaledGroup]:
    """Gangs of at least two tasks; a single task that remains becomes a batch job."""
    workers, plain = (feasible_shapes(cluster, BATCH_SIZES, share) for share in (gpu, 0.0))
    gangs: list[tuple[Shape, ...]] = []
    while tasks >= 2:
        gangs.append(_gang_members(rng, cluster, workers, plain, tasks))
        tasks -= len(gangs[-1])
    groups: list[_UnscaledGroup] = []
    for number, arrival in enumerate(daily_arrivals(rng, len(gangs), span)):
        priority, run = weighted_choice(rng, GANG_PRIORITIES), log_normal(rng, 5400, 1.0)
        estimate = run / _estimate_accuracy(rng)
        name, members = f"gang-{number}", gangs[number]
        groups.append(_UnscaledGroup(name, members, priority, arrival, run, span / 2, estimate))
    return groups


def _gang_members(
    rng: np.random.Generator,
    cluster: Cluster,
    workers: WeightedValues[Shape],
    plain: WeightedValues[Shape],
    most: int,
) -> tuple[Shape, ...]:
    """2 to 32 members: workers, often with a leader, sometimes with a quarter of servers.

    All members must fit on the empty cluster at once. This is certain if as many tasks of their
    elementwise largest shape fit; otherwise the gang is made smaller.
    """
    size = min(round(2 ** rng.uniform(1, 5)), most)
    kinds = min(weighted_choice(rng, GANG_KINDS), size)
    worker = weighted_choice(rng, workers)
    others = (weighted_choice(rng, plain), weighted_choice(rng, plain))[: kinds - 1]
    room = cluster.room(elementwise_max(worker, *others))
    if room < kinds:
        others, room = (), cluster.room(worker)
    if room < 2:
        worker = min((shape for shape, _ in plain), key=lambda shape: shape.requests)
        room = cluster.room(worker)
    size = min(size, room)
    other_members = (*others[:1], *others[1:] * max(1, size // 4))
    return other_members + (worker,) * (size - len(other_members))


def _run_time_factor(
    groups: Sequence[_UnscaledGroup], cluster: Cluster, load: float, span: float
) -> float:
    """The factor for all run times at which the busiest third of the span requests `load`.

    Bursts within that third request more than the capacity, so that queues form. Demand grows with
    the factor, so bisection finds it. With too few tasks for the load the factor stays at its upper
    bound.
    """
    arrivals = np.array([unscaled.arrival_seconds for unscaled in groups])
    runs = np.array([unscaled.run_seconds for unscaled in groups])
    longest = np.array([unscaled.max_run_seconds for unscaled in groups])
    shares = _demand_shares(groups, cluster)
    edges = np.linspace(0.0, span, LOAD_WINDOWS + 1)

    def peak(factor: float) -> float:
        lengths = np.minimum(runs * factor, longest)
        worked = np.clip(edges - arrivals[:, None], 0.0, lengths[:, None])
        return float(np.diff(shares @ worked).max() / edges[1])

    low, high = 1e-4, 8.0
    for _ in range(24):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if peak(middle) < load else (low, middle)
    # Three digits, so that the order of floating-point additions does not matter.
    return float(f"{high:.3g}")


def _demand_shares(groups: Sequence[_UnscaledGroup], cluster: Cluster) -> NDArray[np.float64]:
    """The share of the cluster that each group requests: a row per resource, a column per group."""
    amounts = [
        np.array(_amounts(machine.capacity, machine.devices * WHOLE_MILLI)) * count
        for machine, count in cluster.types
    ]
    capacity = np.sum(amounts, axis=0)
    asked = np.array([_requested(unscaled.shapes) for unscaled in groups], dtype=np.float64)
    return (asked / np.maximum(capacity, 1)).T


def _requested(shapes: Sequence[Shape]) -> tuple[int, ...]:
    rows = (
        _amounts(shape.requests, shape.devices.count * shape.devices.milli if shape.devices else 0)
        for shape in shapes
    )
    return tuple(sum(column) for column in zip(*rows, strict=True))


def _amounts(vector: Resources, devices_milli: int) -> tuple[int, int, int]:
    return amount_of(vector, CPU), amount_of(vector, MEMORY), devices_milli


def _submission(unscaled: _UnscaledGroup, factor: float) -> Submission:
    """The scaled group: whole seconds, and estimates rounded up to five minutes."""
    run = max(1.0, float(round(min(unscaled.run_seconds * factor, unscaled.max_run_seconds))))
    estimate = None
    if unscaled.estimate_seconds is not None:
        estimate = min(unscaled.estimate_seconds * factor, unscaled.max_run_seconds)
        estimate = max(math.ceil(estimate / 300) * 300.0, run)
    names = [unscaled.name]
    if len(unscaled.shapes) > 1:
        names = [f"{unscaled.name}/{index}" for index in range(len(unscaled.shapes))]
    group = WaitingGroup(
        key=unscaled.name,
        tasks=tuple(map(Task, names, names, unscaled.shapes)),
        priority=unscaled.priority,
        ready_seconds=float(round(unscaled.arrival_seconds)),
        run_seconds=estimate,
    )
    return Submission(group, run)
