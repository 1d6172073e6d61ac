"""The ledger writer records each group from its first pod to its last."""

import pytest
from ledger_values import history, ledger_at, rows, run, states
from small_cluster import Leader, leader_with, node, pod

from afflux.ledger.postgres import PostgresLedger
from afflux.model.placement import Placement


def members(url: str, name: str) -> list[tuple[str, str]]:
    query = "SELECT name, machine FROM afflux.pods WHERE group_name = %s ORDER BY name"
    return [(row[0], row[1]) for row in rows(url, query, name)]


def test_a_group_is_provisional_starting_running_and_then_history(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger, leader_with(ledger) as one:
            await one.begin([node("n")])
            one.reader.pods.changed(pod("a-0", "a"))
            await one.settled()
            assert states(database) == {"a": "provisional"}
            ((size, reason),) = rows(database, "SELECT size, reason FROM afflux.groups")
            assert (size, reason) == (2, "group default/a has 1 of 2 members")

            one.reader.pods.changed(pod("a-1", "a", created=5))
            outcome = await one.once()
            assert states(database) == {"a": "starting"}
            assert sorted(rows(database, "SELECT pod, machine FROM afflux.intents")) == [
                ("a-0", "n"),
                ("a-1", "n"),
            ]

            one.now += 7
            one.bound(outcome)
            await one.settled()
            assert states(database) == {"a": "running"}
            assert members(database, "a") == [("a-0", "n"), ("a-1", "n")]
            ((started,),) = rows(database, "SELECT started_seconds FROM afflux.running_groups")
            assert started == one.now

            one.now += 60
            for name in ("a-0", "a-1"):
                ended = pod(name, "a", node="n", version=3, status={"phase": "Succeeded"})
                one.reader.pods.changed(ended)
                await one.settled()
            assert states(database) == {}
            query = "SELECT name, how, started_seconds, ended_seconds, pods, machines"
            assert rows(database, f"{query} FROM afflux.finished_groups") == [
                ("a", "succeeded", started, one.now, ["a-0", "a-1"], ["n", "n"])
            ]

    run(test)


def test_a_pod_without_a_group_is_recorded_under_its_name(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger, leader_with(ledger) as one:
            await one.begin([node("n")])
            one.reader.pods.changed(pod("p"))
            one.bound(await one.settled())
            await one.settled()
            assert states(database) == {"p": "running"}
            one.reader.pods.changed(pod("p", version=9, status={"phase": "Failed"}))
            await one.settled()
            assert history(database) == {"p": "failed"}

    run(test)


def test_a_group_that_cannot_start_waits_with_the_reason(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger, leader_with(ledger) as one:
            await one.begin([node("n")])
            one.reader.pods.changed(pod("busy", node="n", cpu="6"))
            for number in range(2):
                one.reader.pods.changed(pod(f"a-{number}", "a", cpu="4", created=number))
            await one.settled()
            one.reader.changes.put(("cycle", ""))
            await one.settled()
            assert states(database) == {"a": "waiting", "busy": "running"}
            ((reason, ready),) = rows(database, "SELECT reason, ready_seconds FROM afflux.queue")
            assert "Insufficient cpu" in reason
            assert ready == pytest.approx(1_763_236_801.0, abs=1e-3)

    run(test)


def test_a_pod_deleted_before_the_quorum_leaves_the_group(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger, leader_with(ledger) as one:
            await one.begin([node("n")])
            for number in range(2):
                one.reader.pods.changed(pod(f"a-{number}", "a", 3))
            await one.settled()
            assert members(database, "a") == [("a-0", ""), ("a-1", "")]
            one.reader.pods.deleted(pod("a-1", "a", 3, version=2))
            await one.settled()
            assert members(database, "a") == [("a-0", "")]
            one.reader.pods.deleted(pod("a-0", "a", 3, version=2))
            await one.settled()
            assert states(database) == {}
            assert history(database) == {"a": "deleted"}

    run(test)


def test_a_pod_seen_three_times_is_one_member(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger, leader_with(ledger) as one:
            await one.begin([node("n")])
            for version in range(1, 4):
                one.reader.pods.changed(pod("a-0", "a", 3, version=version))
                await one.settled()
            assert states(database) == {"a": "provisional"}
            assert members(database, "a") == [("a-0", "")]

    run(test)


def test_a_group_keeps_its_position_after_a_failed_bind(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger, leader_with(ledger) as one:
            await one.begin([node("n")])
            one.reader.pods.changed(pod("p"))
            outcome = await one.settled()
            before = rows(database, "SELECT ready_seconds FROM afflux.groups")
            for placement in outcome.placements:
                one.reader.register.not_bound(placement.task.id, "the node said no")
                one.reader.forget_assumed(
                    placement, refusal="the node said no; trying again after 1 s"
                )
            await one.settled()
            assert states(database) == {"p": "waiting"}
            assert rows(database, "SELECT ready_seconds FROM afflux.groups") == before
            assert rows(database, "SELECT 1 FROM afflux.intents") == []
            ((kind, said),) = rows(database, "SELECT kind, message FROM afflux.events")
            assert (kind, said) == ("NotBound", "pod default/p was not bound: the node said no")
            one.reader.retry("default/p")
            await one.settled()
            assert states(database) == {"p": "starting"}
            assert rows(database, "SELECT ready_seconds FROM afflux.groups") == before

    run(test)


def test_an_unknown_outcome_stays_an_intent(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger, leader_with(ledger) as one:
            await one.begin([node("n")])
            one.reader.pods.changed(pod("p"))
            (placement,) = (await one.settled()).placements
            one.reader.register.doubtful(placement.task.id, "no answer")
            one.reader.changes.put(("cycle", ""))
            await one.settled()
            found = rows(database, "SELECT pod, machine, state, reason FROM afflux.intents")
            assert found == [("p", "n", "unknown", "no answer")]
            one.reader.register.bound(placement.task.id, placement.machine)
            one.reader.changes.put(("cycle", ""))
            await one.settled()
            assert states(database) == {"p": "running"}

    run(test)


def test_a_group_name_can_be_reused_at_once(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger, leader_with(ledger) as one:
            await one.begin([node("n")])
            one.reader.pods.changed(pod("p"))
            one.bound(await one.settled())
            await one.settled()
            # Between two cycles the pod is deleted and recreated under its name.
            one.reader.pods.deleted(
                pod("p", version=3, metadata={"deletionTimestamp": "2025-11-15T20:01:00Z"})
            )
            one.reader.pods.changed(pod("p", uid="another", version=4))
            await one.settled()
            assert history(database) == {"p": "deleted"}
            assert states(database) == {"p": "starting"}
            assert rows(database, "SELECT uid FROM afflux.pods") == [("another",)]

    run(test)


@pytest.mark.parametrize(
    ("status", "how"),
    [
        ({"phase": "Succeeded"}, "succeeded"),
        ({"phase": "Failed"}, "failed"),
        ({"phase": "Failed", "reason": "DeadlineExceeded"}, "deadline"),
        ({"phase": "Running"}, "deleted"),
    ],
)
def test_history_says_how_a_group_ended(database: str, status: dict[str, str], how: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger, leader_with(ledger) as one:
            await one.begin([node("n")])
            one.reader.pods.changed(pod("p"))
            one.bound(await one.settled())
            await one.settled()
            # First its last status, then its deletion.
            one.reader.pods.changed(pod("p", node="n", version=3, status=status))
            one.reader.pods.deleted(pod("p", node="n", version=4, status=status))
            await one.settled()
            assert history(database) == {"p": how}

    run(test)


def test_a_group_cleaned_up_at_its_deadline_ends_with_deadline(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger, leader_with(ledger) as one:
            await one.begin([node("n")])
            one.reader.pods.changed(pod("p", spec={"activeDeadlineSeconds": 30}))
            one.bound(await one.settled())
            await one.settled()
            ((until,),) = rows(database, "SELECT until_seconds FROM afflux.running_groups")
            # The deadline and 30 s of grace.
            assert until == one.now + 60
            one.reader.register.overdue({"uid-p"})
            deleted = {"deletionTimestamp": "2025-11-15T20:01:00Z"}
            one.reader.pods.deleted(pod("p", node="n", version=3, metadata=deleted))
            await one.settled()
            assert history(database) == {"p": "deadline"}

    run(test)


def test_the_next_group_of_a_name_does_not_inherit_the_deadline(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger, leader_with(ledger) as one:
            await one.begin([node("n")])
            stopped = {"phase": "Failed", "reason": "DeadlineExceeded"}
            for name, last in (("a", stopped), ("b", {"phase": "Succeeded"})):
                one.reader.pods.changed(pod(name, "g", 1, spec={"activeDeadlineSeconds": 30}))
                one.bound(await one.settled())
                await one.settled()
                if name == "b":
                    # The cleanup is too late: the kubelet has already stopped the first pod.
                    one.reader.register.overdue({"uid-a"})
                one.reader.pods.changed(pod(name, "g", 1, node="n", version=3, status=last))
                await one.settled()
            ended = "SELECT name, how FROM afflux.finished_groups ORDER BY how"
            assert rows(database, ended) == [("g", "deadline"), ("g", "succeeded")]

    run(test)


def test_rolled_back_pods_do_not_count_as_run(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger, leader_with(ledger) as one:
            await one.begin([node("n", cpu=1)])
            one.reader.pods.changed(pod("rest", "g", 2))
            for name in ("a", "b"):
                one.reader.pods.changed(pod(name, "g", 2, node="n"))
                await one.settled()
                one.reader.register.roll_back([f"uid-{name}"], "only 1 of 2 were bound")
                one.reader.pods.deleted(pod(name, "g", 2, node="n", version=2))
                await one.settled()
            assert (
                rows(database, "SELECT kind, message FROM afflux.events")
                == [("TakenBack", "only 1 of 2 were bound")] * 2
            )
            # If they counted, a new leader would start later members one by one.
            assert members(database, "g") == [("rest", "")]

    run(test)


def test_pods_of_other_schedulers_are_not_recorded(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger, leader_with(ledger) as one:
            others = pod("o", node="n", spec={"schedulerName": "other"})
            await one.begin([node("n")], [others, pod("mine", node="n")])
            await one.settled()
            # A pod of ours that ran before the ledger was used is recorded.
            assert states(database) == {"mine": "running"}

    run(test)


def test_a_cycle_without_changes_writes_nothing(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger, leader_with(ledger) as one:
            await one.begin([node("n")])
            one.reader.pods.changed(pod("p"))
            one.bound(await one.settled())
            await one.settled()
            ((batches,),) = rows(database, "SELECT turn FROM afflux.fence")
            one.reader.pods.changed(pod("p", node="n", version=7))
            await one.settled()
            assert rows(database, "SELECT turn FROM afflux.fence") == [(batches,)]

    run(test)


async def half_bound(one: Leader, ledger: PostgresLedger) -> list[Placement]:
    """A gang of three with one bound member; returns the placements of the others."""
    await one.begin([node("n")])
    for number in range(3):
        one.reader.pods.changed(pod(f"a-{number}", "a", 3))
    outcome = await one.settled()
    first, *rest = outcome.placements
    one.reader.register.bound(first.task.id, first.machine)
    name = first.task.name.removeprefix("default/")
    one.reader.pods.changed(pod(name, "a", 3, node="n", version=2))
    return list(rest)


def test_the_rest_of_a_half_bound_gang_goes_first(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger, leader_with(ledger) as one:
            rest = await half_bound(one, ledger)
            ((ready,),) = rows(database, "SELECT ready_seconds FROM afflux.groups")
            # Another group of the same priority became ready earlier.
            for placement in rest:
                one.reader.register.not_bound(placement.task.id, "refused")
                one.reader.forget_assumed(placement, refusal="refused")
            one.reader.nodes.changed(node("n", cpu=1))
            one.reader.pods.changed(pod("early", created=0, metadata={"creationTimestamp": EARLY}))
            await one.settled()
            for placement in rest:
                one.reader.retry(placement.task.name)
            await one.settled()
            queue = one.cycle.queue.considered()
            assert [group.name for group in queue] == ["default/a", "default/early"]
            assert queue[0].ready_seconds == ready > queue[1].ready_seconds
            assert len(queue[0].tasks) == 2

    run(test)


EARLY = "2025-11-15T19:00:00Z"
