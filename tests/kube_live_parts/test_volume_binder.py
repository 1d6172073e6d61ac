"""Volume binder: the members of a gang get their volumes together or none of them starts."""

import asyncio
from functools import partial
from random import Random

import pytest
import volume_cluster
from small_api import Fault, Request, run, until
from volume_cluster import HOST, Cluster, claim, disk, gang, node, pod, storage_class

from afflux.kube.live.binder import BinderTimes
from afflux.kube.reader.volume_chooser import units
from afflux.model.implied_resources import is_volume

pytestmark = pytest.mark.slow

# Pods whose binding was refused are tried again soon.
clusters = partial(
    volume_cluster.clusters, binder_times=BinderTimes(initial_refusal_backoff_seconds=0.05)
)


def three_nodes(cluster: Cluster, **fields: str) -> None:
    cluster.add(*(node(f"n{number}", **fields) for number in range(3)), storage_class())


# --- The plan


def test_what_goes_together_has_the_name_that_people_see() -> None:
    async def test() -> None:
        async with clusters() as cluster:
            three_nodes(cluster)
            cluster.add(*(disk(f"d{n}", host="n0") for n in range(3)), *gang("g", 2))
            cluster.add(pod("web", "web"), claim("web"))
            outcome = cluster.decide()
            assert outcome.decision is not None
            found = list(units(outcome.placements, outcome.decision.plan.placed, outcome.circles))
            assert sorted((each.name, len(each.members)) for each in found) == [
                ("default/g", 2),
                ("default/web", 1),
            ]

    run(test)


def test_a_group_with_too_few_volumes_starts_nothing_and_says_why() -> None:
    async def test() -> None:
        async with clusters() as cluster:
            three_nodes(cluster)
            cluster.add(disk("d0", host="n0"), disk("d1", host="n1"), *gang("g", 3))
            assert cluster.decide().placements == ()
            words = "group default/g needs volumes for 3 claims at once, 2 are available"
            assert {cluster.reason(f"g-{n}") for n in range(3)} == {words}
            # Without a change there is no further decision.
            assert cluster.decide().decision is None
            cluster.add(disk("d2", host="n1"))
            kept, _ = await cluster.choose(cluster.decide())
            assert sorted(kept.values()) == ["n0", "n1", "n1"]

    run(test)


def test_volumes_that_are_on_one_machine_bring_the_group_there() -> None:
    async def test() -> None:
        async with clusters() as cluster:
            three_nodes(cluster)
            cluster.add(*(disk(f"d{n}", host="n2") for n in range(3)), *gang("g", 3))
            kept, rejected = await cluster.choose(cluster.decide())
            assert (sorted(kept.values()), rejected) == (["n2"] * 3, {})

    run(test)


def test_a_machine_gets_no_more_pods_than_it_has_volumes() -> None:
    """Even on a machine with much free room."""

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
            kept, rejected = await cluster.choose(outcome)
            assert (len(kept), rejected) == (4, {})

    run(test)


def test_of_two_groups_that_need_the_same_volumes_the_first_gets_them() -> None:
    async def test() -> None:
        async with clusters() as cluster:
            three_nodes(cluster)
            # All nodes of the zone can reach these volumes, so plans do not count them.
            cluster.add(*(disk(f"d{n}", zone="a") for n in range(4)), *gang("g", 3), *gang("h", 3))
            outcome = cluster.decide()
            assert len(outcome.placements) == 6
            kept, rejected = await cluster.choose(outcome)
            assert (set(kept), set(rejected)) == (
                {f"g-{n}" for n in range(3)},
                {f"h-{n}" for n in range(3)},
            )
            assert cluster.decide().placements == ()
            words = "group default/h needs volumes for 3 claims at once, 1 are available"
            assert cluster.reason("h-0") == words
            assert cluster.decide().decision is None

    run(test)


def test_with_too_few_volumes_in_the_best_zone_some_members_go_to_another() -> None:
    async def test() -> None:
        async with clusters() as cluster:
            cluster.add(node("best", zone="a", cpu="100"), node("other", zone="b"), storage_class())
            cluster.add(disk("a0", zone="a"), disk("a1", zone="a"), disk("b0", zone="b"))
            cluster.add(*gang("g", 3))
            kept, rejected = await cluster.choose(cluster.decide())
            assert (kept, set(rejected.values())) == ({}, {""})
            kept, rejected = await cluster.choose(cluster.decide())
            assert (sorted(kept.values()), rejected) == (["best", "best", "other"], {})

    run(test)


def test_a_group_without_an_alternative_waits_for_a_change() -> None:
    async def test() -> None:
        async with clusters(avoidance_seconds=0.2) as cluster:
            cluster.add(node("best", zone="a"), node("full", zone="b", cpu="0"), storage_class())
            cluster.add(disk("a0", zone="a"), disk("a1", zone="a"), disk("b0", zone="b"))
            cluster.add(*gang("g", 3))
            kept, rejected = await cluster.choose(cluster.decide())
            assert (kept, set(rejected.values())) == ({}, {""})
            assert cluster.decide().placements == ()
            assert cluster.decide().decision is None
            # After the avoidance has ended all machines are considered again.
            await until(lambda: len(cluster.reader.changes) > 0)
            kept, rejected = await cluster.choose(cluster.decide())
            assert set(rejected.values()) == {""}
            cluster.add(node("full", zone="b"))
            while not kept:
                kept, rejected = await cluster.choose(cluster.decide())
                assert set(rejected.values()) <= {""}
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


# --- Binding


def test_groups_and_single_pods_run_on_their_volumes() -> None:
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
            assert cluster.recorded.errors == []

    run(test)


def test_a_member_without_claims_waits_for_those_with_claims() -> None:
    async def test() -> None:
        async with clusters(volume_timeout_seconds=0.3) as cluster:
            three_nodes(cluster)
            cluster.add(storage_class("made", "disk.example.com"), claim("c", "made"))
            cluster.neglected.add("c")
            cluster.add(pod("head", group="g", size=2), pod("hand", "c", group="g", size=2))
            async with cluster.at_work():
                await until(lambda: "not bound within" in cluster.reason("head"))
                assert cluster.places() == {}
                assert "group waits for default/hand" in cluster.reason("head")
                cluster.neglected.clear()
                # The provisioner works again.
                cluster.bind_later("c", None)
                await cluster.all_placed("head", "hand")

    run(test)


def test_if_one_volume_cannot_be_reserved_no_member_is_bound() -> None:
    async def test() -> None:
        async with clusters() as cluster:
            three_nodes(cluster)
            cluster.add(*(disk(f"d{n}", host=f"n{n}") for n in range(3)), *gang("g", 3))
            failing = True

            def fault(request: Request) -> Fault:
                is_reservation = request.method == "PATCH" and request.path.endswith("/d1")
                return Fault(status=403 if failing and is_reservation else None)

            cluster.server.fault = fault
            async with cluster.at_work():
                await until(lambda: len(cluster.recorded.errors) >= 6)
                assert cluster.places() == {}
                failing = False
                await cluster.all_placed("g-0", "g-1", "g-2")

    run(test)


def test_a_deleted_member_stops_its_gang() -> None:
    async def test() -> None:
        async with clusters() as cluster:
            three_nodes(cluster)
            cluster.add(*(disk(f"d{n}", host=f"n{n}") for n in range(3)), *gang("g", 3))
            outcome = cluster.decide()
            cluster.remove("Pod", "g-1")
            kept, rejected = await cluster.choose(outcome)
            assert (kept, set(rejected.values())) == ({}, {""})
            assert cluster.decide().placements == ()
            assert cluster.reason("g-0") == "group default/g has 2 of 3 members"

    run(test)


def test_competing_groups_are_never_bound_in_part() -> None:
    """Local and shared volumes, at first too few: groups start one by one and never in part."""

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
                await until(lambda: bool(whole(cluster, sizes)))
                for number in range(5):
                    rounds = cluster.recorded.rounds
                    cluster.add(disk(f"more-{number}", host=f"n{rng.randrange(6)}"))
                    await until(
                        lambda rounds=rounds: (
                            cluster.recorded.rounds > rounds
                            or len(cluster.places()) == sum(sizes.values())
                        )
                    )
                await until(lambda: len(whole(cluster, sizes) or ()) >= 5)
            assert cluster.recorded.errors == []

    run(test)


def whole(cluster: Cluster, sizes: dict[str, int]) -> list[str] | None:
    """The groups that run; None while one is bound in part."""
    places = cluster.places()
    counts = {name: sum(p.startswith(f"{name}-") for p in places) for name in sizes}
    if any(0 < counts[name] < size for name, size in sizes.items()):
        return None
    return [name for name, count in counts.items() if count]


def test_no_volume_is_reserved_after_the_lease_was_lost() -> None:
    async def test() -> None:
        async with clusters() as cluster:
            three_nodes(cluster)
            cluster.add(disk("d0", host="n0"), disk("d1", host="n1"), *gang("g", 2))
            cluster.remaining_seconds = 0.0
            async with cluster.at_work():
                await until(lambda: cluster.recorded.rounds > 1)
                assert cluster.server.requests == []
                cluster.remaining_seconds = None
                await cluster.all_placed("g-0", "g-1")

    run(test)


def test_an_error_affects_only_its_gang(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with clusters() as cluster:
            three_nodes(cluster)
            cluster.add(*(disk(f"d{n}", host=f"n{n}") for n in range(3)), claim("s"))
            cluster.add(*gang("g", 2), pod("s", "s"), pod("plain"))
            choose_gang = cluster.reader.cluster_storage.storage.choose_gang
            broken = True
            monkeypatch.setattr(
                cluster.reader.cluster_storage.storage,
                "choose_gang",
                lambda going: choose_gang(None if broken else going),
            )
            async with cluster.at_work():
                await cluster.all_placed("s", "plain")
                await until(lambda: "because of a defect" in cluster.reason("g-0"))
                assert cluster.node_of("g-0") is None
                broken = False
                await cluster.all_placed("g-0", "g-1")

    run(test)


# --- Counts


@pytest.mark.parametrize("seed", range(12))
def test_volume_counts_of_machines_are_never_too_low(seed: int) -> None:
    """In every state: decided, chosen, reserved, bound, rejected, deleted."""

    async def test() -> None:
        rng = Random(f"accounts {seed}")
        async with clusters(volume_timeout_seconds=0.1) as cluster:
            three_nodes(cluster)
            working = asyncio.create_task(cluster.binder.run())
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
                    kept, rejected = await cluster.volume_binder.choose(
                        outcome.placements, outcome.decision.plan.placed if outcome.decision else ()
                    )
                    for placement, why in rejected:
                        cluster.binder.reject(placement, why)
                    cluster.binder.submit(kept)
                await asyncio.sleep(rng.choice((0, 0, 0.02, 0.12)))
            working.cancel()
            await asyncio.wait({working})

    run(test)


def check_accounts(cluster: Cluster) -> None:
    """Compares the free volumes of each machine in the cycle with those in the cluster."""
    cache = cluster.reader.cluster_storage.storage.cache
    waiting = {
        name
        for group in cluster.cycle.queue
        for task in group.tasks
        for name, _ in task.shape.requests
        if is_volume(name)
    }
    for row, machine in cluster.state.machines():
        there = cache.local_volumes.counts_on(machine.labels[HOST])
        for name in waiting:
            view = cluster.state.view()
            left = int(view.capacity(name)[row] - view.used(name)[row])
            decided = sum(
                dict(held.task.shape.requests).get(name, 0)
                for held in cluster.state.placed_on(row)
                if held.task.id not in cluster.reader.cluster_storage._assumed_on
            )
            assert left >= there.get(name, 0) - decided, (machine.name, name)
