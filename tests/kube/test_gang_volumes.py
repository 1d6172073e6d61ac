"""Pods that start together: volumes for all of them or for none, and no harder than one by one."""

from itertools import permutations
from random import Random
from typing import Any

import pytest
from storage_objects import claim, claiming, storage, storage_class, typed, volume

from afflux.kube.volumes.choosing import Choice
from afflux.kube.volumes.needs import Blocked, VolumeNeeds
from afflux.kube.volumes.storage import Storage
from afflux.kube.volumes.together import Short
from afflux.model import reason

HOST = "kubernetes.io/hostname"
LATER = storage_class()
DYNAMIC = storage_class(provisioner="disk.example.com")
NODES = {f"n{n}": {HOST: f"n{n}", "zone": "ab"[n % 2]} for n in range(4)}


def on(*hosts: str) -> list[Any]:
    return [{HOST: list(hosts)}]


def choose(found: Storage, *going: tuple[Any, str]) -> Any:
    return found.choose_together([(typed(pod), node, NODES[node]) for pod, node in going])


def concede(found: Storage, short: Any, *going: tuple[Any, str]) -> bool:
    return found.concede([(typed(pod), node, NODES[node]) for pod, node in going], short)


def members(count: int, **fields: Any) -> tuple[list[Any], list[Any]]:
    """So many pods, each with a claim of its own."""
    pods = [claiming(f"p{n}", f"c{n}") for n in range(count)]
    return pods, [claim(f"c{n}", **fields) for n in range(count)]


def test_everybody_gets_one_or_nobody_does() -> None:
    pods, claims = members(3)
    two = [volume("v0", on=on("n0")), volume("v1", on=on("n1"))]
    found = storage(LATER, *claims, *pods, *two)
    short = choose(found, *zip(pods, ("n0", "n1", "n2"), strict=True))
    assert short == Short("uid-p2", reason.VOLUME_MISSING, {})
    found.set(typed(volume("v2", on=on("n2"))))
    assert choose(found, *zip(pods, ("n0", "n1", "n2"), strict=True)) == {
        f"uid-p{n}": (Choice(f"default/c{n}", f"v{n}", f"n{n}"),) for n in range(3)
    }


def test_who_could_have_another_leaves_a_volume_to_those_who_could_not() -> None:
    # One by one the smaller claim would take the smaller volume, the only one with the label.
    pods = [claiming("any", "a"), claiming("picky", "p")]
    picky = claim("p", gib=2, selector={"matchLabels": {"tier": "fast"}})
    there = [volume("fast", gib=2, labels={"tier": "fast"}), volume("slow", gib=3)]
    found = storage(LATER, claim("a", gib=1), picky, *there, *pods)
    chosen = choose(found, (pods[0], "n0"), (pods[1], "n1"))
    assert [each[0].volume for each in chosen.values()] == ["slow", "fast"]


def test_what_finds_none_is_made_where_it_can_be() -> None:
    pods, claims = members(2)
    found = storage(DYNAMIC, *claims, *pods, volume("v", on=on("n1")))
    assert choose(found, (pods[0], "n0"), (pods[1], "n1")) == {
        "uid-p0": (Choice("default/c0", None, "n0"),),
        "uid-p1": (Choice("default/c1", "v", "n1"),),
    }


def test_pods_with_nothing_to_choose_are_asked_no_less() -> None:
    bound, there = claim("b", volume="v"), volume("v", on=on("n1"))
    pods = [claiming("plain"), claiming("p", "b")]
    found = storage(bound, there, *pods)
    assert choose(found, (pods[0], "n0"), (pods[1], "n1")) == {"uid-plain": (), "uid-p": ()}
    short = choose(found, (pods[0], "n0"), (pods[1], "n0"))
    assert short == Short("uid-p", reason.VOLUME_AFFINITY, {})
    missing = choose(storage(), (pods[0], "n0"), (pods[1], "n1"))
    assert missing == Short("uid-p", 'persistentvolumeclaim "b" not found', {})


def test_a_claim_that_two_of_them_share_is_one_claim() -> None:
    pods = [claiming("p", "c"), claiming("q", "c")]
    found = storage(LATER, claim("c"), volume("v", on=on("n0")), volume("w", on=on("n1")), *pods)
    together = choose(found, (pods[0], "n1"), (pods[1], "n1"))
    assert together == {f"uid-{name}": (Choice("default/c", "w", "n1"),) for name in "pq"}
    apart = choose(found, (pods[0], "n0"), (pods[1], "n1"))
    assert isinstance(apart, Short)
    assert apart.scattered
    found.set(typed(volume("both", on=on("n0", "n1"))))
    apart = choose(found, (pods[0], "n0"), (pods[1], "n1"))
    assert [each[0].volume for each in apart.values()] == ["both", "both"]


def test_too_few_in_one_zone_has_some_look_in_another() -> None:
    pods, claims = members(3)
    there = [volume(f"a{n}", on=[{"zone": ["a"]}]) for n in range(2)]
    there += [volume(f"b{n}", on=[{"zone": ["b"]}]) for n in range(2)]
    found = storage(LATER, *claims, *pods, *there)
    short = choose(found, *((pod, "n0") for pod in pods))
    assert isinstance(short, Short)
    (moved,) = short.avoid
    assert short.avoid[moved] == {"a0", "a1"}
    assert concede(found, short, *((pod, "n0") for pod in pods))
    for pod in pods:
        needs = found.needs(typed(pod))
        assert isinstance(needs, VolumeNeeds)
        may = {n for n, labels in NODES.items() if all(p.include(n, labels) for p in needs.places)}
        assert may == ({"n1", "n3"} if f"uid-{pod['metadata']['name']}" == moved else set(NODES))
    # It is over when it is said to be, or when one of them has gone.
    everybody = frozenset(f"uid-p{n}" for n in range(3))
    assert found.concede_no_more(everybody) == {moved}
    assert found.concede_no_more(everybody) == set()
    assert concede(found, short, *((pod, "n0") for pod in pods))
    gone = next(pod for pod in pods if f"uid-{pod['metadata']['name']}" != moved)
    assert moved in found.remove(typed(gone))
    assert found.concede_no_more(everybody) == set()


def test_concessions_come_to_an_end() -> None:
    # The plan sends everybody to zone a, whatever they say.
    pods, claims = members(3)
    there = [volume("a", on=[{"zone": ["a"]}]), volume("b", on=[{"zone": ["b"]}]), volume("c")]
    found = storage(LATER, *claims, *pods, *there)
    going = [(pod, "n0") for pod in pods]
    tries = 0
    while concede(found, choose(found, *going), *going):
        tries += 1
        assert tries < 20
    assert not concede(found, choose(found, *going), *going)


def test_too_few_anywhere_is_known_before_anybody_is_sent_anywhere() -> None:
    pods, claims = members(3)
    two = [volume("v0", on=on("n0")), volume("v1", on=[{"zone": ["a"]}])]
    found = storage(LATER, *claims, *pods, *two)
    asked = [typed(pod) for pod in pods]
    assert found.shortage(asked) == "needs volumes for 3 claims at once, 2 are available"
    assert found.shortage(asked[:2]) is None
    found.set(typed(volume("v2", gib=9)))
    assert found.shortage(asked) is None
    # A claim that is shared needs one volume; one with a volume, or for which one is made, none.
    shared = [typed(claiming(f"s{n}", "c0")) for n in range(9)]
    assert found.shortage(shared) is None
    dynamic = storage(DYNAMIC, *claims, *pods)
    assert dynamic.shortage(asked) is None
    own = volume("own", claimRef={"namespace": "default", "name": "c2"})
    assert storage(LATER, *claims, *pods, *two, own).shortage(asked) is None


def random_storage(rng: Random) -> tuple[list[Any], list[Any], list[Any]]:
    pods, claims = [], []
    for number in range(rng.randint(2, 4)):
        names = [f"c{number}{k}" for k in range(rng.choice((0, 1, 1, 2)))]
        claims += [claim(name, gib=rng.randint(1, 2)) for name in names]
        pods.append(claiming(f"p{number}", *names))
    places = [on(host) for host in NODES] * 2 + [[{"zone": ["a"]}], on("n0", "n1"), []]
    volumes = [
        volume(f"v{number}", gib=rng.randint(1, 3), on=rng.choice(places))
        for number in range(rng.randint(2, 6))
    ]
    return pods, claims, volumes


@pytest.mark.parametrize("batch", range(10))
def test_whatever_works_one_by_one_works_together(batch: int) -> None:
    worked = {True: 0, False: 0}
    for number in range(150):
        rng = Random(f"together {batch} {number}")
        pods, claims, volumes = random_storage(rng)
        provisioner = rng.choice(("", "", "disk.example.com"))
        manifests = [storage_class(provisioner=provisioner), *claims, *volumes, *pods]
        going = [(pod, rng.choice(list(NODES))) for pod in pods]
        one_by_one = storage(*manifests)
        fine = True
        for pod, node in going:
            choices = one_by_one.choose(typed(pod), node, NODES[node])
            fine &= not isinstance(choices, Blocked)
            if not isinstance(choices, Blocked):
                one_by_one.assume(choices)
        found = storage(*manifests)
        chosen = choose(found, *going)
        worked[fine] += 1
        if fine:
            assert not isinstance(chosen, Short)
            # Nothing that is known before the plan may stand in the way.
            assert found.shortage([typed(pod) for pod in pods]) is None
            asked: dict[tuple[str, str], int] = {}
            for pod, node in going:
                needs = found.needs(typed(pod))
                assert isinstance(needs, VolumeNeeds)
                assert all(places.include(node, NODES[node]) for places in needs.places)
                for resource, amount in needs.taken:
                    asked[node, resource] = asked.get((node, resource), 0) + amount
            for (node, resource), amount in asked.items():
                assert amount <= found.volumes_on(NODES[node])[resource]
        if not isinstance(chosen, Short):
            check_choices(found, going, chosen)
        elif not provisioner:
            assert not any_way(found, going)
    assert min(worked.values()) > 20


def check_choices(found: Storage, going: list[tuple[Any, str]], chosen: Any) -> None:
    given = [choice.volume for each in chosen.values() for choice in each if choice.volume]
    assert len(given) == len(set(given))
    for pod, node in going:
        for choice in chosen[pod["metadata"]["uid"]]:
            assert choice.node == node
            if choice.volume is not None:
                region = found.supply.volumes[choice.volume].region
                assert region is None or any(t.matches(node, NODES[node]) for t in region)


def any_way(found: Storage, going: list[tuple[Any, str]]) -> bool:
    """Whether there is any way to give every claim a volume, by trying everything."""
    could_have: list[set[str]] = []
    for pod, node in going:
        for each in pod["spec"]["volumes"]:
            key = f"default/{each['persistentVolumeClaim']['claimName']}"
            could_have.append(
                {
                    v.name
                    for v in found.supply.candidates(found.supply.claims[key])
                    if v.region is None or any(t.matches(node, NODES[node]) for t in v.region)
                }
            )
    names = [*found.supply.volumes]
    return any(
        all(name in could for name, could in zip(order, could_have, strict=True))
        for order in permutations(names, len(could_have))
    )


@pytest.mark.parametrize("seed", range(40))
def test_looking_elsewhere_ends_with_volumes_for_all(seed: int) -> None:
    """However unwise the plans are: as long as there are enough, nobody has to wait for long."""
    rng = Random(f"elsewhere {seed}")
    zones = "abcd"
    nodes = {f"z{zone}": {"zone": zone} for zone in zones}
    there = [
        volume(f"{zone}{n}", gib=rng.randint(1, 2), on=[{"zone": [zone]}])
        for zone in zones
        for n in range(rng.randint(1, 3))
    ]
    pods, claims = members(rng.randint(2, len(there)))
    found = storage(LATER, *claims, *pods, *there)
    favourites = rng.sample(list(nodes), len(nodes))
    for _ in range(40):
        going = []
        for pod in pods:
            needs = found.needs(typed(pod))
            assert isinstance(needs, VolumeNeeds)
            may = [n for n in favourites if all(p.include(n, nodes[n]) for p in needs.places)]
            node = may[0] if rng.random() < 0.8 else rng.choice(may)
            going.append((typed(pod), node, nodes[node]))
        chosen = found.choose_together(going)
        if not isinstance(chosen, Short):
            return
        assert found.concede(going, chosen)
    raise AssertionError("still looking")
