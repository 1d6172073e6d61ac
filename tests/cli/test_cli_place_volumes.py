"""afflux place honours host ports and volumes as the cluster would."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cluster_manifests import Manifest, gang, node, pod, write
from run_afflux import Afflux

NO_VOLUMES = "node(s) didn't find available persistent volumes to bind"
PORTS = "node(s) didn't have free ports for the requested pod ports"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


@pytest.fixture
def place(afflux: Afflux, tmp_path: Path) -> Callable[..., tuple[dict[str, str], dict[str, str]]]:
    """Where each pod goes and why the others wait."""

    def call(*items: Manifest) -> tuple[dict[str, str], dict[str, str]]:
        file = write(tmp_path / "cluster.json", *items)
        answer = json.loads(afflux("place", file, "-o", "json").out)
        placed = {entry["pod"]: entry["node"] for entry in answer["placements"]}
        return placed, {entry["pod"]: entry["reason"] for entry in answer["waiting"]}

    return call


def storage(kind: str, name: str, version: str = "v1", **fields: Any) -> Manifest:
    metadata = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def local_class() -> Manifest:
    return storage(
        "StorageClass",
        "local",
        "storage.k8s.io/v1",
        provisioner="kubernetes.io/no-provisioner",
        volumeBindingMode="WaitForFirstConsumer",
    )


def claim(name: str, volume: str = "") -> Manifest:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    metadata: dict[str, Any] = {"namespace": "shop", "uid": f"uid-{name}"}
    if volume:
        spec["volumeName"] = volume
        metadata["annotations"] = BOUND
    return storage("PersistentVolumeClaim", name, metadata=metadata, spec=spec)


def disk(name: str, host: str, handle: str = "") -> Manifest:
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}
    terms = [{"matchExpressions": [expression]}]
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "capacity": {"storage": "1Gi"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }
    if handle:
        spec["csi"] = {"driver": "disk.example.com", "volumeHandle": handle}
    return storage("PersistentVolume", name, spec=spec, status={"phase": "Available"})


def hosts(*names: str) -> list[Manifest]:
    return [node(name, labels={"kubernetes.io/hostname": name}) for name in names]


def using(name: str, *claims: str, **spec: Any) -> Manifest:
    volumes = [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": each}}
        for number, each in enumerate(claims)
    ]
    return pod(name, volumes=volumes, **spec)


def on_port(name: str, **port: Any) -> Manifest:
    return pod(name, containers=[{"name": "main", "ports": [{"containerPort": 80, **port}]}])


def test_a_host_port_is_used_once_per_node(place: Callable[..., Any]) -> None:
    pods = [on_port(f"web-{n}", hostPort=80) for n in range(3)]
    local = on_port("local", hostPort=80, hostIP="10.0.0.1")
    other = on_port("other", hostPort=80, protocol="UDP")
    placed, waiting = place(*hosts("n1", "n2"), *pods, local, other)
    taken = [placed[name] for name in placed if "web" in name or "local" in name]
    assert len(taken) == len(set(taken)) == 2
    assert "shop/other" in placed
    assert set(waiting.values()) == {f"0/2 nodes are available: 2 {PORTS}."}


def test_each_pod_gets_a_disk_of_its_own(place: Callable[..., Any]) -> None:
    pods = [using(f"p{n}", f"c{n}") for n in range(4)]
    claims = [claim(f"c{n}") for n in range(4)]
    disks = [disk("d1", "n1"), disk("d2", "n2"), disk("d3", "n2")]
    placed, waiting = place(*hosts("n1", "n2", "n3"), local_class(), *claims, *disks, *pods)
    assert sorted(placed.values()) == ["n1", "n2", "n2"]
    assert list(waiting.values()) == [f"0/3 nodes are available: 3 {NO_VOLUMES}."]


def writers(name: str, size: int) -> list[Manifest]:
    """A gang, the members of which have a claim each, and the claims."""
    members = [
        m | {"spec": m["spec"] | {"volumes": using("x", f"{name}{n}")["spec"]["volumes"]}}
        for n, m in enumerate(gang(name, size))
    ]
    return [*(claim(f"{name}{n}") for n in range(size)), *members]


def test_gangs_that_need_the_same_disks_start_whole_or_not_at_all(
    place: Callable[..., Any],
) -> None:
    disks = [disk("d1", "n1"), disk("d2", "n2")]
    placed, waiting = place(*hosts("n1", "n2"), local_class(), *disks, *writers("g", 2))
    assert sorted(placed.values()) == ["n1", "n2"]
    assert waiting == {}


def test_a_gang_with_too_few_disks_starts_nothing(place: Callable[..., Any]) -> None:
    cluster = [*hosts("n1", "n2", "n3"), local_class(), disk("d1", "n1"), disk("d2", "n2")]
    placed, waiting = place(*cluster, *writers("g", 3))
    assert placed == {}
    words = "group shop/g needs volumes for 3 claims at once, 2 are available"
    assert set(waiting.values()) == {words}
    # Two gangs need the same disks: one of them starts, with all its members.
    placed, waiting = place(*cluster, disk("d3", "n3"), *writers("g", 2), *writers("h", 2))
    assert (len(placed), len(waiting)) == (2, 2)
    assert len({name.rpartition("-")[0] for name in placed}) == 1


def test_a_gang_goes_to_the_zone_with_enough_disks(place: Callable[..., Any]) -> None:
    def shared(name: str, zone: str) -> Manifest:
        there = disk(name, "-")
        terms = there["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        terms[0]["matchExpressions"] = [{"key": "zone", "operator": "In", "values": [zone]}]
        return there

    # The empty machine is in the zone with one disk.
    near, far = node("near", labels={"zone": "a"}), node("far", labels={"zone": "b"})
    disks = [shared("a1", "a"), shared("b1", "b"), shared("b2", "b")]
    busy = pod("busy", cpu="1", on="far")
    placed, waiting = place(near, far, busy, local_class(), *disks, *writers("g", 3))
    assert sorted(placed.values()) == ["far", "far", "near"]
    assert waiting == {}


def test_a_pod_goes_to_the_node_of_its_bound_volume(place: Callable[..., Any]) -> None:
    bound = claim("c", "d")
    placed, waiting = place(*hosts("n1", "n2"), bound, disk("d", "n2"), using("p", "c"))
    assert (placed, waiting) == ({"shop/p": "n2"}, {})
    _, waiting = place(*hosts("n1"), bound, disk("d", "n2"), using("p", "c"))
    conflict = "node(s) didn't match PersistentVolume's node affinity"
    assert waiting == {"shop/p": f"0/1 nodes are available: 1 {conflict}."}
    _, waiting = place(*hosts("n1"), using("p", "c"))
    assert waiting == {"shop/p": 'persistentvolumeclaim "c" not found'}


def test_the_attach_limit_of_a_driver_holds(place: Callable[..., Any]) -> None:
    drivers = [{"name": "disk.example.com", "nodeID": "n1", "allocatable": {"count": 2}}]
    limit = storage("CSINode", "n1", "storage.k8s.io/v1", spec={"drivers": drivers})
    bound = [claim(f"c{n}", f"d{n}") for n in range(3)]
    disks = [disk(f"d{n}", "n1", f"handle-{n}") for n in range(3)]
    # Two that run share a volume: it is attached once.
    running = [using(f"r{n}", "c0", on="n1") for n in range(2)]
    pods = [using("p1", "c1"), using("p2", "c2")]
    placed, waiting = place(*hosts("n1"), limit, *bound, *disks, *running, *pods)
    assert len(placed) == 1
    exceeded = "node(s) exceed max volume count"
    assert list(waiting.values()) == [f"0/1 nodes are available: 1 {exceeded}."]


def zonal(name: str, zone: str) -> Manifest:
    """A disk that every machine of the zone reaches."""
    there = disk(name, "-")
    terms = there["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    terms[0]["matchExpressions"] = [{"key": "zone", "operator": "In", "values": [zone]}]
    return there


def beside(name: str, app: str, **spec: Any) -> Manifest:
    """A pod that has to be on a machine with a pod of this app."""
    term = {
        "labelSelector": {"matchLabels": {"app": app}},
        "topologyKey": "kubernetes.io/hostname",
    }
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return pod(name, affinity={"podAffinity": required}, **spec)


@pytest.mark.parametrize("flags", [(), ("--strategy", "fcfs"), ("--strategy", "conservative")])
def test_a_pod_that_loses_its_volume_takes_back_those_that_require_it(
    afflux: Afflux, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    # A plan does not know that both claims can only bind the same disk: both pods are placed, with
    # the pods that rest on them. Then one of the two gets the disk.
    near = node("near", cpu="16", labels={"zone": "a", "kubernetes.io/hostname": "near"})
    pods = [using(name, f"c-{name}", labels={"app": name}) for name in ("one", "two")]
    others = [
        beside("with-one", "one"),
        beside("with-two", "two"),
        *gang("both", 2, affinity=beside("x", "two")["spec"]["affinity"]),
    ]
    cluster = [near, local_class(), claim("c-one"), claim("c-two"), zonal("d", "a"), *pods, *others]
    file = write(tmp_path / "cluster.json", *cluster)
    answer = json.loads(afflux("place", file, "-o", "json", *flags).out)
    placed = {entry["pod"] for entry in answer["placements"]}
    waiting = {entry["pod"] for entry in answer["waiting"]}
    with_disk = {"shop/one", "shop/with-one"}
    others_of_two = {"shop/with-two", "shop/both-0", "shop/both-1"}
    if "shop/two" in placed:
        with_disk, others_of_two = {"shop/two", *others_of_two}, {"shop/with-one"}
    assert placed == with_disk
    assert waiting == {"shop/one", "shop/two", *others_of_two, "shop/with-one"} - placed


def test_pods_that_lose_a_volume_look_for_another_one(place: Callable[..., Any]) -> None:
    near = node("near", labels={"zone": "a", "kubernetes.io/hostname": "near"})
    far = node("far", labels={"zone": "b", "kubernetes.io/hostname": "far"})
    pods = [using(f"p{n}", f"c{n}") for n in range(4)]
    claims = [claim(f"c{n}") for n in range(4)]
    cluster = [near, far, local_class(), zonal("d1", "a"), zonal("d2", "b"), *claims, *pods]
    placed, waiting = place(*cluster, pod("plain"))
    assert "shop/plain" in placed
    assert sorted(placed[each] for each in placed if each != "shop/plain") == ["far", "near"]
    assert set(waiting.values()) == {f"0/2 nodes are available: 2 {NO_VOLUMES}."}
