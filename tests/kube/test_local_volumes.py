"""The number of local volumes on each machine for claims of a kind, after any updates."""

from random import Random
from typing import Any

import pytest
from storage_objects import claim, claiming, decoded, needs, storage, storage_class, typed, volume

from afflux.kube.nodes import machine
from afflux.kube.volumes.claims import read_claim
from afflux.kube.volumes.local_volumes import LocalVolumes
from afflux.kube.volumes.volume import read_volume
from afflux.kube.volumes.volume_needs import VolumeNeeds
from afflux.model.implied_resources import is_volume
from afflux.model.resources import Resources

HOST = "kubernetes.io/hostname"
LATER = storage_class()
ZONE = [{"zone": ["a"]}]


def on(host: str) -> list[Any]:
    return [{HOST: [host]}]


def taken(manifest: Any, *others: Any) -> list[int]:
    found = needs(manifest, *others)
    assert isinstance(found, VolumeNeeds)
    asked = decoded(manifest, *others).shape.requests
    assert tuple(entry for entry in asked if is_volume(entry[0])) == found.taken
    return [amount for _, amount in found.taken]


def offered(host: str, *manifests: Any) -> list[int]:
    return list(storage(*manifests).volumes_on({HOST: host}).values())


def test_only_free_volumes_that_fit_the_claim_are_counted() -> None:
    wanted = claim("c", gib=2, selector={"matchLabels": {"tier": "fast"}})
    fitting: dict[str, Any] = {"gib": 2, "labels": {"tier": "fast"}, "on": on("n1")}
    good = [volume("v1", **fitting), volume("v2", **(fitting | {"gib": 9}))]
    bad = [
        volume("small", **(fitting | {"gib": 1})),
        volume("slow", **(fitting | {"labels": {"tier": "slow"}})),
        volume("released", **fitting, status={"phase": "Released"}),
        volume("taken", **fitting, claimRef={"namespace": "default", "name": "another"}),
        volume("other", **fitting, storageClassName="other"),
        volume("elsewhere", **(fitting | {"on": on("n2")})),
        volume("nowhere", **(fitting | {"on": []})),
    ]
    assert offered("n1", LATER, wanted, *good, *bad) == [2]
    assert offered("n2", LATER, wanted, *good, *bad) == [1]
    assert offered("n3", LATER, wanted, *good, *bad) == []
    assert taken(claiming("p", "c"), LATER, wanted, *good, *bad) == [1]


def test_equal_claims_share_a_resource() -> None:
    disks = [volume(f"v{n}", gib=5, on=on("n1")) for n in range(3)]
    alike, different = [claim("c"), claim("d")], claim("e", gib=2)
    found = storage(LATER, *alike, different, *disks)
    # A volume that could go to either counts for both.
    assert list(found.volumes_on({HOST: "n1"}).values()) == [3, 3]
    assert taken(claiming("p", "c", "d", "e"), LATER, *alike, different, *disks) == [2, 1]


def test_kinds_with_volumes_of_several_nodes_are_not_counted() -> None:
    pod, wanted, local = claiming("p", "c"), claim("c"), volume("v", on=on("n1"))
    assert taken(pod, LATER, wanted, local) == [1]
    for shared in (
        volume("w"),
        volume("w", on=ZONE),
        volume("w", on=[*on("n1"), *on("n2")]),
        volume("w", on=[{HOST: ["n1", "n2"]}]),
    ):
        assert taken(pod, LATER, wanted, local, shared) == []
    # A volume that no node reaches changes nothing.
    assert taken(pod, LATER, wanted, local, volume("w", on=[])) == [1]


def test_claims_with_a_provisioner_are_not_counted() -> None:
    dynamic = storage_class(provisioner="disk.example.com")
    local = volume("v", on=on("n1"))
    assert taken(claiming("p", "c"), dynamic, claim("c"), local) == []
    assert offered("n1", dynamic, claim("c"), local) == []


def test_claims_with_a_volume_are_not_counted() -> None:
    own = volume("mine", on=on("n1"), claimRef={"namespace": "default", "name": "c"})
    assert taken(claiming("p", "c"), LATER, claim("c"), own, volume("v", on=on("n1"))) == []
    bound = claim("c", volume="v")
    assert taken(claiming("p", "c"), LATER, bound, volume("v", on=on("n1"))) == []


def test_a_shared_claim_is_not_counted() -> None:
    others = [LATER, claim("c"), volume("v", on=on("n1"))]
    first, second = claiming("p", "c"), claiming("q", "c")
    assert taken(first, *others) == [1]
    assert taken(first, *others, second) == []
    found = storage(*others, first)
    assert found.set(typed(second)) == {"uid-p", "uid-q"}
    assert found.remove(typed(second)) == {"uid-p"}


def test_the_number_of_kinds_is_bounded() -> None:
    claims = [read_claim(typed(claim(f"c{n}", gib=n))) for n in (1, 2, 3)]
    found = LocalVolumes(max_kinds=2)
    found.add_volume(read_volume(typed(volume("v", gib=9, on=on("n1")))))
    for each in claims:
        found.add_claim(each)
    assert list(found.counts_on("n1").values()) == [1, 1]
    assert found.resource("default/c3") is None
    # When a kind is gone, there is room for another.
    found.remove_claim("default/c1")
    found.add_claim(claims[2])
    assert found.counts_on("n1")[found.resource("default/c3") or ""] == 1


def test_the_capacity_of_a_machine_includes_volumes_and_limits_of_zero() -> None:
    limits: Resources = (("attach/csi/x", 0),)
    node = typed(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n1"},
            "status": {"allocatable": {"pods": "5"}},
        }
    )
    drivers = typed(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": "n1"},
            "spec": {"drivers": [{"name": "x", "nodeID": "n1", "allocatable": {"count": 0}}]},
        }
    )
    found = machine(node, drivers, {"volume/static/k": 2})
    assert found.capacity == (*limits, ("pods", 5), ("volume/static/k", 2))


@pytest.mark.parametrize("seed", range(30))
def test_incremental_counts_equal_counts_from_scratch(seed: int) -> None:
    rng = Random(f"stock {seed}")
    found = storage()
    there: dict[str, Any] = {}
    assumed: dict[str, Any] = {}
    before: dict[str, dict[str, int]] = {"n1": {}, "n2": {}}
    changed: set[str] = set()
    for _ in range(60):
        name = rng.choice(("v", "w", "x", "c", "d", "e", "class"))
        if name in there and rng.random() < 0.3:
            found.remove(typed(there.pop(name)))
            assumed = {c: v for c, v in assumed.items() if name not in (c, v)}
        elif name == "class":
            there[name] = storage_class(provisioner=rng.choice(("", "", "disk.example.com")))
            found.set(typed(there[name]))
        elif name in "vwx":
            place = rng.choice((on("n1"), on("n2"), on("n1"), ZONE, []))
            held = {"claimRef": {"namespace": "default", "name": "c"}} if rng.random() < 0.2 else {}
            there[name] = volume(name, gib=rng.randint(1, 3), on=place, **held)
            found.set(typed(there[name]))
            if held:
                assumed = {c: v for c, v in assumed.items() if v != name}
        else:
            bound = {"volume": "v"} if rng.random() < 0.2 else {}
            there[name] = claim(name, gib=rng.randint(1, 2), **bound)
            found.set(typed(there[name]))
            if bound:
                assumed.pop(name, None)
        changed |= found.cache.local_volumes.take_changed_hosts()
        fresh = storage(*there.values())
        for each, assigned in assumed.items():
            fresh.cache.assume(f"default/{each}", assigned, "n1")
        for host in ("n1", "n2"):
            now = found.volumes_on({HOST: host})
            assert now == fresh.volumes_on({HOST: host})
            assert now == before[host] or host in changed
            before[host] = now
        changed = set()
        for each in "cde":
            key = f"default/{each}"
            assert found.cache.local_volumes.resource(key) == fresh.cache.local_volumes.resource(
                key
            )
        free = [n for n in "vwx" if n in there and "claimRef" not in there[n]["spec"]]
        free = [n for n in free if n not in assumed.values()]
        open_claims = [n for n in "cde" if n in there and not there[n]["spec"].get("volumeName")]
        if free and open_claims and rng.random() < 0.3:
            chosen, assigned = rng.choice(open_claims), rng.choice(free)
            found.cache.assume(f"default/{chosen}", assigned, "n1")
            assumed[chosen] = assigned
        elif assumed and rng.random() < 0.3:
            chosen = rng.choice(list(assumed))
            found.cache.forget(f"default/{chosen}")
            del assumed[chosen]
