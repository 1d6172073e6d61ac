"""Volumes of pods that start together: chosen for all of them, or nobody starts."""

import asyncio
from random import Random

import pytest
from small_api import Fault, Request, run, until
from volume_cluster import HOST, Cluster, claim, clusters, disk, gang, node, pod, storage_class

from afflux.kube.live import binding, preparing
from afflux.model.implied import is_volume

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "FIRST_REFUSAL_SECONDS", 0.05)


def three_nodes(cluster: Cluster, **fields: str) -> None:
    cluster.add(*(node(f"n{number}", **fields) for number in range(3)), storage_class())


# --- The plan


def test_a_group_with_too_few_volumes_starts_nothing_and_says_why() -> None:
    async def test() -> None:
        async with clusters() as cluster:
            three_nodes(cluster)
            cluster.add(disk("d0", host="n0"), disk("d1", host="n1"), *gang("g", 3))
            assert cluster.decide().placements == ()
            words = "group default/g needs volumes for 3 claims at once, 2 are available"
            assert {cluster.reason(f"g-{n}") for n in range(3)} == {words}
            # Nothing has happened: nobody decides again.
            assert cluster.decide().round is None
            cluster.add(disk("d2", host="n1"))
            kept, _ = await cluster.choose(cluster.decide())
            assert sorted(kept.values()) == ["n0", "n1", "n1"]

    run(test)


def test_volumes_that_are_on_one_machine_bring_the_group_there() -> None:
    async def test() -> None:
        async with clusters() as cluster:
            three_nodes(cluster)
            cluster.add(*(disk(f"d{n}", host="n2") for n in range(3)), *gang("g", 3))
            kept, given_back = await cluster.choose(cluster.decide())
            assert (sorted(kept.values()), given_back) == (["n2"] * 3, {})

    run(test)


def test_a_machine_is_not_sent_more_than_it_has_volumes_for() -> None:
    """However much room there is, and however empty it is."""

    async def test() -> None:
        async with clusters() as cluster:
            three_nodes(cluster)
            cluster.add(node("roomy", cpu="500"), disk("d", host="roomy"))
            cluster.add(*(disk(f"d{n}", host=f"n{n}") for n in range(3)))
            cluster.add(*gang("g", 2), *gang("h", 2))
            outcome = cluster.decide()
            assert sorted(each.machine for each in outcome.placements) == [
                "n0",
                "n1",
                "n2",
                "roomy",
            ]
            kept, given_back = await cluster.choose(outcome)
            assert (len(kept), given_back) == (4, {})

    run(test)


def test_of_two_groups_that_want_the_same_the_first_has_it() -> None:
    async def test() -> None:
        async with clusters() as cluster:
            three_nodes(cluster)
            # Whoever is in the zone can reach them: no plan counts these.
            cluster.add(*(disk(f"d{n}", zone="a") for n in range(4)), *gang("g", 3), *gang("h", 3))
            outcome = cluster.decide()
            assert len(outcome.placements) == 6
            kept, given_back = await cluster.choose(outcome)
            assert (set(kept), set(given_back)) == (
                {f"g-{n}" for n in range(3)},
                {f"h-{n}" for n in range(3)},
            )
            assert cluster.decide().placements == ()
            words = "group default/h needs volumes for 3 claims at once, 1 are available"
            assert cluster.reason("h-0") == words
            assert cluster.decide().round is None

    run(test)


def test_too_few_in_the_best_zone_has_some_go_to_another() -> None:
    async def test() -> None:
        async with clusters() as cluster:
            cluster.add(node("best", zone="a", cpu="100"), node("other", zone="b"), storage_class())
            cluster.add(disk("a0", zone="a"), disk("a1", zone="a"), disk("b0", zone="b"))
            cluster.add(*gang("g", 3))
            kept, given_back = await cluster.choose(cluster.decide())
            assert (kept, set(given_back.values())) == ({}, {""})
            kept, given_back = await cluster.choose(cluster.decide())
            assert (sorted(kept.values()), given_back) == (["best", "best", "other"], {})

    run(test)


def test_a_group_that_finds_no_other_way_is_left_alone_until_something_happens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preparing, "LONGEST_CONCESSION_SECONDS", 0.2)

    async def test() -> None:
        async with clusters() as cluster:
            cluster.add(node("best", zone="a"), node("full", zone="b", cpu="0"), storage_class())
            cluster.add(disk("a0", zone="a"), disk("a1", zone="a"), disk("b0", zone="b"))
            cluster.add(*gang("g", 3))
            kept, given_back = await cluster.choose(cluster.decide())
            assert (kept, set(given_back.values())) == ({}, {""})
            assert cluster.decide().placements == ()
            assert cluster.decide().round is None
            # After a while it may look everywhere again.
            await until(lambda: len(cluster.mirror.changes) > 0)
            kept, given_back = await cluster.choose(cluster.decide())
            assert set(given_back.values()) == {""}
            cluster.add(node("full", zone="b"))
            while not kept:
                kept, given_back = await cluster.choose(cluster.decide())
                assert set(given_back.values()) <= {""}
            assert sorted(kept.values()) == ["best", "best", "full"]

    run(test)


def test_members_that_share_a_claim_follow_the_first() -> None:
    async def test() -> None:
        async with clusters() as cluster:
            three_nodes(cluster, cpu="2")
            cluster.add(claim("c"), *(disk(f"d{n}", host=f"n{n}") for n in range(3)))
            cluster.add(*(pod(f"p{n}", "c", group="g", size=2) for n in range(2)))
            async with cluster.at_work():
                await cluster.all_placed("p0", "p1")
            assert len(set(cluster.places().values())) == 1

    run(test)


# --- Carrying it out


def test_a_group_runs_on_its_volumes_and_single_pods_as_ever() -> None:
    async def test() -> None:
        async with clusters() as cluster:
            three_nodes(cluster)
            cluster.add(*(disk(f"d{n}", host=f"n{n}") for n in range(3)), claim("s"))
            cluster.add(*gang("g", 3), pod("plain"))
            async with cluster.at_work():
                await cluster.all_placed("g-0", "g-1", "g-2", "plain")
                cluster.add(disk("e", host="n1"), pod("s", "s"))
                await cluster.all_placed("s")
            assert cluster.node_of("s") == "n1"
            assert cluster.told.errors == []

    run(test)


def test_a_member_without_claims_waits_for_those_that_have_some() -> None:
    async def test() -> None:
        async with clusters(volume_seconds=0.3) as cluster:
            three_nodes(cluster)
            cluster.add(storage_class("made", "disk.example.com"), claim("c", "made"))
            cluster.neglected.add("c")
            cluster.add(pod("head", group="g", size=2), pod("hand", "c", group="g", size=2))
            async with cluster.at_work():
                await until(lambda: "not bound within" in cluster.reason("head"))
                assert cluster.places() == {}
                assert "group waits for default/hand" in cluster.reason("head")
                cluster.neglected.clear()
                # Its provisioner is back.
                cluster.bind_later("c", None)
                await cluster.all_placed("head", "hand")

    run(test)


def test_if_one_promise_fails_none_of_the_group_is_bound() -> None:
    async def test() -> None:
        async with clusters() as cluster:
            three_nodes(cluster)
            cluster.add(*(disk(f"d{n}", host=f"n{n}") for n in range(3)), *gang("g", 3))
            failing = True

            def fault(request: Request) -> Fault:
                is_promise = request.method == "PATCH" and request.path.endswith("/d1")
                return Fault(status=403 if failing and is_promise else None)

            cluster.server.fault = fault
            async with cluster.at_work():
                await until(lambda: len(cluster.told.errors) >= 6)
                assert cluster.places() == {}
                failing = False
                await cluster.all_placed("g-0", "g-1", "g-2")

    run(test)


def test_a_member_that_goes_meanwhile_stops_the_others() -> None:
    async def test() -> None:
        async with clusters() as cluster:
            three_nodes(cluster)
            cluster.add(*(disk(f"d{n}", host=f"n{n}") for n in range(3)), *gang("g", 3))
            outcome = cluster.decide()
            cluster.remove("Pod", "g-1")
            kept, given_back = await cluster.choose(outcome)
            assert (kept, set(given_back.values())) == ({}, {""})
            assert cluster.decide().placements == ()
            assert cluster.reason("g-0") == "group default/g has 2 of 3 members"

    run(test)


def test_many_groups_want_everything_and_all_of_them_end_whole() -> None:
    """Local and shared volumes, at first too few: groups start one by one, never in part."""

    async def test() -> None:
        rng = Random("many groups")
        async with clusters() as cluster:
            cluster.add(storage_class(), *(node(f"n{n}", "ab"[n % 2]) for n in range(6)))
            cluster.add(*(disk(f"l{n}", host=f"n{n % 6}") for n in range(12)))
            cluster.add(*(disk(f"s{n}", zone="ab"[n % 2]) for n in range(6)))
            sizes = {f"g{n}": rng.randint(2, 4) for n in range(7)}
            for name, size in sizes.items():
                cluster.add(*gang(name, size))
            async with cluster.at_work():
                for number in range(40):
                    await asyncio.sleep(0.05)
                    if sum(sizes.values()) == len(cluster.places()):
                        break
                    if number % 8 == 7:
                        cluster.add(disk(f"more-{number}", host=f"n{rng.randrange(6)}"))
                await until(lambda: whole(cluster, sizes) is not None)
                done = whole(cluster, sizes)
                assert done is not None
                assert len(done) >= 5
            assert cluster.told.errors == []

    run(test)


def whole(cluster: Cluster, sizes: dict[str, int]) -> list[str] | None:
    """The groups that run; None while one is there in part."""
    places = cluster.places()
    counts = {name: sum(p.startswith(f"{name}-") for p in places) for name in sizes}
    if any(0 < counts[name] < size for name, size in sizes.items()):
        return None
    return [name for name, count in counts.items() if count]


def test_nothing_is_promised_when_the_lease_is_lost() -> None:
    async def test() -> None:
        async with clusters() as cluster:
            three_nodes(cluster)
            cluster.add(disk("d0", host="n0"), disk("d1", host="n1"), *gang("g", 2))
            cluster.remaining_seconds = 0.0
            async with cluster.at_work():
                await until(lambda: cluster.told.rounds > 1)
                assert cluster.server.requests == []
                cluster.remaining_seconds = None
                await cluster.all_placed("g-0", "g-1")

    run(test)


def test_a_defect_harms_nobody_but_those_it_is_about(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with clusters() as cluster:
            three_nodes(cluster)
            cluster.add(*(disk(f"d{n}", host=f"n{n}") for n in range(3)), claim("s"))
            cluster.add(*gang("g", 2), pod("s", "s"), pod("plain"))
            choose_together = cluster.mirror.disks.storage.choose_together
            broken = True
            monkeypatch.setattr(
                cluster.mirror.disks.storage,
                "choose_together",
                lambda going: choose_together(None if broken else going),
            )
            async with cluster.at_work():
                await cluster.all_placed("s", "plain")
                await until(lambda: "because of a defect" in cluster.reason("g-0"))
                assert cluster.node_of("g-0") is None
                broken = False
                await cluster.all_placed("g-0", "g-1")

    run(test)


# --- The accounts


@pytest.mark.parametrize("seed", range(12))
def test_no_machine_is_ever_thought_to_have_fewer_volumes_than_it_has(seed: int) -> None:
    """In every state between: decided, chosen, promised, bound, given back, deleted."""

    async def test() -> None:
        rng = Random(f"accounts {seed}")
        async with clusters(volume_seconds=0.1) as cluster:
            three_nodes(cluster)
            working = asyncio.create_task(cluster.binding.run())
            for step in range(40):
                kind = rng.choice(("disk", "disk", "pod", "pod", "gang", "gone", "neglect", "wait"))
                if kind == "disk":
                    cluster.add(disk(f"d{step}", host=f"n{rng.randrange(3)}"))
                elif kind == "pod":
                    cluster.add(claim(f"p{step}"), pod(f"p{step}", f"p{step}"))
                elif kind == "gang":
                    cluster.add(*gang(f"g{step}", rng.randint(2, 3)))
                elif kind == "gone":
                    pods = cluster.pods()
                    if pods:
                        cluster.remove("Pod", rng.choice(pods))
                elif kind == "neglect":
                    cluster.neglected ^= {f"p{step + 1}", f"g{step + 1}-0"}
                outcome = cluster.decide()
                check_accounts(cluster)
                if outcome.placements:
                    kept, given_back = await cluster.preparing.choose(
                        outcome.placements, outcome.round.placed if outcome.round else ()
                    )
                    for placement, why in given_back:
                        cluster.binding.give_back(placement, why)
                    cluster.binding.start(kept)
                await asyncio.sleep(rng.choice((0, 0, 0.02, 0.12)))
            working.cancel()
            await asyncio.wait({working})

    run(test)


def check_accounts(cluster: Cluster) -> None:
    """What the cycle has left on each machine, against what there is."""
    supply = cluster.mirror.disks.storage.supply
    names = cluster.state.resource_names
    waiting = {
        name
        for group in cluster.cycle.queue
        for task in group.tasks
        for name, _ in task.shape.requests
        if is_volume(name)
    }
    for row, machine in cluster.state.machines():
        there = supply.stock.on(machine.labels[HOST])
        for name in waiting:
            column = names.index(name)
            left = int(cluster.state.capacity[row, column] - cluster.state.used[row, column])
            decided = sum(
                dict(held.task.shape.requests).get(name, 0)
                for held in cluster.state.held_on(row)
                if held.task.id not in cluster.mirror.disks._given_on
            )
            assert left >= there.get(name, 0) - decided, (machine.name, name)
