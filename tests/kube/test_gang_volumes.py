"""Volumes for all pods of a gang or for none; whatever works one by one works for the gang."""

from itertools import permutations
from random import Random
from typing import Any

import pytest
from storage_objects import claim, claiming, storage, storage_class, typed, volume

from afflux.kube.volumes.gang_volumes import VolumeShortfall
from afflux.kube.volumes.storage import Storage
from afflux.kube.volumes.volume_choice import Choice
from afflux.kube.volumes.volume_needs import Blocked, VolumeNeeds
from afflux.model import reason

HOST = "kubernetes.io/hostname"
LATER = storage_class()
DYNAMIC = storage_class(provisioner="disk.example.com")
NODES = {f"n{n}": {HOST: f"n{n}", "zone": "ab"[n % 2]} for n in range(4)}


def on(*hosts: str) -> list[Any]:
    return [{HOST: list(hosts)}]


def choose(found: Storage, *members: tuple[Any, str]) -> Any:
    return found.choose_gang([(typed(pod), node, NODES[node]) for pod, node in members])


def avoid_shortfall(found: Storage, shortfall: Any, *members: tuple[Any, str]) -> bool:
    return found.avoid_shortfall(
        [(typed(pod), node, NODES[node]) for pod, node in members], shortfall
    )


def pods_with_claims(count: int, **fields: Any) -> tuple[list[Any], list[Any]]:
    """`count` pods, each with a claim of its own."""
    pods = [claiming(f"p{n}", f"c{n}") for n in range(count)]
    return pods, [claim(f"c{n}", **fields) for n in range(count)]


def test_all_members_get_volumes_or_none_does() -> None:
    pods, claims = pods_with_claims(3)
    two = [volume("v0", on=on("n0")), volume("v1", on=on("n1"))]
    found = storage(LATER, *claims, *pods, *two)
    shortfall = choose(found, *zip(pods, ("n0", "n1", "n2"), strict=True))
    assert shortfall == VolumeShortfall("uid-p2", reason.VOLUME_MISSING, {})
    found.set(typed(volume("v2", on=on("n2"))))
    assert choose(found, *zip(pods, ("n0", "n1", "n2"), strict=True)) == {
        f"uid-p{n}": (Choice(f"default/c{n}", f"v{n}", f"n{n}"),) for n in range(3)
    }


def test_a_member_with_alternatives_leaves_a_volume_to_one_without() -> None:
    # One by one the smaller claim would take the smaller volume, the only one with the label.
    pods = [claiming("any", "a"), claiming("picky", "p")]
    picky = claim("p", gib=2, selector={"matchLabels": {"tier": "fast"}})
    there = [volume("fast", gib=2, labels={"tier": "fast"}), volume("slow", gib=3)]
    found = storage(LATER, claim("a", gib=1), picky, *there, *pods)
    chosen = choose(found, (pods[0], "n0"), (pods[1], "n1"))
    assert [each[0].volume for each in chosen.values()] == ["slow", "fast"]


def test_members_without_a_volume_get_provisioning() -> None:
    pods, claims = pods_with_claims(2)
    found = storage(DYNAMIC, *claims, *pods, volume("v", on=on("n1")))
    assert choose(found, (pods[0], "n0"), (pods[1], "n1")) == {
        "uid-p0": (Choice("default/c0", None, "n0"),),
        "uid-p1": (Choice("default/c1", "v", "n1"),),
    }


def test_bound_and_missing_claims_are_checked() -> None:
    bound, there = claim("b", volume="v"), volume("v", on=on("n1"))
    pods = [claiming("plain"), claiming("p", "b")]
    found = storage(bound, there, *pods)
    assert choose(found, (pods[0], "n0"), (pods[1], "n1")) == {"uid-plain": (), "uid-p": ()}
    shortfall = choose(found, (pods[0], "n0"), (pods[1], "n0"))
    assert shortfall == VolumeShortfall("uid-p", reason.VOLUME_AFFINITY, {})
    missing = choose(storage(), (pods[0], "n0"), (pods[1], "n1"))
    assert missing == VolumeShortfall("uid-p", 'persistentvolumeclaim "b" not found', {})


def test_a_shared_claim_gets_one_volume() -> None:
    pods = [claiming("p", "c"), claiming("q", "c")]
    found = storage(LATER, claim("c"), volume("v", on=on("n0")), volume("w", on=on("n1")), *pods)
    together = choose(found, (pods[0], "n1"), (pods[1], "n1"))
    assert together == {f"uid-{name}": (Choice("default/c", "w", "n1"),) for name in "pq"}
    apart = choose(found, (pods[0], "n0"), (pods[1], "n1"))
    assert isinstance(apart, VolumeShortfall)
    assert apart.splits_claim
    found.set(typed(volume("both", on=on("n0", "n1"))))
    apart = choose(found, (pods[0], "n0"), (pods[1], "n1"))
    assert [each[0].volume for each in apart.values()] == ["both", "both"]


def test_with_too_few_volumes_in_a_zone_some_members_avoid_it() -> None:
    pods, claims = pods_with_claims(3)
    there = [volume(f"a{n}", on=[{"zone": ["a"]}]) for n in range(2)]
    there += [volume(f"b{n}", on=[{"zone": ["b"]}]) for n in range(2)]
    found = storage(LATER, *claims, *pods, *there)
    shortfall = choose(found, *((pod, "n0") for pod in pods))
    assert isinstance(shortfall, VolumeShortfall)
    (moved,) = shortfall.avoid
    assert shortfall.avoid[moved] == {"a0", "a1"}
    assert avoid_shortfall(found, shortfall, *((pod, "n0") for pod in pods))
    for pod in pods:
        needs = found.needs(typed(pod))
        assert isinstance(needs, VolumeNeeds)
        may = {
            n
            for n, labels in NODES.items()
            if all(p.matches(n, labels) for p in needs.reachability)
        }
        assert may == ({"n1", "n3"} if f"uid-{pod['metadata']['name']}" == moved else set(NODES))
    # It ends when it is cleared, or when a member is removed.
    every_pod = frozenset(f"uid-p{n}" for n in range(3))
    assert found.end_avoidance(every_pod) == {moved}
    assert found.end_avoidance(every_pod) == set()
    assert avoid_shortfall(found, shortfall, *((pod, "n0") for pod in pods))
    gone = next(pod for pod in pods if f"uid-{pod['metadata']['name']}" != moved)
    assert moved in found.remove(typed(gone))
    assert found.end_avoidance(every_pod) == set()


def test_avoiding_volumes_comes_to_an_end() -> None:
    # The plan sends all members to zone a, whatever they avoid.
    pods, claims = pods_with_claims(3)
    there = [volume("a", on=[{"zone": ["a"]}]), volume("b", on=[{"zone": ["b"]}]), volume("c")]
    found = storage(LATER, *claims, *pods, *there)
    members = [(pod, "n0") for pod in pods]
    tries = 0
    while avoid_shortfall(found, choose(found, *members), *members):
        tries += 1
        assert tries < 20
    assert not avoid_shortfall(found, choose(found, *members), *members)


def test_too_few_volumes_on_all_nodes_are_a_shortfall_before_any_plan() -> None:
    pods, claims = pods_with_claims(3)
    two = [volume("v0", on=on("n0")), volume("v1", on=[{"zone": ["a"]}])]
    found = storage(LATER, *claims, *pods, *two)
    asked = [typed(pod) for pod in pods]
    assert found.volume_shortfall(asked) == "needs volumes for 3 claims at once, 2 are available"
    assert found.volume_shortfall(asked[:2]) is None
    found.set(typed(volume("v2", gib=9)))
    assert found.volume_shortfall(asked) is None
    # A shared claim needs one volume; a claim with a volume or with provisioning needs none.
    shared = [typed(claiming(f"s{n}", "c0")) for n in range(9)]
    assert found.volume_shortfall(shared) is None
    dynamic = storage(DYNAMIC, *claims, *pods)
    assert dynamic.volume_shortfall(asked) is None
    own = volume("own", claimRef={"namespace": "default", "name": "c2"})
    assert storage(LATER, *claims, *pods, *two, own).volume_shortfall(asked) is None


def random_storage(rng: Random) -> tuple[list[Any], list[Any], list[Any]]:
    pods, claims = [], []
    for number in range(rng.randint(2, 4)):
        names = [f"c{number}{k}" for k in range(rng.choice((0, 1, 1, 2)))]
        claims += [claim(name, gib=rng.randint(1, 2)) for name in names]
        pods.append(claiming(f"p{number}", *names))
    reachability = [on(host) for host in NODES] * 2 + [[{"zone": ["a"]}], on("n0", "n1"), []]
    volumes = [
        volume(f"v{number}", gib=rng.randint(1, 3), on=rng.choice(reachability))
        for number in range(rng.randint(2, 6))
    ]
    return pods, claims, volumes


@pytest.mark.parametrize("batch", range(10))
def test_what_works_one_by_one_works_for_the_gang(batch: int) -> None:
    worked = {True: 0, False: 0}
    for number in range(150):
        rng = Random(f"together {batch} {number}")
        pods, claims, volumes = random_storage(rng)
        provisioner = rng.choice(("", "", "disk.example.com"))
        manifests = [storage_class(provisioner=provisioner), *claims, *volumes, *pods]
        members = [(pod, rng.choice(list(NODES))) for pod in pods]
        one_by_one = storage(*manifests)
        fine = True
        for pod, node in members:
            choices = one_by_one.choose(typed(pod), node, NODES[node])
            fine &= not isinstance(choices, Blocked)
            if not isinstance(choices, Blocked):
                one_by_one.assume(choices)
        found = storage(*manifests)
        chosen = choose(found, *members)
        worked[fine] += 1
        if fine:
            assert not isinstance(chosen, VolumeShortfall)
            # Neither the shortfall check nor the needs may rule this plan out.
            assert found.volume_shortfall([typed(pod) for pod in pods]) is None
            asked: dict[tuple[str, str], int] = {}
            for pod, node in members:
                needs = found.needs(typed(pod))
                assert isinstance(needs, VolumeNeeds)
                assert all(
                    reachability.matches(node, NODES[node]) for reachability in needs.reachability
                )
                for resource, amount in needs.taken:
                    asked[node, resource] = asked.get((node, resource), 0) + amount
            for (node, resource), amount in asked.items():
                assert amount <= found.volumes_on(NODES[node])[resource]
        if not isinstance(chosen, VolumeShortfall):
            check_choices(found, members, chosen)
        elif not provisioner:
            assert not some_assignment_exists(found, members)
    assert min(worked.values()) > 20


def check_choices(found: Storage, members: list[tuple[Any, str]], chosen: Any) -> None:
    assigned = [choice.volume for each in chosen.values() for choice in each if choice.volume]
    assert len(assigned) == len(set(assigned))
    for pod, node in members:
        for choice in chosen[pod["metadata"]["uid"]]:
            assert choice.node == node
            if choice.volume is not None:
                node_set = found.cache.volumes[choice.volume].node_set
                assert node_set is None or any(t.matches(node, NODES[node]) for t in node_set)


def some_assignment_exists(found: Storage, members: list[tuple[Any, str]]) -> bool:
    """Whether every claim can get a volume, by brute force."""
    can_bind: list[set[str]] = []
    for pod, node in members:
        for each in pod["spec"]["volumes"]:
            key = f"default/{each['persistentVolumeClaim']['claimName']}"
            can_bind.append(
                {
                    v.name
                    for v in found.cache.candidates(found.cache.claims[key])
                    if v.node_set is None or any(t.matches(node, NODES[node]) for t in v.node_set)
                }
            )
    names = [*found.cache.volumes]
    return any(
        all(name in could for name, could in zip(order, can_bind, strict=True))
        for order in permutations(names, len(can_bind))
    )


@pytest.mark.parametrize("seed", range(40))
def test_avoiding_volumes_ends_with_volumes_for_all(seed: int) -> None:
    """If there are enough volumes, the gang gets them after a few plans, however bad the plans."""
    rng = Random(f"elsewhere {seed}")
    zone_sets = "abcd"
    nodes = {f"z{zone}": {"zone": zone} for zone in zone_sets}
    there = [
        volume(f"{zone}{n}", gib=rng.randint(1, 2), on=[{"zone": [zone]}])
        for zone in zone_sets
        for n in range(rng.randint(1, 3))
    ]
    pods, claims = pods_with_claims(rng.randint(2, len(there)))
    found = storage(LATER, *claims, *pods, *there)
    favourites = rng.sample(list(nodes), len(nodes))
    for _ in range(40):
        members = []
        for pod in pods:
            needs = found.needs(typed(pod))
            assert isinstance(needs, VolumeNeeds)
            may = [n for n in favourites if all(p.matches(n, nodes[n]) for p in needs.reachability)]
            node = may[0] if rng.random() < 0.8 else rng.choice(may)
            members.append((typed(pod), node, nodes[node]))
        chosen = found.choose_gang(members)
        if not isinstance(chosen, VolumeShortfall):
            return
        assert found.avoid_shortfall(members, chosen)
    raise AssertionError("the gang has no volumes after 40 plans")
