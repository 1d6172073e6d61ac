"""What the claims of a pod mean for its placement: rules and messages of kube-scheduler."""

from typing import Any

import pytest
from storage_objects import (
    allowed,
    claim,
    claiming,
    csi_node,
    decoded,
    driver,
    needs,
    space,
    storage_class,
    volume,
)

from afflux.kube.volumes.volume_needs import Blocked, VolumeNeeds
from afflux.model import reason
from afflux.model.implied_resources import attachment_resource
from afflux.model.reachability import driver_label

A, B = {"zone": "a"}, {"zone": "b"}
DISK = attachment_resource("disk.example.com")
LATER = storage_class()
DYNAMIC = storage_class(provisioner="disk.example.com")


def blocked(manifest: Any, *others: Any) -> str:
    found = needs(manifest, *others)
    assert isinstance(found, Blocked)
    assert decoded(manifest, *others).blocked == found.reason
    return found.reason


def against(manifest: Any, *others: Any, **nodes: dict[str, str]) -> dict[str, set[str]]:
    """The reasons against each node, by name."""
    found = needs(manifest, *others)
    assert isinstance(found, VolumeNeeds)
    assert decoded(manifest, *others).shape.reachability == found.reachability
    return {
        name: {p.reason for p in found.reachability if not p.matches(name, labels)}
        for name, labels in nodes.items()
    }


# --- What holds a pod back


@pytest.mark.parametrize(
    ("manifest", "others", "words"),
    [
        (claiming("p", "c"), [], 'persistentvolumeclaim "c" not found'),
        (
            claiming("p", ephemeral=("tmp",)),
            [],
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-tmp"',
        ),
        (
            claiming("p", ephemeral=("tmp",)),
            [claim("p-tmp"), LATER],
            "PVC default/p-tmp was not created for pod default/p (pod is not owner)",
        ),
        (
            claiming("p", "c"),
            [claim("c", volume="v", status={"phase": "Lost"})],
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
        ),
        (
            claiming("p", "c"),
            [claim("c", metadata={"deletionTimestamp": "2026-01-31T08:00:00Z"})],
            'persistentvolumeclaim "c" is being deleted',
        ),
        (
            claiming("p", "c"),
            [claim("c"), storage_class(volumeBindingMode="Immediate")],
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (
            claiming("p", "c"),
            [claim("c"), storage_class("other")],
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (
            claiming("p", "c"),
            [claim("c", volumeName="promised"), LATER],
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (claiming("p", "c"), [claim("c", volume="gone")], 'persistentvolume "gone" not found'),
        (
            claiming("p", "c"),
            [claim("c", volume="old"), volume("old", csi=None, gcePersistentDisk={"pdName": "x"})],
            "spec.gcePersistentDisk of PersistentVolume old is not supported yet",
        ),
    ],
)
def test_problems_of_claims_that_no_node_can_solve(
    manifest: Any, others: list[Any], words: str
) -> None:
    assert blocked(manifest, *others) == words


def test_an_ephemeral_claim_without_its_volume_has_another_message() -> None:
    owner = {"ownerReferences": [{"kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}]}
    mine = claim("p-tmp", volume="gone", metadata=owner)
    assert blocked(claiming("p", ephemeral=("tmp",)), mine) == (
        "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
    )


def test_the_claim_of_an_ephemeral_volume_must_be_owned_by_the_pod() -> None:
    owner = {"ownerReferences": [{"kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}]}
    mine = claim("p-tmp", volume="v", metadata=owner)
    there = volume("v", on=[{"zone": ["a"]}])
    pod = claiming("p", ephemeral=("tmp",))
    assert against(pod, mine, there, a=A, b=B) == {"a": set(), "b": {reason.VOLUME_AFFINITY}}


def test_a_read_write_once_pod_claim_has_one_user_at_a_time() -> None:
    words = (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
        "already in-use by another pod"
    )
    alone = claim("c", volume="v", accessModes=["ReadWriteOncePod"])
    shared = claim("c", volume="v")
    first = claiming("p", "c", metadata={"creationTimestamp": "2026-01-31T08:00:00Z"})
    later = claiming("q", "c", metadata={"creationTimestamp": "2026-01-31T08:00:01Z"})
    running = claiming("r", "c", nodeName="n1")
    ended = claiming("r", "c", nodeName="n1", status={"phase": "Succeeded"})
    gated = claiming("g", "c", schedulingGates=[{"name": "x"}])
    assert against(first, alone, volume("v"), running, a=A) == {"a": {words}}
    assert against(later, alone, volume("v"), first, a=A) == {"a": {words}}
    for others in ([alone, later], [alone, ended], [alone, gated], [shared, running]):
        assert against(first, *others, volume("v"), a=A) == {"a": set()}


# --- Bound volumes


def test_a_bound_volume_restricts_the_pod_to_nodes_that_reach_it() -> None:
    there = volume("v", on=[{"zone": ["a"]}, {"zone": ["c"], "disk": ["ssd"]}])
    found = against(
        claiming("p", "c"),
        claim("c", volume="v"),
        there,
        a=A,
        b=B,
        c={"zone": "c"},
        d={"zone": "c", "disk": "ssd"},
    )
    away = {reason.VOLUME_AFFINITY}
    assert found == {"a": set(), "b": away, "c": away, "d": set()}


def test_no_affinity_is_every_node_and_no_terms_are_no_node() -> None:
    pod, bound = claiming("p", "c"), claim("c", volume="v")
    assert against(pod, bound, volume("v"), a=A) == {"a": set()}
    assert against(pod, bound, volume("v", on=[]), a=A) == {"a": {reason.VOLUME_AFFINITY}}


@pytest.mark.parametrize(
    ("field", "reachable"),
    [
        ({"operator": "In", "values": ["n1"]}, False),
        ({"operator": "NotIn", "values": ["n1"]}, True),
        ({"operator": "Like", "values": ["n1"]}, False),
    ],
)
def test_volume_affinity_to_a_node_name_matches_no_node(field: Any, reachable: bool) -> None:
    terms = [{"matchFields": [{"key": "metadata.name", **field}]}]
    stated = volume("v", nodeAffinity={"required": {"nodeSelectorTerms": terms}})
    found = against(claiming("p", "c"), claim("c", volume="v"), stated, n1={}, n2={})
    expected = set() if reachable else {reason.VOLUME_AFFINITY}
    assert found == {"n1": expected, "n2": expected}


ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("labels", "node", "available"),
    [
        ({ZONE: "a"}, {ZONE: "a"}, True),
        ({ZONE: "a"}, {ZONE: "b"}, False),
        ({ZONE: "a__b"}, {ZONE: "b"}, True),
        ({ZONE: "a__"}, {ZONE: "b"}, True),
        ({ZONE: "a"}, {}, True),
        ({ZONE: "a"}, {"zone": "b"}, True),
        ({ZONE: "a"}, {REGION: "r"}, False),
        ({ZONE: "a"}, {OLD_ZONE: "a"}, False),
        ({OLD_ZONE: "a"}, {ZONE: "a"}, True),
        ({OLD_ZONE: "a"}, {ZONE: "b"}, False),
        ({OLD_ZONE: "a"}, {ZONE: "a", OLD_ZONE: "b"}, False),
        ({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "r"}, True),
        ({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "s"}, False),
    ],
)
def test_zone_labels_of_a_bound_volume(labels: Any, node: Any, available: bool) -> None:
    bound, there = claim("c", volume="v"), volume("v", labels=labels)
    expected = set() if available else {reason.VOLUME_ZONE}
    assert against(claiming("p", "c"), bound, there, n=node) == {"n": expected}


# --- Claims that wait for their first consumer


@pytest.mark.parametrize(
    "change",
    [
        {"gib": 1},
        {"accessModes": ["ReadOnlyMany"]},
        {"volumeMode": "Block"},
        {"storageClassName": "other"},
        {"volumeAttributesClassName": "gold"},
        {"labels": {"tier": "slow"}},
        {"status": {"phase": "Released"}},
        {"metadata": {"deletionTimestamp": "2026-01-31T08:00:00Z"}},
        {"claimRef": {"namespace": "default", "name": "another"}},
        {"claimRef": {"namespace": "default", "name": "c", "uid": "of-an-older-one"}},
    ],
)
def test_a_volume_must_fit_the_claim(change: dict[str, Any]) -> None:
    wanted = claim("c", gib=2, selector={"matchLabels": {"tier": "fast"}})
    fitting: dict[str, Any] = {"gib": 2, "labels": {"tier": "fast"}, "on": [{"zone": ["a"]}]}
    pod = claiming("p", "c")
    away = {reason.VOLUME_MISSING}
    good = volume("v", **fitting)
    assert against(pod, wanted, LATER, good, a=A, b=B) == {"a": set(), "b": away}
    assert against(pod, wanted, LATER, volume("v", **(fitting | change)), a=A, b=B) == {
        "a": away,
        "b": away,
    }


def test_volumes_on_many_hosts_make_one_term() -> None:
    disks = [volume(f"v{n}", on=[{"host": [f"n{n}"]}]) for n in range(50)]
    found = needs(claiming("p", "c"), claim("c"), LATER, *disks)
    assert isinstance(found, VolumeNeeds)
    ((reachability,)) = found.reachability
    assert len(reachability.terms) == 1
    assert reachability.matches("n7", {"host": "n7"})
    assert not reachability.matches("n77", {"host": "n77"})


def test_a_reserved_volume_is_the_only_candidate() -> None:
    promised = volume(
        "mine", on=[{"zone": ["b"]}], claimRef={"namespace": "default", "name": "c"}, status={}
    )
    other = volume("other", on=[{"zone": ["a"]}])
    found = against(claiming("p", "c"), claim("c"), LATER, promised, other, a=A, b=B)
    assert found == {"a": {reason.VOLUME_MISSING}, "b": set()}


def test_provisioning_follows_allowed_topologies() -> None:
    pod, wanted = claiming("p", "c"), claim("c")
    assert against(pod, wanted, DYNAMIC, a=A) == {"a": set()}
    limited = storage_class(provisioner="x", allowedTopologies=allowed(zone="a c"))
    assert against(pod, wanted, limited, a=A, b=B) == {"a": set(), "b": {reason.VOLUME_MISSING}}
    there = volume("v", on=[{"zone": ["b"]}])
    assert against(pod, wanted, limited, there, a=A, b=B) == {"a": set(), "b": set()}
    assert against(pod, wanted, LATER, a=A) == {"a": {reason.VOLUME_MISSING}}


def test_capacity_counts_where_a_driver_reports_it() -> None:
    pod, wanted = claiming("p", "c"), claim("c", gib=10)
    reports = [
        space("a", nodeTopology={"matchLabels": {"zone": "a"}}, capacity="20Gi"),
        space("b", nodeTopology={"matchLabels": {"zone": "b"}}, capacity="5Gi"),
        space("c", nodeTopology={"matchLabels": {"zone": "c"}}, capacity="20Gi",
              maximumVolumeSize="9Gi"),
        space("d", nodeTopology={"matchLabels": {"zone": "d"}}),
        space("e", of="other", capacity="20Gi"),
    ]  # fmt: skip
    nodes = {name: {"zone": name} for name in "abcd"}
    reporting = driver(storageCapacity=True)
    tight = {reason.VOLUME_SPACE}
    assert against(pod, wanted, DYNAMIC, reporting, *reports, **nodes) == {
        "a": set(),
        "b": tight,
        "c": tight,
        "d": tight,
    }
    for silent in ([], [driver()]):
        found = against(pod, wanted, DYNAMIC, *silent, *reports, **nodes)
        assert found == {name: set() for name in "abcd"}
    there = volume("v", gib=10, on=[{"zone": ["b"]}])
    found = against(pod, wanted, DYNAMIC, reporting, there, *reports, **nodes)
    assert found["b"] == set()


def test_a_selected_node_pins_the_claim() -> None:
    pod, pinned = claiming("p", "c"), claim("c", node="n1")
    there = volume("v", on=[{"zone": ["b"]}])
    found = against(pod, pinned, DYNAMIC, there, n1=A, n2=B)
    assert found == {"n1": set(), "n2": {reason.VOLUME_MISSING}}
    limited = storage_class(provisioner="x", allowedTopologies=allowed(zone="b"))
    assert against(pod, pinned, limited, n1=A) == {"n1": {reason.VOLUME_MISSING}}


def test_claims_of_one_pod_need_a_volume_each() -> None:
    pod, two = claiming("p", "c", "d"), [claim("c", gib=1), claim("d", gib=2)]
    disks = [
        volume("a1", gib=2, on=[{"zone": ["a"]}]),
        volume("a2", gib=2, on=[{"zone": ["a"]}]),
        volume("b1", gib=2, on=[{"zone": ["b"]}]),
        volume("small", gib=1, on=[{"zone": ["c"]}]),
        volume("large", gib=3, on=[{"zone": ["c"]}]),
        volume("twin1", gib=1, on=[{"zone": ["d"]}]),
        volume("twin2", gib=1, on=[{"zone": ["d"]}]),
    ]
    nodes = {name: {"zone": name} for name in "abcd"}
    away = {reason.VOLUME_MISSING}
    found = against(pod, *two, LATER, *disks, **nodes)
    assert found == {"a": set(), "b": away, "c": set(), "d": away}
    shared = volume("everywhere", gib=9)
    found = against(pod, *two, LATER, *disks, shared, **nodes)
    assert found == {"a": set(), "b": set(), "c": set(), "d": set()}
    # Claims without a volume are provisioned where that is possible.
    limited = storage_class(provisioner="x", allowedTopologies=allowed(zone="b"))
    found = against(pod, *two, limited, *disks, **nodes)
    assert found == {"a": set(), "b": set(), "c": set(), "d": away}


# --- Attaching


def test_each_volume_of_a_driver_is_counted_once() -> None:
    others = [
        claim("c", volume="v"),
        claim("d", volume="w"),
        claim("new"),
        claim("nfs", volume="share"),
        volume("v"),
        volume("w", csi={"driver": "disk.example.com", "volumeHandle": "handle-v"}),
        volume("share", csi=None, nfs={"server": "x"}),
        storage_class(provisioner="other.example.com"),
    ]
    found = needs(claiming("p", "c", "d", "new", "nfs", "c"), *others)
    assert isinstance(found, VolumeNeeds)
    assert dict(found.attached) == {DISK: 1, attachment_resource("other.example.com"): 1}


def test_an_in_tree_provisioner_counts_as_its_csi_driver() -> None:
    old = storage_class(provisioner="kubernetes.io/aws-ebs")
    found = needs(claiming("p", "c"), claim("c"), old)
    assert isinstance(found, VolumeNeeds)
    assert dict(found.attached) == {attachment_resource("ebs.csi.aws.com"): 1}


def test_a_required_driver_must_be_installed() -> None:
    pod, others = claiming("p", "c"), [claim("c", volume="v"), volume("v")]
    assert against(pod, *others, driver(), n={}) == {"n": set()}
    insisting = driver(preventPodSchedulingIfMissing=True)
    there = {driver_label("disk.example.com"): ""}
    assert against(pod, *others, insisting, n={}, m=there) == {
        "n": {"disk.example.com CSI driver is not installed on the node"},
        "m": set(),
    }


def test_equal_needs_make_equal_shapes() -> None:
    others = [LATER, claim("c"), claim("d"), csi_node("n1", disk_example_com=3)]
    others += [volume(f"v{n}", on=[{"zone": [zone]}]) for n, zone in enumerate("abca")]
    first, second = claiming("p", "c"), claiming("q", "d")
    assert decoded(first, *others).shape == decoded(second, *reversed(others)).shape
