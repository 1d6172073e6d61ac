"""Random small clusters whose pods have constraints between them, as manifests and as the model."""

import copy
from dataclasses import dataclass, field
from random import Random

from afflux.cluster.state import State
from afflux.model.machine import Machine
from afflux.model.relations import (
    AffinityTerm,
    Relations,
    SpreadConstraint,
    TaskLabels,
    TaskSelector,
)
from afflux.model.resources import resources
from afflux.model.selectors import ANYWHERE, NodeAffinity, Requirement, Term
from afflux.model.taints import Taint, Toleration
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from oracles.builders import machine
from oracles.kubernetes_filters import (
    REQUIRED,
    Cluster,
    Manifest,
    is_ending,
    labels_of,
    name_of,
    namespace_of,
    node_of,
    selector_of_spread,
    terms,
)

HOST, ZONE, RACK = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack"
NAMESPACES = ("red", "blue", "green")
APPS = ("db", "web", "log")
TIERS = ("front", "back")


@dataclass
class RelatedPods:
    """One random cluster, and the pods and gangs that wait for it.

    Pods are copies of a few templates, as those of Deployments are.
    """

    rng: Random
    cluster: Cluster = field(init=False)
    waiting: list[list[Manifest]] = field(init=False)
    priorities: list[int] = field(init=False)
    is_tight: bool = field(init=False)

    def __post_init__(self) -> None:
        rng = self.rng
        self.is_tight = rng.random() < 0.5
        self._zones = [f"z{i}" for i in range(rng.choice((2, 2, 3)))]
        self._pods = 0
        nodes = [self._node(f"n{i}") for i in range(rng.randint(5, rng.choice((6, 9, 12))))]
        self._namespaces = NAMESPACES[: rng.choice((1, 2, 3))]
        teams = {name: {"team": rng.choice(("x", "y"))} for name in self._namespaces}
        self.cluster = Cluster({name_of(node): node for node in nodes}, teams)
        self._templates = [self._template() for _ in range(rng.randint(2, 5))]
        for _ in range(rng.randint(0, len(nodes))):
            pod = self._pod(rng.choice(self._templates))
            pod["spec"]["nodeName"] = rng.choice(nodes)["metadata"]["name"]
            if rng.random() < 0.15:
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            self.cluster.pods.append(pod)
        self.waiting, self.priorities = [], []
        for _ in range(rng.randint(2, 7)):
            size = rng.randint(2, 4) if rng.random() < 0.25 else 1
            chosen = [rng.choice(self._templates)]
            chosen += rng.choices(self._templates, k=size - 1) if rng.random() < 0.5 else []
            chosen += chosen[:1] * (size - len(chosen))
            self.waiting.append([self._pod(template) for template in chosen])
            self.priorities.append(rng.choice((0, 0, 0, 10)))

    def pods(self) -> list[Manifest]:
        """The pods that wait."""
        return [pod for group in self.waiting for pod in group]

    # --- Manifests

    def _node(self, name: str) -> Manifest:
        rng = self.rng
        labels = {HOST: name} if rng.random() < 0.95 else {}
        if rng.random() < 0.85:
            labels[ZONE] = rng.choice(self._zones)
        if rng.random() < 0.6:
            labels[RACK] = rng.choice(("r1", "r2"))
        spec: Manifest = {}
        if rng.random() < 0.15:
            effect = rng.choice(("NoSchedule", "NoSchedule", "PreferNoSchedule"))
            spec["taints"] = [{"key": "dedicated", "effect": effect}]
        if rng.random() < 0.05:
            spec["unschedulable"] = True
        cpu = rng.randint(1, 4) if self.is_tight else 100
        allocatable = {"cpu": str(cpu), "pods": str(rng.choice((1, 2, 3)) if self.is_tight else 99)}
        metadata = {"name": name, "labels": labels}
        return {"metadata": metadata, "spec": spec, "status": {"allocatable": allocatable}}

    def _template(self) -> Manifest:
        rng = self.rng
        labels = {"app": rng.choice(APPS)}
        if rng.random() < 0.6:
            labels["tier"] = rng.choice(TIERS)
        namespace = rng.choice(self._namespaces)
        cpu = rng.randint(0, 2)
        spec: Manifest = {"containers": [{"resources": {"requests": {"cpu": str(cpu)}}}]}
        affinity: Manifest = {}
        if rng.random() < 0.35:
            affinity["podAffinity"] = {REQUIRED: self._terms(labels, 0.6)}
        if rng.random() < 0.35:
            affinity["podAntiAffinity"] = {REQUIRED: self._terms(labels, 0.4)}
        if rng.random() < 0.15:
            terms_ = [{"matchExpressions": [self._expression(RACK, ("r1", "r2"))]}]
            affinity["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": terms_}}
        if affinity:
            spec["affinity"] = affinity
        if rng.random() < 0.45:
            constraints = [self._spread(labels) for _ in range(rng.choice((1, 1, 2)))]
            # No two constraints may have the same key and strength.
            spec["topologySpreadConstraints"] = list(
                {(c["topologyKey"], c["whenUnsatisfiable"]): c for c in constraints}.values()
            )
        if rng.random() < 0.1:
            spec["nodeSelector"] = {RACK: rng.choice(("r1", "r2"))}
        if rng.random() < 0.2:
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        return {"metadata": {"namespace": namespace, "labels": labels}, "spec": spec}

    def _terms(self, labels: dict[str, str], own: float) -> list[Manifest]:
        count = self.rng.choice((1, 1, 1, 2))
        return [self._term(labels, own) for _ in range(count)]

    def _term(self, labels: dict[str, str], own: float) -> Manifest:
        rng = self.rng
        term: Manifest = {"topologyKey": rng.choice((ZONE, ZONE, HOST, RACK))}
        term["labelSelector"] = self._selector(labels, own)
        if rng.random() < 0.2:
            term["namespaces"] = rng.sample(NAMESPACES, rng.randint(1, 2))
        if rng.random() < 0.25:
            by_team = {"matchLabels": {"team": rng.choice(("x", "y"))}}
            term["namespaceSelector"] = rng.choice(({}, by_team))
        return term

    def _selector(self, labels: dict[str, str], own: float) -> Manifest | None:
        rng = self.rng
        chance = rng.random()
        if chance < 0.03:
            return None
        if chance < 0.06:
            return {}
        if rng.random() < own:
            return {"matchLabels": {"app": labels["app"]}}
        if rng.random() < 0.5:
            return {"matchLabels": {"app": rng.choice(APPS)}}
        return {"matchExpressions": [self._expression("tier", TIERS)]}

    def _expression(self, key: str, values: tuple[str, ...]) -> Manifest:
        operator = self.rng.choice(("In", "In", "NotIn", "Exists", "DoesNotExist"))
        found: Manifest = {"key": key, "operator": operator}
        if operator in ("In", "NotIn"):
            found["values"] = [self.rng.choice(values)]
        return found

    def _spread(self, labels: dict[str, str]) -> Manifest:
        rng = self.rng
        found: Manifest = {
            "topologyKey": rng.choice((ZONE, ZONE, HOST, RACK)),
            "maxSkew": rng.choice((1, 1, 2)),
            "whenUnsatisfiable": rng.choice(("DoNotSchedule",) * 5 + ("ScheduleAnyway",)),
            "labelSelector": self._selector(labels, 0.7),
        }
        if found["whenUnsatisfiable"] == "DoNotSchedule" and rng.random() < 0.25:
            found["minDomains"] = rng.randint(2, 4)
        if rng.random() < 0.25:
            found["nodeAffinityPolicy"] = rng.choice(("Honor", "Ignore"))
        if rng.random() < 0.25:
            found["nodeTaintsPolicy"] = rng.choice(("Honor", "Ignore"))
        if found["labelSelector"] is not None and rng.random() < 0.15:
            found["matchLabelKeys"] = ["tier"]
        return found

    def _pod(self, template: Manifest) -> Manifest:
        pod = copy.deepcopy(template)
        pod["metadata"]["name"] = f"p{self._pods}"
        self._pods += 1
        return pod

    # --- The model

    def state(self) -> State:
        state = State(_machine(node) for node in self.cluster.nodes.values())
        for name, labels in self.cluster.namespaces.items():
            state.relations.selected.set_namespace(name, labels)
        for pod in self.cluster.pods:
            state.place(task_of(pod), node_of(pod))
        return state

    def groups(self) -> list[WaitingGroup]:
        return [
            WaitingGroup(f"g{number}", tuple(map(task_of, pods)), priority)
            for number, (pods, priority) in enumerate(
                zip(self.waiting, self.priorities, strict=True)
            )
        ]


def zoned_state() -> State:
    """Machines `a0`, `a1` and `b0` in the zones `a` and `b`, and `none` in no zone."""
    zones = {"a0": "a", "a1": "a", "b0": "b"}
    machines = [machine(name, labels={ZONE: zone, HOST: name}) for name, zone in zones.items()]
    return State([*machines, machine("none", labels={HOST: "none"})])


def _machine(node: Manifest) -> Machine:
    allocatable = {name: int(amount) for name, amount in node["status"]["allocatable"].items()}
    return Machine(
        name_of(node),
        resources(allocatable),
        labels=node["metadata"]["labels"],
        taints=tuple(Taint(t["key"], t["effect"]) for t in node["spec"].get("taints", ())),
        unschedulable=node["spec"].get("unschedulable", False),
    )


def task_of(pod: Manifest) -> Task:
    """The task of a pod."""
    spec = pod["spec"]
    cpu = int(spec["containers"][0]["resources"]["requests"]["cpu"])
    affinity = spec.get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED)
    node_affinity = ANYWHERE
    if affinity is not None or "nodeSelector" in spec:
        required = affinity and tuple(
            Term(_requirements(term)) for term in affinity["nodeSelectorTerms"]
        )
        node_affinity = NodeAffinity(tuple(spec.get("nodeSelector", {}).items()), required)
    shape = Shape(
        resources({"pods": 1, "cpu": cpu}),
        affinity=node_affinity,
        tolerations=tuple(Toleration(t["key"], "Exists") for t in spec.get("tolerations", ())),
        relations=Relations(
            affinity=tuple(_affinity_term(pod, each) for each in terms(pod, "podAffinity")),
            anti_affinity=tuple(
                _affinity_term(pod, each) for each in terms(pod, "podAntiAffinity")
            ),
            spread=tuple(
                _spread_constraint(pod, each) for each in spec.get("topologySpreadConstraints", ())
            ),
        ),
    )
    labels = TaskLabels(namespace_of(pod), tuple(sorted(labels_of(pod).items())), is_ending(pod))
    return Task(name_of(pod), name_of(pod), shape, labels=labels)


def _affinity_term(pod: Manifest, term: Manifest) -> AffinityTerm:
    named, selected = term.get("namespaces", []), term.get("namespaceSelector")
    own = [namespace_of(pod)] if not named and selected is None else named
    labels = None if selected is None else _requirements(selected)
    selector = TaskSelector(tuple(sorted(own)), labels, _labels(term.get("labelSelector")))
    return AffinityTerm(selector, term["topologyKey"])


def _spread_constraint(pod: Manifest, constraint: Manifest) -> SpreadConstraint:
    labels = _labels(selector_of_spread(pod, constraint))
    return SpreadConstraint(
        TaskSelector((namespace_of(pod),), None, labels, includes_ending=False),
        constraint["topologyKey"],
        constraint["maxSkew"],
        required=constraint["whenUnsatisfiable"] == "DoNotSchedule",
        min_domains=constraint.get("minDomains", 1),
        honors_affinity=constraint.get("nodeAffinityPolicy", "Honor") == "Honor",
        honors_taints=constraint.get("nodeTaintsPolicy", "Ignore") == "Honor",
    )


def _labels(selector: Manifest | None) -> tuple[Requirement, ...] | None:
    return None if selector is None else _requirements(selector)


def _requirements(selector: Manifest) -> tuple[Requirement, ...]:
    equal = selector.get("matchLabels", {}).items()
    expressions = selector.get("matchExpressions", ())
    return (
        *(Requirement(key, "In", (value,)) for key, value in equal),
        *(Requirement(e["key"], e["operator"], tuple(e.get("values", ()))) for e in expressions),
    )
