"""A new leader continues where the last one stopped; where they differ, the API server is right."""

import asyncio
import json
import logging

import msgspec
import pytest
from ledger_values import (
    group,
    history,
    ledger_at,
    reservation,
    rows,
    run,
    sent,
    single,
    states,
)
from small_cluster import NOW, leader_with, node, pod, wait_until

from afflux.cycle.interfaces import DeposedError, LaterSchemaError
from afflux.cycle.ledger_entries import LedgerBatch
from afflux.cycle.loop import Cycle
from afflux.groups.entries import MemberEntry
from afflux.kube import objects
from afflux.model.reservation import Reservation

pytestmark = pytest.mark.slow


async def left_behind(url: str, batch: LedgerBatch) -> None:
    """Write this batch as the previous leader."""
    async with ledger_at(url) as last:
        await last.take_over(None)
        await last.commit(batch)


def test_groups_keep_their_order_over_a_takeover(database: str) -> None:
    async def test() -> None:
        # Not the order of creation, the only one that the API server knows.
        await left_behind(
            database, LedgerBatch(groups=(single("late", NOW + 10.5), single("early", NOW + 20.25)))
        )
        async with ledger_at(database) as ledger, leader_with(ledger) as one:
            await one.begin(
                [], [pod("early", created=1), pod("late", created=2), pod("new", created=30)]
            )
            await one.settled()
            queue = one.cycle.queue.considered()
            assert [(each.name, each.ready_seconds) for each in queue[:2]] == [
                ("default/late", NOW + 10.5),
                ("default/early", NOW + 20.25),
            ]
            assert queue[2].name == "default/new"

    run(test)


def test_a_position_belongs_to_a_pod_and_not_to_its_name(database: str) -> None:
    async def test() -> None:
        await left_behind(database, LedgerBatch(groups=(single("p", NOW + 10.5),)))
        async with ledger_at(database) as ledger, leader_with(ledger) as one:
            await one.begin([], [pod("p", uid="another")])
            await one.settled()
            (waiting,) = one.cycle.queue.considered()
            assert waiting.ready_seconds < NOW + 10.0
            assert states(database) == {"p": "waiting"}
            assert rows(database, "SELECT how FROM afflux.finished_groups") == [("deleted",)]

    run(test)


def test_a_gang_that_lost_a_pod_during_the_takeover_is_ready_anew(database: str) -> None:
    async def test() -> None:
        members = tuple(MemberEntry(f"uid-a-{n}", f"default/a-{n}") for n in range(2))
        entry = group("default/a", ready_seconds=10.5, members=members)
        await left_behind(database, LedgerBatch(groups=(entry,)))
        async with ledger_at(database) as ledger, leader_with(ledger) as one:
            await one.begin([], [pod("a-0", "a")])
            await one.settled()
            assert states(database) == {"a": "provisional"}
            one.reader.pods.changed(pod("a-9", "a"))
            await one.settled()
            (waiting,) = one.cycle.queue.considered()
            assert waiting.ready_seconds > 1e9

    run(test)


def test_a_late_member_keeps_its_own_position(database: str) -> None:
    async def test() -> None:
        ran = MemberEntry("uid-a", "default/a", machine="n")
        late = MemberEntry("uid-late", "default/late", ready_seconds=20.25)
        named = MemberEntry("uid-named", "default/named")
        entry = group(
            "default/g", size=1, ready_seconds=10.5, peak_bound=1, members=(ran, late, named)
        )
        await left_behind(database, LedgerBatch(groups=(entry,)))
        async with ledger_at(database) as ledger, leader_with(ledger) as one:
            waiting = [pod(name, "g", 1, created=5) for name in ("late", "named")]
            await one.begin([], [pod("a", "g", 1, node="n"), *waiting])
            await one.settled()
            places = {each.name: each.ready_seconds for each in one.cycle.queue.considered()}
            assert places["default/late"] == 20.25
            assert places["default/named"] > 1e9

    run(test)


def on_the_server(found: objects.Pod) -> dict[str, object]:
    return json.loads(msgspec.json.encode(found))


def test_pods_with_an_open_intent_are_read_from_the_api_server(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        names = ("seen", "bound", "open", "gone", "remade")
        entries = [sent(single(name, NOW + 10.0 + n), "n") for n, name in enumerate(names)]
        await left_behind(database, LedgerBatch(groups=tuple(entries)))
        async with ledger_at(database) as ledger, leader_with(ledger) as one:
            # The watch has seen that the first pod is bound, and is behind for the others.
            path = "/api/v1/namespaces/default/pods"
            for name, found in (
                ("bound", pod("bound", node="n", version=5)),
                ("open", pod("open", version=5)),
                ("remade", pod("remade", uid="another", version=5)),
            ):
                one.server.objects[f"{path}/{name}"] = on_the_server(found)
            listed = [pod("seen", node="n"), *(pod(name) for name in names[1:])]
            await one.begin([node("n")], listed)
            asked = {each.path.rpartition("/")[2] for each in one.server.requests}
            assert asked == {"bound", "open", "gone", "remade"}
            outcome = await one.settled()
            placed = {placement.task.name: placement.task.id for placement in outcome.placements}
            assert placed == {"default/open": "uid-open", "default/remade": "another"}
            assert states(database) == {
                "seen": "running",
                "bound": "running",
                "open": "starting",
                "remade": "starting",
            }
            kept = dict(rows(database, "SELECT alone, ready_seconds FROM afflux.groups"))
            assert kept["open"] == NOW + 12.0
            assert kept["remade"] < NOW + 10.0
            assert history(database) == {
                "gone": "deleted",
                "remade": "deleted",
            }

    run(test)


def test_a_forbidden_read_back_is_logged_once_and_backs_off(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:

    async def test() -> None:
        from small_api import Fault

        entries = tuple(sent(single(f"p{n}", 1.0 + n), "n") for n in range(3))
        await left_behind(database, LedgerBatch(groups=entries))
        async with ledger_at(database) as ledger, leader_with(ledger) as one:
            one.server.fault = lambda _: Fault(status=403)
            pods = [pod(f"p{n}") for n in range(3)]
            for each in pods:
                path = f"/api/v1/namespaces/default/pods/{each.metadata.name}"
                one.server.objects[path] = on_the_server(each)
            beginning = asyncio.create_task(one.begin([node("n")], pods))
            await wait_until(lambda: len(one.pauses) >= 3 * 12)
            assert not beginning.done()
            # 0.1, 0.2, 0.4, ... 60 s, each drawn from its upper half.
            assert all(0.05 <= pause <= 0.1 for pause in one.pauses[:3])
            assert 30 <= max(one.pauses) <= 60
            assert len(one.server.requests) <= len(one.pauses) + 3
            one.server.fault = lambda _: Fault()
            await beginning

    run(test)
    assert "nothing is scheduled until it is known of 3 pods" in caplog.text
    (said,) = [each.message for each in caplog.records if "read back" in each.message]
    assert "needs the right to get and list pods" in said


def test_a_failing_read_back_is_retried(database: str) -> None:

    async def test() -> None:
        from small_api import Fault

        await left_behind(database, LedgerBatch(groups=(sent(single("p", 1.0), "n"),)))
        async with ledger_at(database) as ledger, leader_with(ledger) as one:
            faults = [Fault(status=500), Fault(hang_up_before=True), Fault()]
            one.server.fault = lambda _: faults.pop(0) if len(faults) > 1 else faults[0]
            found = on_the_server(pod("p", node="n", version=5))
            one.server.objects["/api/v1/namespaces/default/pods/p"] = found
            await one.begin([node("n")], [pod("p")])
            await one.settled()
            assert states(database) == {"p": "running"}

    run(test)


def test_differences_are_logged_and_the_api_server_is_right(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        on_n = MemberEntry("uid-moved", "default/moved", "n")
        entries = (
            single("vanished", 1.0),
            single("moved", 2.0, state="running", members=(on_n,)),
            single("bound", 3.0),
            single("same", 4.0),
        )
        await left_behind(database, LedgerBatch(groups=entries))
        async with ledger_at(database) as ledger, leader_with(ledger) as one:
            pods = [pod("moved", node="m"), pod("bound", node="n"), pod("same")]
            with caplog.at_level(logging.WARNING):
                await one.begin([node("n"), node("m")], pods)
            await one.settled()
            assert states(database) == {"moved": "running", "bound": "running", "same": "starting"}
            machines = dict(rows(database, "SELECT name, machine FROM afflux.pods"))
            assert machines == {"moved": "m", "bound": "n", "same": ""}
            said = dict(rows(database, "SELECT key, message FROM afflux.events"))
            vanished, moved, bound, _ = (entry.entry.id.key for entry in entries)
            assert said == {
                vanished: "none of its pods is there",
                moved: "pod default/moved is on m; the ledger says that it is on n",
                bound: "pod default/bound is on n; the ledger says that it is not bound",
            }

    run(test)
    assert "disagree 3 times; the cluster is right" in caplog.text
    assert "pod default/moved is on m; the ledger says" in caplog.text


def test_reservations_are_restored_if_all_members_still_wait(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    restored: list[Reservation] = []
    monkeypatch.setattr(Cycle, "restore", lambda _, held: restored.extend(held), raising=False)

    async def test() -> None:
        kept, started, lost = single("kept", 1.0), single("started", 2.0), single("lost", 3.0)
        held = tuple(reservation(entry, 99.0) for entry in (kept, started, lost))
        await left_behind(database, LedgerBatch(groups=(kept, started, lost), reservations=held))
        async with ledger_at(database) as ledger, leader_with(ledger) as one:
            await one.begin([], [pod("kept"), pod("started", node="n"), pod("lost", uid="other")])
            assert restored == [held[0].reservation]

    run(test)


def test_a_takeover_waits_for_an_unavailable_ledger(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    from database_proxy import proxied_database

    async def test() -> None:
        await left_behind(database, LedgerBatch(groups=(single("p", NOW + 10.5),)))
        async with proxied_database(database) as proxy, ledger_at(proxy.url) as ledger:
            proxy.close()
            async with leader_with(ledger, when_away="continue") as one:
                beginning = asyncio.create_task(one.begin([], [pod("p")]))
                await wait_until(lambda: len(one.pauses) > 3)
                assert not beginning.done()
                proxy.reopen()
                await beginning
                await one.settled()
                assert one.cycle.queue.considered()[0].ready_seconds == NOW + 10.5

    run(test)
    assert "the ledger cannot be taken over" in caplog.text


def test_a_ledger_of_a_later_version_is_not_taken_over_and_not_waited_for(database: str) -> None:
    """The process ends with the reason and releases its Lease, so that another replica leads."""

    async def test() -> None:
        later = "INSERT INTO afflux.migrations (name) VALUES ('2099-01-01-add') RETURNING name"
        rows(database, later)
        async with ledger_at(database) as ledger, leader_with(ledger) as one:
            with pytest.raises(LaterSchemaError, match="2099-01-01-add"):
                await one.begin([], [pod("p")])
            assert one.pauses == []

    run(test)


def test_after_a_deleted_lease_the_next_epoch_of_the_ledger_is_taken(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:

    async def test() -> None:
        async with ledger_at(database) as last, ledger_at(database) as ledger:
            await last.take_over(17)
            async with leader_with(ledger) as one:
                await one.begin([], [pod("p")], epoch=0, lease_seconds=0.1)
                await one.settled()
                assert rows(database, "SELECT epoch FROM afflux.fence") == [(18,)]
            with pytest.raises(DeposedError):
                await last.commit(LedgerBatch())

    run(test)
    assert "the lease is ours: taking the next epoch" in caplog.text


def test_the_ledger_gets_the_epoch_of_the_lease(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger, leader_with(ledger) as one:
            await one.begin([], [], epoch=5, lease_seconds=15.0)
            assert rows(database, "SELECT epoch FROM afflux.fence") == [(5,)]

    run(test)
