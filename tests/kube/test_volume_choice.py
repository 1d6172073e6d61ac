"""The volumes for the claims of a pod on its node, the patches, and their progress."""

from random import Random
from typing import Any

import pytest
from storage_objects import (
    BOUND,
    SELECTED,
    allowed,
    claim,
    claiming,
    driver,
    needs,
    space,
    storage,
    storage_class,
    typed,
    volume,
)

from afflux.kube.volumes.storage import Storage
from afflux.kube.volumes.volume_choice import Choice, claim_patch, volume_patch
from afflux.kube.volumes.volume_needs import Blocked
from afflux.model import reason

LATER = storage_class()
DYNAMIC = storage_class(provisioner="disk.example.com")
HOST = "kubernetes.io/hostname"
ON_A = {"on": [{"zone": ["a"]}]}


def choose(found: Storage, manifest: Any, node: str = "n1", **labels: str) -> Any:
    return found.choose(typed(manifest), node, labels)


def test_the_smallest_volume_that_fits_is_chosen_and_then_unavailable() -> None:
    pods = [claiming(name, f"c-{name}") for name in "pqr"]
    sizes = {"large": 9, "medium": 5, "small": 2}
    found = storage(
        LATER,
        *(claim(f"c-{name}", gib=2) for name in "pqr"),
        *(volume(name, gib=gib, **ON_A) for name, gib in sizes.items()),
        *pods,
    )
    taken = []
    for pod in pods:
        choices = choose(found, pod, zone="a")
        assert choices == (Choice(f"default/c-{pod['metadata']['name']}", choices[0].volume, "n1"),)
        taken.append(choices[0].volume)
        found.assume(choices)
    assert taken == ["small", "medium", "large"]


def test_without_a_reachable_volume_provisioning_or_the_reason() -> None:
    pod, wanted = claiming("p", "c"), claim("c", gib=2)
    for made, expected in (
        (LATER, Blocked(reason.VOLUME_MISSING)),
        (DYNAMIC, (Choice("default/c", None, "n1"),)),
        (
            storage_class(provisioner="x", allowedTopologies=allowed(zone="a")),
            Blocked(reason.VOLUME_MISSING),
        ),
    ):
        found = storage(made, wanted, volume("v", gib=2, **ON_A), pod)
        assert choose(found, pod, zone="b") == expected
    tight = storage(DYNAMIC, wanted, driver(storageCapacity=True), space("s", capacity="1Gi"), pod)
    assert choose(tight, pod, zone="b") == Blocked(reason.VOLUME_SPACE)


def test_an_assumed_choice_holds_for_other_pods_with_the_claim() -> None:
    pods = claiming("p", "c"), claiming("q", "c")
    fixed = storage(LATER, claim("c"), volume("v", **ON_A), volume("w", on=[{"zone": ["b"]}]))
    fixed.assume(choose(fixed, pods[0], zone="a"))
    assert choose(fixed, pods[1], "n2", zone="b") == Blocked(reason.VOLUME_MISSING)
    assert choose(fixed, pods[1], "n3", zone="a") == (Choice("default/c", "v", "n3"),)
    made = storage(DYNAMIC, claim("c"))
    made.assume(choose(made, pods[0], "n1"))
    assert choose(made, pods[1], "n2") == Blocked(reason.VOLUME_MISSING)
    assert choose(made, pods[1], "n1") == (Choice("default/c", None, "n1"),)


def test_a_bound_claim_needs_no_choice_but_a_node_that_reaches_it() -> None:
    pod = claiming("p", "c")
    found = storage(claim("c", volume="v"), volume("v", **ON_A))
    assert choose(found, pod, zone="a") == ()
    assert choose(found, pod, zone="b") == Blocked(reason.VOLUME_AFFINITY)
    assert choose(storage(), pod) == Blocked('persistentvolumeclaim "c" not found')


# --- Patches


def test_the_patches_of_a_volume_and_of_a_claim() -> None:
    pod = claiming("p", "c", "d")
    versioned = {"metadata": {"resourceVersion": "7", "namespace": "default", "uid": "u"}}
    found = storage(
        DYNAMIC,
        claim("c", gib=1, metadata=versioned["metadata"] | {"name": "c", "annotations": {}}),
        claim("d", gib=5, metadata=versioned["metadata"] | {"name": "d", "annotations": {}}),
        volume("v", gib=1, metadata={"name": "v", "resourceVersion": "9"}),
    )
    volume_choice, claim_choice = choose(found, pod)
    assert volume_patch(found.cache.volumes["v"], found.cache.claims[volume_choice.claim]) == {
        "metadata": {
            "resourceVersion": "9",
            "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"},
        },
        "spec": {
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": "default",
                "name": "c",
                "uid": "u",
                "resourceVersion": "7",
            }
        },
    }
    assert (volume_choice.volume, claim_choice.claim) == ("v", "default/d")
    assert claim_patch(found.cache.claims["default/d"], claim_choice.node) == {
        "metadata": {"resourceVersion": "7", "annotations": {SELECTED: "n1"}}
    }


def test_no_patch_for_a_volume_that_is_reserved_already() -> None:
    held = {"namespace": "default", "name": "c", "uid": "uid-c"}
    found = storage(DYNAMIC, claim("c"), volume("v", claimRef=held))
    (choice,) = choose(found, claiming("p", "c"))
    assert volume_patch(found.cache.volumes[choice.volume], found.cache.claims["default/c"]) is None


def test_a_volume_that_was_reserved_by_hand_gets_no_controller_annotation() -> None:
    reserved = volume("v", claimRef={"namespace": "default", "name": "c"})
    found = storage(LATER, claim("c"), reserved)
    (choice,) = choose(found, claiming("p", "c"))
    patch: Any = volume_patch(found.cache.volumes[choice.volume], found.cache.claims["default/c"])
    assert "annotations" not in patch["metadata"]
    assert patch["spec"]["claimRef"]["uid"] == "uid-c"


# --- Progress


def test_an_existing_volume_is_done_when_its_claim_is_bound() -> None:
    found = storage(LATER, claim("c"), volume("v", **ON_A))
    choices = choose(found, claiming("p", "c"), zone="a")
    found.assume(choices)
    assert found.progress(choices, {"zone": "a"}) is False
    held = {"claimRef": {"namespace": "default", "name": "c", "uid": "uid-c"}}
    found.set(typed(volume("v", **ON_A, **held)))
    assert found.progress(choices, {"zone": "a"}) is False
    found.set(typed(claim("c", volume="v")))
    assert found.progress(choices, {"zone": "a"}) is True
    assert found.progress(choices, {"zone": "b"}) == Blocked(
        "pv 'v' node affinity doesn't match node 'n1'"
    )


def test_a_reset_claim_ref_ends_the_wait() -> None:
    found = storage(LATER, claim("c"), volume("v"))
    choices = choose(found, claiming("p", "c"))
    found.assume(choices)
    held = {"claimRef": {"namespace": "default", "name": "c", "uid": "uid-c"}}
    found.set(typed(volume("v", **held)))
    found.set(typed(volume("v")))
    assert found.progress(choices, {}) == Blocked("ClaimRef got reset for pv 'v'")


def test_provisioning_is_done_when_bound_and_failed_when_the_node_is_unset() -> None:
    found = storage(DYNAMIC, claim("c"))
    choices = choose(found, claiming("p", "c"))
    found.assume(choices)
    assert found.progress(choices, {}) is False
    found.set(typed(claim("c", node="n1")))
    assert found.progress(choices, {}) is False
    found.set(typed(claim("c", node="n1", volumeName="new")))
    assert found.progress(choices, {}) is False
    found.set(typed(volume("new")))
    found.set(typed(claim("c", node="n1", volume="new")))
    assert found.progress(choices, {}) is True
    found.set(typed(claim("c")))
    assert found.progress(choices, {}) == Blocked("provisioning failed for PVC 'c'")


def test_a_forgotten_assumption_frees_the_volume() -> None:
    pods = claiming("p", "c"), claiming("q", "d")
    found = storage(LATER, claim("c"), claim("d"), volume("v"), *pods)
    choices = choose(found, pods[0])
    assert found.assume(choices) == {"uid-p", "uid-q"}
    assert isinstance(choose(found, pods[1]), Blocked)
    assert found.forget(choices) == {"uid-p", "uid-q"}
    assert choose(found, pods[1]) == (Choice("default/d", "v", "n1"),)


@pytest.mark.parametrize("kind", ["claim", "volume"])
def test_older_objects_do_not_replace_newer_ones(kind: str) -> None:
    make = {"claim": claim, "volume": volume}[kind]
    newer = {"claim": {"node": "n1"}, "volume": {"status": {"phase": "Released"}}}[kind]

    def at(version: str, **fields: Any) -> Any:
        metadata = {"resourceVersion": version}
        stated = make("x", **fields)
        stated["metadata"] |= metadata
        return typed(stated)

    found = Storage()
    found.set(at("12", **newer))
    found.set(at("9"))
    known = found.cache.claims["default/x"] if kind == "claim" else found.cache.volumes["x"]
    assert known.version == "12"
    found.set(at("100"))
    known = found.cache.claims["default/x"] if kind == "claim" else found.cache.volumes["x"]
    assert known.version == "100"


# --- Affected pods


def test_an_update_returns_the_affected_pods() -> None:
    pods = [claiming("p", "c"), claiming("q", "d"), claiming("r", "c", nodeName="n1")]
    found = storage(*pods, claiming("plain"))
    assert found.set(typed(claim("c"))) == {"uid-p", "uid-r"}
    assert found.set(typed(claim("c"))) == set()
    assert found.set(typed(claim("other"))) == set()
    # Pods whose claim is missing or of another class are not affected.
    assert found.set(typed(LATER)) == {"uid-p"}
    assert found.set(typed(storage_class("another"))) == set()
    assert found.set(typed(volume("v"))) == {"uid-p"}
    assert found.set(typed(volume("w", storageClassName="another"))) == set()
    held = {"claimRef": {"namespace": "default", "name": "c", "uid": "uid-c"}}
    assert found.set(typed(volume("v", **held))) == {"uid-p", "uid-r"}
    assert found.set(typed(driver())) == {"uid-p"}
    assert found.remove(typed(claim("c"))) == {"uid-p", "uid-r"}
    assert found.remove(typed(pods[1])) == set()
    assert found.set(typed(driver())) == set()
    found.set(typed(claim("c")))
    assert found.set(typed(claiming("p", "c", status={"phase": "Failed"}))) == set()
    assert found.set(typed(driver())) == set()


@pytest.mark.parametrize("seed", range(40))
def test_pods_that_an_update_does_not_return_have_the_same_needs(seed: int) -> None:
    rng = Random(f"named {seed}")
    found = storage()
    there: dict[str, Any] = {}
    assumed: list[tuple[Choice, ...]] = []

    def some_object() -> tuple[str, Any]:
        kind = rng.choice(("pod", "claim", "claim", "volume", "volume", "class", "driver", "space"))
        name, of = f"{kind}{rng.randrange(3)}", rng.choice(("later", "other"))
        claims = [f"claim{rng.randrange(3)}" for _ in range(rng.randint(1, 2))]
        place = rng.choice(({}, {"on": [{"zone": [rng.choice("ab")]}]}, {"on": [{HOST: ["n1"]}]}))
        match kind:
            case "pod":
                running = {"nodeName": "n1"} if rng.random() < 0.3 else {}
                return name, claiming(name, *claims, **running)
            case "claim":
                bound = {"volume": "volume0"} if rng.random() < 0.3 else {}
                gib = rng.randint(1, 2)
                return name, claim(name, gib=gib, storageClassName=of, **bound)
            case "volume":
                held = {"claimRef": {"namespace": "default", "name": claims[0]}}
                fields = {**place, **(held if rng.random() < 0.4 else {})}
                return name, volume(name, gib=rng.randint(1, 2), storageClassName=of, **fields)
            case "class":
                by = rng.choice(("", "disk.example.com"))
                mode = rng.choice(("WaitForFirstConsumer",) * 3 + ("Immediate",))
                return of, storage_class(of, by, volumeBindingMode=mode)
            case "driver":
                return "driver", driver(storageCapacity=rng.random() < 0.5)
            case _:
                return name, space(name, of, capacity=f"{rng.randint(1, 2)}Gi")

    for _ in range(150):
        pods = {uid: typed(each) for each in there.values() if (uid := pod_uid(each)) is not None}
        before = {uid: found.needs(pod) for uid, pod in pods.items()}
        name, manifest = some_object()
        action = rng.random()
        changed = None
        if action < 0.1 and pods:
            uid = rng.choice(list(pods))
            choices = found.choose(pods[uid], "n1", {"zone": "a", HOST: "n1"})
            if isinstance(choices, Blocked):
                continue
            affected = found.assume(choices)
            assumed.append(choices)
        elif action < 0.2 and assumed:
            affected = found.forget(assumed.pop())
        elif name in there and action < 0.4:
            changed = there.pop(name)
            affected = found.remove(typed(changed))
        else:
            changed = there[name] = manifest
            affected = found.set(typed(changed))
        for uid, pod in pods.items():
            if uid not in affected and uid != pod_uid(changed):
                assert found.needs(pod) == before[uid], (name, uid, action)


def pod_uid(manifest: Any) -> str | None:
    is_pod = manifest is not None and manifest["kind"] == "Pod"
    return manifest["metadata"]["uid"] if is_pod else None


def test_removing_the_user_of_a_single_pod_claim_affects_the_next_pod() -> None:
    alone = claim("c", volume="v", accessModes=["ReadWriteOncePod"])
    running, waiting = claiming("p", "c", nodeName="n1"), claiming("q", "c")
    found = storage(alone, volume("v"), running, waiting)
    held_up = found.needs(typed(waiting))
    assert found.remove(typed(running)) == {"uid-q"}
    assert found.needs(typed(waiting)) != held_up
    assert found.needs(typed(waiting)) == storage(alone, volume("v")).needs(typed(waiting))


def test_removed_objects_leave_no_trace() -> None:
    pod = claiming("p", "c")
    objects = [LATER, claim("c"), volume("v"), driver(), space("s"), pod]
    found = storage(*objects)
    for each in objects:
        found.remove(typed(each))
    assert found.needs(typed(pod)) == needs(pod)
    found.set(typed(claim("c", metadata={"annotations": {BOUND: "yes"}}, volumeName="v")))
    assert found.needs(typed(pod)) == Blocked('persistentvolume "v" not found')
