"""Random storage: the volume needs of a pod agree with kube-scheduler's rules at every node.

The oracle evaluates the manifests for one node at a time, as kube-scheduler is documented: bound
volumes by node affinity and zone labels, unbound claims by the smallest reachable volume that fits,
else by provisioning.
"""

from random import Random
from typing import Any

import pytest
from storage_objects import (
    allowed,
    claim,
    claiming,
    driver,
    space,
    storage,
    storage_class,
    typed,
    volume,
)

from afflux.kube.volumes.volume_needs import Blocked, VolumeNeeds

ZONE = "topology.kubernetes.io/zone"
OLD = "failure-domain.beta.kubernetes.io/zone"
ZONES, HOSTS = "abc", tuple(f"n{n}" for n in range(6))


class Cluster:
    """Manifests of one random cluster."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.nodes = {
            name: self._some({"host": name, "zone": rng.choice(ZONES), ZONE: rng.choice(ZONES)})
            for name in HOSTS
        }
        self.classes = {
            name: storage_class(
                name,
                rng.choice(("", "disk.example.com", "disk.example.com")),
                **rng.choice(({}, {"allowedTopologies": allowed(zone="a b")})),
            )
            for name in ("later", "other")
        }
        self.reporting = rng.random() < 0.5
        self.reports = [
            space(
                f"s{number}",
                rng.choice(tuple(self.classes)),
                nodeTopology=rng.choice(({}, {"matchLabels": {"zone": rng.choice(ZONES)}})),
                capacity=f"{rng.randint(1, 6)}Gi",
            )
            for number in range(rng.randint(0, 4))
        ]
        self.claims: dict[str, Any] = {}
        self.volumes: dict[str, Any] = {}
        for number in range(rng.randint(1, 3)):
            self._add_claim(f"c{number}")
        for number in range(rng.randint(0, 7)):
            self._add_volume(f"v{number}")
        self.pod = claiming("p", *self.claims)

    def _some(self, labels: dict[str, str]) -> dict[str, str]:
        return {key: value for key, value in labels.items() if self.rng.random() < 0.8}

    def _place(self) -> dict[str, Any]:
        rng = self.rng
        return rng.choice(
            (
                {},
                {"on": [{"host": [rng.choice(HOSTS)]}]},
                {"on": [{"host": rng.sample(HOSTS, 2)}, {"zone": [rng.choice(ZONES)]}]},
                {"on": [{"zone": [rng.choice(ZONES)], "host": rng.sample(HOSTS, 4)}]},
            )
        )

    def _add_claim(self, name: str) -> None:
        rng = self.rng
        if rng.random() < 0.25:
            self.claims[name] = claim(name, volume=f"of-{name}")
            labels = self._some({ZONE: rng.choice(("a", "a__b", "c")), OLD: "b"})
            place = self._place()
            self.volumes[f"of-{name}"] = volume(f"of-{name}", labels=labels, **place)
            return
        self.claims[name] = claim(
            name,
            gib=rng.randint(1, 4),
            node=rng.choice(HOSTS) if rng.random() < 0.1 else "",
            storageClassName=rng.choice(("later", "later", "other")),
        )

    def _add_volume(self, name: str) -> None:
        rng = self.rng
        fields = self._place()
        if rng.random() < 0.15:
            held = {"namespace": "default", "name": rng.choice(("c0", "c1", "stranger"))}
            fields["claimRef"] = held
        self.volumes[name] = volume(
            name,
            gib=rng.randint(1, 6),
            storageClassName=rng.choice(("later", "later", "other")),
            status={"phase": rng.choice(("Available",) * 5 + ("Released",))},
            **fields,
        )

    def manifests(self) -> list[Any]:
        found = [*self.classes.values(), *self.reports, *self.claims.values()]
        found += [*self.volumes.values(), driver(storageCapacity=self.reporting), self.pod]
        return self.rng.sample(found, len(found))

    # --- The oracle

    def usable(self, node: str) -> bool:
        labels = self.nodes[node]
        taken: set[str] = set()
        open_claims = []
        for name, stated in self.claims.items():
            if stated["spec"].get("volumeName"):
                there = self.volumes[stated["spec"]["volumeName"]]
                if not reaches(there, labels) or not zone_matches(there, labels):
                    return False
            else:
                open_claims.append((gib(stated["spec"]["resources"]["requests"]), name, stated))
        missing = []
        for size, name, stated in sorted(open_claims, key=lambda entry: entry[0]):
            selected = stated["metadata"]["annotations"].get("volume.kubernetes.io/selected-node")
            if selected is not None:
                if selected != node:
                    return False
                missing.append((size, stated))
                continue
            found = self._match(name, size, stated, labels, taken)
            if found is None:
                missing.append((size, stated))
            else:
                taken.add(found)
        return all(self._makeable(size, stated, labels) for size, stated in missing)

    def _match(self, name: str, size: int, stated: Any, labels: Any, taken: set[str]) -> str | None:
        best = None
        for each, there in sorted(self.volumes.items()):
            spec = there["spec"]
            of = spec.get("claimRef")
            if each in taken or (of is not None and of["name"] != name):
                continue
            same_class = spec["storageClassName"] == stated["spec"]["storageClassName"]
            if gib(spec["capacity"]) < size or not same_class:
                continue
            if of is not None:
                return each if reaches(there, labels) else None
            if there["status"]["phase"] != "Available" or not reaches(there, labels):
                continue
            if best is None or gib(spec["capacity"]) < best[0]:
                best = (gib(spec["capacity"]), each)
        return best[1] if best else None

    def _makeable(self, size: int, stated: Any, labels: dict[str, str]) -> bool:
        name = stated["spec"]["storageClassName"]
        of = self.classes[name]
        if of["provisioner"].endswith("no-provisioner"):
            return False
        if "allowedTopologies" in of and labels.get("zone") not in ("a", "b"):
            return False
        if not self.reporting:
            return True
        return any(
            report["storageClassName"] == name
            and gib({"storage": report["capacity"]}) >= size
            and all(
                labels.get(key) == value
                for key, value in report["nodeTopology"].get("matchLabels", {}).items()
            )
            for report in self.reports
        )


def gib(amounts: dict[str, str]) -> int:
    return int(amounts["storage"].removesuffix("Gi"))


def reaches(there: Any, labels: dict[str, str]) -> bool:
    affinity = there["spec"].get("nodeAffinity")
    if affinity is None:
        return True
    return any(
        all(labels.get(e["key"]) in e["values"] for e in term["matchExpressions"])
        for term in affinity["required"]["nodeSelectorTerms"]
    )


def zone_matches(there: Any, labels: dict[str, str]) -> bool:
    if ZONE not in labels and OLD not in labels:
        return True
    for key in (OLD, ZONE):
        stated = there["metadata"]["labels"].get(key)
        if stated is not None and labels.get(key, labels.get(ZONE)) not in stated.split("__"):
            return False
    return True


@pytest.mark.parametrize("batch", range(10))
def test_needs_agree_with_kube_scheduler_at_every_node(batch: int) -> None:
    judged = {True: 0, False: 0}
    for number in range(60):
        cluster = Cluster(Random(f"volumes {batch} {number}"))
        found = storage(*cluster.manifests())
        pod = typed(cluster.pod)
        needs = found.needs(pod)
        assert isinstance(needs, VolumeNeeds)
        for node, labels in cluster.nodes.items():
            included = all(
                reachability.matches(node, labels) for reachability in needs.reachability
            )
            judged[included] += 1
            assert included == cluster.usable(node), (batch, number, node)
            # An included node has volumes for the pod. (The choice ignores zone labels.)
            chosen = found.choose(pod, node, labels)
            if included:
                assert not isinstance(chosen, Blocked), (batch, number, node)
                names = [choice.volume for choice in chosen if choice.volume is not None]
                assert len(names) == len(set(names))
                assert all(reaches(cluster.volumes[name], labels) for name in names)
    assert min(judged.values()) > 50
