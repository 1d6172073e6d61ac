"""The workloads: the same plan for every scheduler, drawn from a fixed seed.

The pods are the same for every cluster size, except in the burst, whose pods are scaled to the free
twentieth of the machines.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from bench.kube.plans import Machine, Plan, Pod, PodClass, assign_pods, machine_name
from bench.kube.results import MODES, STREAM

ZONE = "topology.kubernetes.io/zone"
DISK = "example.com/disk"
GENERATION = "example.com/generation"
DEDICATED = "example.com/dedicated"
OLD = "example.com/old"

TRICKLE = "trickle"

# The free share of a nearly full cluster, and the share of it that exceeds the burst.
FREE = 0.05
SLACK = 0.05
BURST_UNITS = (1, 2, 4, 8)
BURST_WEIGHTS = (4, 3, 2, 1)
# Pods of the burst per machine with a hole, on average.
PODS_PER_HOLE = 2
# The largest hole, as a share of a machine.
MAX_HOLE = 0.75


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload: its number of pods at full size, and how it is planned."""

    name: str
    pods: int
    plan: Callable[[int, int, Random], Plan]
    about: str
    modes: Sequence[str] = (STREAM,)
    """The default modes."""


def plain(machines: int, pods: int, rng: Random) -> Plan:
    """Small equal pods."""
    there = [Machine(machine_name(index)) for index in range(machines)]
    classes = {"plain": PodClass(100, 256)}
    return Plan(there, classes, assign_pods(there, classes, ["plain"] * pods, rng))


def trickle(machines: int, pods: int, rng: Random) -> Plan:
    """The plain workload at a low rate, to measure how long one pod waits."""
    whole = plain(machines, pods, rng)
    return Plan(whole.machines, whole.classes, whole.pods, rate=20.0)


def mixed(machines: int, pods: int, rng: Random) -> Plan:
    """25 sizes; CPU and memory vary independently from a sixty-fourth to a quarter of a machine."""
    there = [Machine(machine_name(index)) for index in range(machines)]
    sizes = (1, 2, 4, 8, 16)
    weights = (2, 2, 3, 4, 3)
    classes = {
        f"mixed-{cpu}-{memory}": PodClass(500 * cpu, 2048 * memory)
        for cpu in sizes
        for memory in sizes
    }
    names = [
        f"mixed-{cpu}-{memory}"
        for cpu, memory in zip(
            rng.choices(sizes, weights, k=pods), rng.choices(sizes, weights, k=pods), strict=True
        )
    ]
    return Plan(there, classes, assign_pods(there, classes, names, rng))


def constrained(machines: int, pods: int, rng: Random) -> Plan:
    """Node affinity, required and preferred, with several operators; taints and tolerations."""
    there = [_labelled(index) for index in range(machines)]
    classes = {
        "fast-disk": _constrained_class(
            required=[_in(ZONE, "zone-0", "zone-1"), _in(DISK, "ssd")],
            may_run=lambda m: m.labels[ZONE] != "zone-2" and m.labels[DISK] == "ssd",
        ),
        "newer": _constrained_class(
            required=[
                {"key": GENERATION, "operator": "Gt", "values": ["3"]},
                {"key": DISK, "operator": "NotIn", "values": ["none"]},
            ],
            may_run=lambda m: int(m.labels[GENERATION]) > 3 and m.labels[DISK] != "none",
        ),
        "dedicated": _constrained_class(
            tolerations=[{"key": DEDICATED, "operator": "Exists", "effect": "NoSchedule"}],
            selector={DEDICATED: "batch"},
            may_run=lambda m: m.labels.get(DEDICATED) == "batch",
            tolerates=True,
        ),
        "near": _constrained_class(
            preferred=[(80, _in(ZONE, "zone-1")), (20, _in(DISK, "ssd"))], may_run=lambda _: True
        ),
    }
    names = rng.choices(list(classes), (4, 2, 2, 2), k=pods)
    return Plan(there, classes, assign_pods(there, classes, names, rng))


def burst(machines: int, pods: int, rng: Random) -> Plan:
    """A nearly full cluster, and pods that fit into its holes if they are packed well.

    The pods are drawn first and assigned to machines. The rest of each machine is filled, except
    for a twentieth of its hole. So all pods can be placed, with little slack.
    """
    there = [Machine(machine_name(index)) for index in range(machines)]
    cpu, memory = there[0].cpu_milli, there[0].memory_mib
    units = sum(u * w for u, w in zip(BURST_UNITS, BURST_WEIGHTS, strict=True)) / sum(BURST_WEIGHTS)
    share = FREE * machines / (pods * units * (1 + SLACK))
    cpu_unit, memory_unit = round(cpu * share), round(memory * share)
    if max(cpu_unit / cpu, memory_unit / memory) * max(BURST_UNITS) > MAX_HOLE:
        raise ValueError(
            f"a burst of {pods} pods on {machines} machines would need pods larger than a hole; "
            f"expected at least {machines // 4} pods"
        )
    classes = {
        f"burst-{c}-{m}": PodClass(c * cpu_unit, m * memory_unit)
        for c in BURST_UNITS
        for m in BURST_UNITS
    }
    names = [
        f"burst-{c}-{m}"
        for c, m in zip(
            rng.choices(BURST_UNITS, BURST_WEIGHTS, k=pods),
            rng.choices(BURST_UNITS, BURST_WEIGHTS, k=pods),
            strict=True,
        )
    ]
    widest_cpu, widest_memory = int(cpu * MAX_HOLE), int(memory * MAX_HOLE)
    open_machines = [
        Machine(each.name, widest_cpu, widest_memory)
        for each in sorted(rng.sample(there, min(machines, pods // PODS_PER_HOLE)), key=_by_name)
    ]
    assigned = assign_pods(open_machines, classes, names, rng)
    fill, fillers = _fill(there, classes, assigned)
    return Plan(there, classes | fillers, assigned, fill)


def _fill(
    machines: Sequence[Machine], classes: Mapping[str, PodClass], pods: Sequence[Pod]
) -> tuple[list[Pod], dict[str, PodClass]]:
    """A pod for each machine that leaves just enough room for the pods assigned to it."""
    holes: dict[str, tuple[int, int]] = {}
    for pod in pods:
        cpu, memory = holes.get(pod.machine, (0, 0))
        one = classes[pod.class_name]
        holes[pod.machine] = cpu + one.cpu_milli, memory + one.memory_mib
    fill: list[Pod] = []
    fillers: dict[str, PodClass] = {}
    for each in machines:
        cpu, memory = holes.get(each.name, (0, 0))
        left = each.cpu_milli - int(cpu * (1 + SLACK)), each.memory_mib - int(memory * (1 + SLACK))
        name = f"fill-{left[0]}-{left[1]}"
        fillers[name] = PodClass(*left)
        fill.append(Pod(f"fill-{each.name}", name, each.name))
    return fill, fillers


def _labelled(index: int) -> Machine:
    """A fifth is dedicated (NoSchedule), a tenth tainted PreferNoSchedule; labels vary."""
    labels = {
        ZONE: f"zone-{index % 3}",
        DISK: ("ssd", "ssd", "hdd", "none")[index // 3 % 4],
        GENERATION: str(1 + index // 12 % 6),
    }
    taints: list[dict[str, str]] = []
    if index % 5 == 0:
        labels[DEDICATED] = "batch"
        taints.append({"key": DEDICATED, "value": "batch", "effect": "NoSchedule"})
    if index % 10 == 3:
        taints.append({"key": OLD, "value": "true", "effect": "PreferNoSchedule"})
    return Machine(machine_name(index), labels=labels, taints=taints)


def _constrained_class(
    *,
    may_run: Callable[[Machine], bool],
    required: Sequence[Mapping[str, object]] = (),
    preferred: Sequence[tuple[int, Mapping[str, object]]] = (),
    tolerations: Sequence[Mapping[str, str]] = (),
    selector: Mapping[str, str] | None = None,
    tolerates: bool = False,
) -> PodClass:
    affinity: dict[str, object] = {}
    if required:
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {
            "nodeSelectorTerms": [{"matchExpressions": list(required)}]
        }
    if preferred:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": weight, "preference": {"matchExpressions": [expression]}}
            for weight, expression in preferred
        ]
    spec: dict[str, object] = {}
    if affinity:
        spec["affinity"] = {"nodeAffinity": affinity}
    if tolerations:
        spec["tolerations"] = list(tolerations)
    if selector:
        spec["nodeSelector"] = dict(selector)

    def allowed(machine: Machine) -> bool:
        repelled = any(taint["effect"] == "NoSchedule" for taint in machine.taints)
        return may_run(machine) and (tolerates or not repelled)

    return PodClass(250, 512, spec, allowed)


def _in(key: str, *values: str) -> dict[str, object]:
    return {"key": key, "operator": "In", "values": list(values)}


def _by_name(machine: Machine) -> str:
    return machine.name


WORKLOADS = {
    each.name: each
    for each in (
        Workload("plain", 10_000, plain, "pods that are all alike", MODES),
        Workload("mixed", 5_000, mixed, "pods of 25 sizes"),
        Workload("constrained", 5_000, constrained, "pods with node affinity and taints"),
        Workload("burst", 2_000, burst, "a burst on a nearly full cluster", MODES),
        Workload(TRICKLE, 400, trickle, "20 plain pods a second"),
    )
}
