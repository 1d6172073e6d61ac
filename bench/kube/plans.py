"""Plans of a cluster and its load: machines, classes of pods, and pods.

Each pod has a valid machine, such that all pods together fit on theirs. So every plan is known to
be possible, and the null binder has valid bindings.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from testbed.api import Manifest
from testbed.nodes import node

# Random draws per pod before all machines are tried.
MAX_DRAWS = 100


@dataclass(frozen=True, slots=True)
class Machine:
    """A node: capacity, labels and taints."""

    name: str
    cpu_milli: int = 32_000
    memory_mib: int = 128 * 1024
    pods: int = 110
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    taints: Sequence[Mapping[str, str]] = ()


@dataclass(frozen=True, slots=True)
class PodClass:
    """Equal pods. `may_run` returns whether they may run on a machine."""

    cpu_milli: int
    memory_mib: int
    spec: Mapping[str, object] = field(default_factory=dict[str, object])
    may_run: Callable[[Machine], bool] = lambda _: True
    labels: Mapping[str, str] = field(default_factory=lambda: {"app": "bench"})


@dataclass(frozen=True, slots=True)
class DomainRule:
    """A rule about all pods of a class: machines with equal values of the label `key` are a domain.

    The pods are in at most `most_domains` domains, each has at most `most_pods` of them, and the
    fullest has at most `max_skew` more than the emptiest. None is no limit.
    """

    class_name: str
    key: str
    most_domains: int | None = None
    most_pods: int | None = None
    max_skew: int | None = None


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod, the name of its class, and a valid machine."""

    name: str
    class_name: str
    machine: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan. The pods of `fill` are created with their machines; `rate` is pods per second."""

    machines: Sequence[Machine]
    classes: Mapping[str, PodClass]
    pods: Sequence[Pod]
    fill: Sequence[Pod] = ()
    rate: float = 0.0
    rules: Sequence[DomainRule] = ()

    def placed(self, where: Mapping[str, str]) -> list[tuple[Pod, str]]:
        """Every bound pod with its machine."""
        filled = [(pod, pod.machine) for pod in self.fill]
        return filled + [(pod, where[pod.name]) for pod in self.pods if where.get(pod.name)]


def assign_pods(
    machines: Sequence[Machine], classes: Mapping[str, PodClass], names: Sequence[str], rng: Random
) -> list[Pod]:
    """Pods of these classes, in this order, each on a random valid machine with room for it."""
    free = {each.name: [each.cpu_milli, each.memory_mib, each.pods] for each in machines}
    allowed = {
        name: [each for each in machines if one.may_run(each)] for name, one in classes.items()
    }
    pods: list[Pod] = []
    for number, class_name in enumerate(names):
        need = (classes[class_name].cpu_milli, classes[class_name].memory_mib, 1)
        candidates = allowed[class_name]
        drawn = (rng.choice(candidates) for _ in range(MAX_DRAWS if candidates else 0))
        found = next((each for each in drawn if _fits(need, free[each.name])), None) or next(
            (each for each in candidates if _fits(need, free[each.name])), None
        )
        if found is None:
            raise ValueError(
                f"pod {number} of {len(names)}, of class {class_name}, does not fit on "
                f"{len(machines)} machines; expected fewer pods or more machines"
            )
        left = zip(free[found.name], need, strict=True)
        free[found.name] = [have - asked for have, asked in left]
        pods.append(Pod(f"pod-{number:05d}", class_name, found.name))
    return pods


def _fits(need: Sequence[int], free: Sequence[int]) -> bool:
    return all(asked <= have for asked, have in zip(need, free, strict=True))


def complaints(plan: Plan, where: Mapping[str, str]) -> list[str]:
    """The violations if the pods run on these machines, computed from the plan alone."""
    machines = {each.name: each for each in plan.machines}
    used: Counter[tuple[str, str]] = Counter()
    found: list[str] = []
    for pod, name in plan.placed(where):
        one = plan.classes[pod.class_name]
        if not one.may_run(machines[name]):
            found.append(f"pod {pod.name} of class {pod.class_name} may not run on {name}")
        used[name, "cpu"] += one.cpu_milli
        used[name, "memory"] += one.memory_mib
        used[name, "pods"] += 1
    for each in plan.machines:
        room = {"cpu": each.cpu_milli, "memory": each.memory_mib, "pods": each.pods}
        found += [
            f"machine {each.name} is over its capacity: pods ask for {used[each.name, kind]} of "
            f"{kind}, it has {amount}"
            for kind, amount in room.items()
            if used[each.name, kind] > amount
        ]
    return found + [broken for rule in plan.rules if (broken := _broken(rule, plan, where))]


def _broken(rule: DomainRule, plan: Plan, where: Mapping[str, str]) -> str | None:
    """The violation of a rule about domains, None if it holds."""
    pods = {each.labels[rule.key]: 0 for each in plan.machines}
    domains = {each.name: each.labels[rule.key] for each in plan.machines}
    for pod, name in plan.placed(where):
        pods[domains[name]] += pod.class_name == rule.class_name
    used, most, fewest = sum(map(bool, pods.values())), max(pods.values()), min(pods.values())
    for what, found, limit in (
        ("domains", used, rule.most_domains),
        ("pods in one domain", most, rule.most_pods),
        ("pods more in one domain than in another", most - fewest, rule.max_skew),
    ):
        if limit is not None and found > limit:
            return f"class {rule.class_name}, {rule.key}: {found} {what}, expected at most {limit}"
    return None


def machine_name(index: int) -> str:
    """The name of the machine with this number."""
    return f"node-{index:04d}"


def as_json(plan: Plan, warm: int, workers: int) -> str:
    """The plan for the load generator, with `warm` small pods for the warm-up."""
    classes = {name: _pod_manifest(one) for name, one in plan.classes.items()}
    classes["warm"] = _pod_manifest(PodClass(10, 16))
    # The null binder needs a machine for them too: such small pods fit on any.
    sets: dict[str, Manifest] = {
        "pods": {"pods": _planned(plan.pods), "rate": plan.rate, "workers": workers},
        "fill": {"pods": _planned(plan.fill), "workers": workers, "fixed": True},
        "warm": {
            "pods": _planned(
                [
                    Pod(f"warm-{n:03d}", "warm", plan.machines[n % len(plan.machines)].name)
                    for n in range(warm)
                ]
            ),
            "workers": workers,
        },
    }
    nodes = [_node_manifest(each, index) for index, each in enumerate(plan.machines)]
    return json.dumps({"nodes": nodes, "classes": classes, "sets": sets})


def _planned(pods: Sequence[Pod]) -> list[Manifest]:
    return [{"name": pod.name, "class": pod.class_name, "node": pod.machine} for pod in pods]


def _node_manifest(machine: Machine, index: int) -> Manifest:
    return node(
        machine.name,
        index=index,
        cpu=f"{machine.cpu_milli}m",
        memory=f"{machine.memory_mib}Mi",
        pods=machine.pods,
        labels=machine.labels,
        taints=machine.taints,
    )


def _pod_manifest(one: PodClass) -> Manifest:
    requests = {"cpu": f"{one.cpu_milli}m", "memory": f"{one.memory_mib}Mi"}
    container = {
        "name": "main",
        "image": "registry.example/app:1",
        "resources": {"requests": requests},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "default", "labels": dict(one.labels)},
        "spec": {"containers": [container], **one.spec},
    }
