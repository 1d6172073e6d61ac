"""Random small clusters, and pods with random values of every field that restricts placement."""

from random import Random

from live_manifests import (
    HOSTNAME,
    ZONE,
    claim,
    container,
    csi,
    csi_node,
    expression,
    host_port,
    labelled,
    mounting,
    pod,
    storage_class,
    taint,
    toleration,
    volume,
)
from testbed import Manifest
from testbed.nodes import node
from testbed.resource_requests import of_pod, quantity

GPU = "example.com/gpu"
# Not the testbed's provisioner: its volumes count only once they exist.
DRIVER = "attached.example.com"
OVERHEAD = "heavy"
ZONES = ("a", "b", "c")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
TAINTS = ("dedicated", "drain", "slow")
TAINT_VALUES = ("", "x", "7")
ADDRESSES = ("", "0.0.0.0", "127.0.0.1", "10.0.0.1", "::")  # noqa: S104 - of pods
RACK = "rack"
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
LABELS = {
    "disk": ("ssd", "hdd"),
    "size": ("1", "5", "9", "big"),
    ZONE: ZONES,
    RACK: ("r1", "r2"),
}
# Labels of pods, and of the namespaces in which they run.
APPS = ("db", "web", "log")
TIERS = ("front", "back")
NEIGHBOURS = "neighbours"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class RandomManifests:
    """Random nodes, pods, claims and volumes; all are determined by the seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._claims = 0
        self.machines = [f"m{index}" for index in range(self._random.randint(4, 7))]

    # --- The cluster

    def cluster(self) -> list[Manifest]:
        """Nodes with CSI drivers and running pods, storage classes and existing volumes."""
        team = {"kubernetes.io/metadata.name": NEIGHBOURS, "team": "blue"}
        found: list[Manifest] = [
            {"kind": "Namespace", "metadata": {"name": NEIGHBOURS, "labels": team}},
            node("m0", cpu="4", memory="8Gi", labels={"disk": "ssd"}),
        ]
        for name in self.machines[1:]:
            found.append(self._machine(name))
            if self._happens(0.5):
                found.append(csi_node(name, self._random.randint(0, 2), DRIVER))
        for name in self.machines[1:]:
            found += [self._resident(f"{name}-{index}", name) for index in range(2)]
        found += [storage_class("disk"), storage_class("by-hand", "kubernetes.io/no-provisioner")]
        topology = {"key": ZONE, "values": [self._random.choice(ZONES)]}
        found.append(
            storage_class("zonal", allowedTopologies=[{"matchLabelExpressions": [topology]}])
        )
        for index in range(3):
            here = labelled(expression(HOSTNAME, "In", self._random.choice(self.machines)))
            size = self._random.choice(("1Gi", "5Gi"))
            found.append(volume(f"local-{index}", "by-hand", size=size, terms=[here]))
        return found

    def _machine(self, name: str) -> Manifest:
        pick = self._random.choice
        resources = {GPU: pick(("1", "2"))} if self._happens(0.4) else {}
        if self._happens(0.3):
            resources["hugepages-2Mi"] = "64Mi"
        keys = [key for key in TAINTS if self._happens(0.2)]
        found = node(
            name,
            cpu=pick(("1", "2", "4")),
            memory=pick(("1Gi", "4Gi", "8Gi")),
            pods=pick((2, 4, 110)),
            resources=resources,
            labels={key: pick(values) for key, values in LABELS.items() if self._happens(0.8)},
            taints=[taint(key, pick(EFFECTS), pick(TAINT_VALUES)) for key in keys],
        )
        if self._happens(0.1):
            found["spec"]["unschedulable"] = True
        return found

    def _resident(self, name: str, machine: str) -> Manifest:
        """A running pod of another scheduler, perhaps in another namespace."""
        spec: Manifest = {"containers": [self._container("main")], "labels": self._pod_labels()}
        if self._happens(0.3):
            spec["containers"][0]["ports"] = self._ports()
        if self._happens(0.2):
            # Pods without labels, such as the last object, can always be placed.
            selector = {"matchLabels": {"app": self._random.choice(APPS)}}
            term = self._pod_term(spec["labels"]) | {"labelSelector": selector}
            spec["affinity"] = {"podAntiAffinity": {REQUIRED: [term]}}
        namespace = NEIGHBOURS if self._happens(0.3) else "default"
        return pod(name, scheduler="another", namespace=namespace, nodeName=machine, **spec)

    def last_objects(self) -> list[Manifest]:
        """The last object of each kind, and a pod that needs all of them.

        Each kind has its own watch: a scheduler that places this pod has seen all earlier objects.
        """
        name = "last"
        self.machines.append(name)
        here = labelled(expression(HOSTNAME, "In", name))
        return [
            storage_class(name, "kubernetes.io/no-provisioner"),
            volume(name, name, terms=[here]),
            claim(name, name),
            node(name, cpu="200m", memory="1Gi"),
            pod(name, volumes=mounting(name)),
        ]

    # --- Pending pods

    def pod_spec(self) -> tuple[Manifest, list[Manifest]]:
        """The spec of a pod with its labels, and its claims and volumes."""
        spec: Manifest = {"containers": [self._container("main")], "labels": self._pod_labels()}
        made: list[Manifest] = []
        if self._happens(0.2):
            spec["containers"].append(self._container("second"))
        if self._happens(0.3):
            spec["initContainers"] = [
                self._container(f"init-{index}", sidecar=self._happens(0.5)) for index in range(2)
            ]
        if self._happens(0.15):
            spec["runtimeClassName"] = OVERHEAD
        if self._happens(0.1) and "runtimeClassName" not in spec:
            # A pod may not request less than its containers.
            least = "3500m" if of_pod({"spec": spec}).get("cpu", 0) <= quantity("3500m") else "8"
            spec["resources"] = {"requests": {"cpu": "8" if self._happens(0.3) else least}}
        if self._happens(0.2):
            key = self._random.choice(tuple(LABELS))
            spec["nodeSelector"] = {key: self._random.choice(LABELS[key])}
        affinity: Manifest = {}
        if self._happens(0.3):
            affinity["nodeAffinity"] = self._affinity()
        if self._happens(0.25):
            affinity["podAffinity"] = self._pod_affinity(spec["labels"])
        if self._happens(0.25):
            affinity["podAntiAffinity"] = self._pod_affinity(spec["labels"])
        if affinity:
            spec["affinity"] = affinity
        if self._happens(0.3):
            spec["topologySpreadConstraints"] = self._spread(spec["labels"])
        spec["tolerations"] = [self._toleration() for _ in range(3) if self._happens(0.3)]
        if self._happens(0.3):
            spec["containers"][0]["ports"] = self._ports()
        if self._happens(0.1):
            spec["hostNetwork"] = True
        if self._happens(0.35):
            spec["volumes"] = mounting(*self._claim(made))
        return spec, made

    def _container(self, name: str, *, sidecar: bool = False) -> Manifest:
        pick = self._random.choice
        asked = {"cpu": pick(("100m", "250m", "500m", "1", "1500m"))} if self._happens(0.9) else {}
        if self._happens(0.6):
            asked["memory"] = pick(("100Mi", "500Mi", "1Gi", "3Gi"))
        if self._happens(0.1):
            asked["ephemeral-storage"] = pick(("1Gi", "2Ti"))
        if self._happens(0.15):
            asked[GPU] = pick(("1", "2"))
        if self._happens(0.1) and asked.keys() & {"cpu", "memory"}:
            asked["hugepages-2Mi"] = pick(("2Mi", "64Mi"))
        found = container(asked, name)
        if sidecar:
            found["restartPolicy"] = "Always"
        return found

    def _ports(self) -> list[Manifest]:
        """One or two different host ports."""
        found: dict[tuple[int, str], Manifest] = {}
        for _ in range(self._random.randint(1, 2)):
            number, protocol = (
                self._random.choice((8080, 8081)),
                self._random.choice(("TCP", "UDP")),
            )
            found[number, protocol] = host_port(number, protocol, self._random.choice(ADDRESSES))
        return list(found.values())

    def _affinity(self) -> Manifest:
        found: Manifest = {}
        if self._happens(0.8):
            terms = [self._term() for _ in range(self._random.randint(1, 2))]
            found[REQUIRED] = {"nodeSelectorTerms": terms}
        if self._happens(0.4):
            found[PREFERRED] = [
                {"weight": self._random.randint(1, 100), "preference": self._term()}
            ]
        return found

    def _term(self) -> Manifest:
        found: Manifest = {}
        if self._happens(0.3):
            operator = self._random.choice(("In", "NotIn"))
            name = self._random.choice((*self.machines, "no-such-node"))
            found["matchFields"] = [expression("metadata.name", operator, name)]
        if not found or self._happens(0.7):
            found["matchExpressions"] = [
                self._expression() for _ in range(self._random.randint(1, 2))
            ]
        return found

    def _expression(self) -> Manifest:
        key, operator = self._random.choice(tuple(LABELS)), self._random.choice(OPERATORS)
        match operator:
            case "Exists" | "DoesNotExist":
                return expression(key, operator)
            case "Gt" | "Lt":
                return expression("size", operator, str(self._random.randint(0, 9)))
            case _:
                values = self._random.sample(LABELS[key], self._random.randint(1, 2))
                return expression(key, operator, *values)

    # --- Constraints between pods

    def _pod_labels(self) -> Manifest:
        labels = {"app": self._random.choice(APPS)}
        if self._happens(0.6):
            labels["tier"] = self._random.choice(TIERS)
        if self._happens(0.3):
            labels["version"] = self._random.choice(("1", "2"))
        return labels

    def _pod_affinity(self, labels: Manifest) -> Manifest:
        found: Manifest = {}
        if self._happens(0.85):
            found[REQUIRED] = [self._pod_term(labels) for _ in range(1 + self._happens(0.25))]
        if self._happens(0.3):
            term = self._pod_term(labels)
            found[PREFERRED] = [{"weight": self._random.randint(1, 100), "podAffinityTerm": term}]
        return found

    def _pod_term(self, labels: Manifest) -> Manifest:
        pick = self._random.choice
        found: Manifest = {"topologyKey": pick((ZONE, ZONE, HOSTNAME, RACK))}
        if self._happens(0.95):
            found["labelSelector"] = self._pod_selector(labels)
        if self._happens(0.2):
            found["namespaces"] = self._random.sample(("default", NEIGHBOURS), 1)
        if self._happens(0.2):
            blue = {"matchLabels": {"team": "blue"}}
            by_name = expression("kubernetes.io/metadata.name", "In", "default")
            found["namespaceSelector"] = pick(({}, blue, {"matchExpressions": [by_name]}))
        if "labelSelector" in found and self._happens(0.15):
            found[pick(("matchLabelKeys", "mismatchLabelKeys"))] = ["version"]
        return found

    def _pod_selector(self, labels: Manifest) -> Manifest:
        if self._happens(0.05):
            return {}
        if self._happens(0.6):
            return {"matchLabels": {"app": labels["app"]}}
        if self._happens(0.5):
            return {"matchLabels": {"app": self._random.choice(APPS)}}
        operator = self._random.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        values = [self._random.choice(TIERS)] if operator in ("In", "NotIn") else []
        return {"matchExpressions": [expression("tier", operator, *values)]}

    def _spread(self, labels: Manifest) -> list[Manifest]:
        """One or two constraints with different keys."""
        found: list[Manifest] = []
        for key in self._random.sample((ZONE, HOSTNAME, RACK), 1 + self._happens(0.3)):
            strength = "DoNotSchedule" if self._happens(0.85) else "ScheduleAnyway"
            constraint: Manifest = {
                "topologyKey": key,
                "maxSkew": self._random.choice((1, 1, 2)),
                "whenUnsatisfiable": strength,
                "labelSelector": self._pod_selector(labels),
            }
            if strength == "DoNotSchedule" and self._happens(0.3):
                constraint["minDomains"] = self._random.randint(1, 4)
            for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
                if self._happens(0.3):
                    constraint[field] = self._random.choice(("Honor", "Ignore"))
            if self._happens(0.15):
                constraint["matchLabelKeys"] = ["version"]
            found.append(constraint)
        return found

    # --- Tolerations and claims

    def _toleration(self) -> Manifest:
        pick = self._random.choice
        effect = pick(("", *EFFECTS))
        fields = {"effect": effect} if effect else {}
        if self._happens(0.1):
            return toleration("", **fields)
        key = pick((*TAINTS, "node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready"))
        if self._happens(0.4):
            return toleration(key, **fields)
        return toleration(key, "Equal", value=pick(TAINT_VALUES), **fields)

    def _claim(self, made: list[Manifest]) -> list[str]:
        """One or two claims: bound already, or to be bound when a node is chosen."""
        names: list[str] = []
        for _ in range(self._random.randint(1, 2)):
            self._claims += 1
            name = f"claim-{self._claims}"
            names.append(name)
            kind = self._random.choice(("bound", "attached", "zoned", "disk", "by-hand", "zonal"))
            if kind in {"disk", "by-hand", "zonal"}:
                made.append(claim(name, kind, size=self._random.choice(("1Gi", "3Gi"))))
                continue
            zones = self._random.sample(ZONES, 2)
            terms = [labelled(expression(ZONE, "In", *zones))]
            if kind == "attached":
                made.append(volume(name, for_claim=name, csi=csi(name, DRIVER)))
            elif kind == "zoned":
                share = {"nfs": {"server": "s", "path": "/"}}
                made.append(volume(name, for_claim=name, labels={ZONE: "__".join(zones)}, **share))
            else:
                made.append(volume(name, for_claim=name, terms=terms))
            made.append(claim(name, volumeName=name))
        return names

    def _happens(self, share: float) -> bool:
        return self._random.random() < share


def runtime_class() -> Manifest:
    """A runtime class with overhead."""
    return {
        "kind": "RuntimeClass",
        "metadata": {"name": OVERHEAD},
        "handler": OVERHEAD,
        "overhead": {"podFixed": {"cpu": "500m", "memory": "100Mi"}},
    }
