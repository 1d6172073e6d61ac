"""The workloads of `make bench-constraints`: pods with constraints between them."""

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, islice
from random import Random

from bench.kube.plans import DomainRule, Machine, Plan, Pod, PodClass, machine_name
from bench.kube.results import BACKLOG
from bench.kube.workloads import ZONE, Workload

HOSTNAME = "kubernetes.io/hostname"
ZONES = 3
SERVICES = 25
ZONE_SKEW = 5
CPU_MILLI, MEMORY_MIB = 100, 256
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def zone_affinity(machines: int, pods: int, rng: Random) -> Plan:
    """Each pod requires the zone of the others."""
    spec = {"affinity": {"podAffinity": {REQUIRED: [_term("near", ZONE)]}}}
    there = _machines(machines)
    one_zone = [each for each in there if each.labels[ZONE] == "zone-0"]
    rule = DomainRule("near", ZONE, most_domains=1)
    return _plan(there, {"near": spec}, pods, lambda _: one_zone, rng, [rule])


def hostname_anti_affinity(machines: int, pods: int, rng: Random) -> Plan:
    """Each pod refuses the machines of the others."""
    spec = {"affinity": {"podAntiAffinity": {REQUIRED: [_term("apart", HOSTNAME)]}}}
    there = _machines(machines)
    rule = DomainRule("apart", HOSTNAME, most_pods=1)
    return _plan(there, {"apart": spec}, pods, lambda _: there, rng, [rule])


def zone_spread(machines: int, pods: int, rng: Random) -> Plan:
    """The pods are spread over the zones."""
    spec = {"topologySpreadConstraints": [_spread("spread", ZONE, ZONE_SKEW)]}
    there = _machines(machines)
    rule = DomainRule("spread", ZONE, max_skew=ZONE_SKEW)
    return _plan(there, {"spread": spec}, pods, lambda _: there, rng, [rule])


def preferred_anti_affinity(machines: int, pods: int, rng: Random) -> Plan:
    """Each pod prefers a machine without the others."""
    preferred = [{"weight": 1, "podAffinityTerm": _term("aloof", HOSTNAME)}]
    spec = {"affinity": {"podAntiAffinity": {PREFERRED: preferred}}}
    there = _machines(machines)
    return _plan(there, {"aloof": spec}, pods, lambda _: there, rng, [])


def services(machines: int, pods: int, rng: Random) -> Plan:
    """25 services, the replicas of each spread over machines and zones."""
    names = [f"service-{number:02d}" for number in range(SERVICES)]
    specs = {
        name: {"topologySpreadConstraints": [_spread(name, HOSTNAME, 1), _spread(name, ZONE, 1)]}
        for name in names
    }
    there = _machines(machines)
    rules = [DomainRule(name, key, max_skew=1) for name in names for key in (HOSTNAME, ZONE)]
    return _plan(there, specs, pods, lambda _: there, rng, rules)


def _plan(
    machines: Sequence[Machine],
    specs: Mapping[str, Mapping[str, object]],
    pods: int,
    allowed: Callable[[str], Sequence[Machine]],
    rng: Random,
    rules: Sequence[DomainRule],
) -> Plan:
    """Pods of these classes in turn; those of one class go to its machines one after the other.

    Machines of successive numbers are in different zones, so that this keeps every spread.
    """
    classes = {
        name: PodClass(CPU_MILLI, MEMORY_MIB, spec, labels={"app": name})
        for name, spec in specs.items()
    }
    names = list(islice(cycle(classes), pods))
    next_machine = {name: _in_turn(allowed(name), rng) for name in classes}
    planned = [
        Pod(f"pod-{number:05d}", name, next(next_machine[name]).name)
        for number, name in enumerate(names)
    ]
    return Plan(machines, classes, planned, rules=rules)


def _in_turn(machines: Sequence[Machine], rng: Random) -> "cycle[Machine]":
    """The machines round and round, from a random one that keeps whole rounds of the zones."""
    begin = rng.randrange(len(machines) // ZONES) * ZONES
    return cycle([*machines[begin:], *machines[:begin]])


def _machines(count: int) -> list[Machine]:
    if count < ZONES:
        raise ValueError(f"{count} machines, expected at least one for each of {ZONES} zones")
    return [
        Machine(
            machine_name(index),
            labels={ZONE: f"zone-{index % ZONES}", HOSTNAME: machine_name(index)},
        )
        for index in range(count)
    ]


def _selector(app: str) -> dict[str, object]:
    return {"matchLabels": {"app": app}}


def _term(app: str, key: str) -> dict[str, object]:
    return {"labelSelector": _selector(app), "topologyKey": key}


def _spread(app: str, key: str, max_skew: int) -> dict[str, object]:
    return {
        "labelSelector": _selector(app),
        "topologyKey": key,
        "maxSkew": max_skew,
        "whenUnsatisfiable": "DoNotSchedule",
    }


CONSTRAINT_WORKLOADS = {
    each.name: each
    for each in (
        Workload(
            "zone-affinity", 5_000, zone_affinity, "required affinity to one zone", (BACKLOG,)
        ),
        Workload(
            "hostname-anti-affinity",
            2_000,
            hostname_anti_affinity,
            "required anti-affinity on machines",
            (BACKLOG,),
        ),
        Workload("zone-spread", 5_000, zone_spread, "required spread over zones", (BACKLOG,)),
        Workload(
            "preferred-anti-affinity",
            5_000,
            preferred_anti_affinity,
            "preferred anti-affinity on machines",
            (BACKLOG,),
        ),
        Workload(
            "services",
            5_000,
            services,
            "25 services, each spread over machines and zones",
            (BACKLOG,),
        ),
    )
}
