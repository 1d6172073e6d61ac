"""The ledger knows which running groups do not meet their requirements: `afflux group` shows it."""

from ledger_values import ledger_at, rows, run
from small_cluster import Leader, leader_with, node, pod

from afflux.kube import objects
from afflux.ledger.queries import LedgerInspection

REQUIRED = {"afflux.dev/required-during-execution": "true"}
WHY = (
    "n does not meet the requirements of a-0: node(s) didn't match Pod's node affinity/selector"
    " (and 1 more)"
)


def demanding(name: str) -> objects.Pod:
    labels = {"afflux.dev/group-name": "a", "afflux.dev/group-size": "2"}
    metadata = {"annotations": REQUIRED, "labels": labels}
    return pod(name, node="n", metadata=metadata, spec={"nodeSelector": {"disk": "ssd"}})


async def judged(one: Leader) -> None:
    """A cycle, and what follows it in a scheduling loop."""
    await one.settled()
    found = one.cycle.violations.current()
    one.reader.register.set_violations({each.task.id: each.sentence for each in found})
    await one.settled()


def test_a_violation_is_the_reason_of_a_running_group_until_it_ends(database: str) -> None:
    def in_ledger() -> list[tuple[str, str]]:
        return rows(database, "SELECT state, reason FROM afflux.groups")

    async def address() -> str:
        return database

    async def test() -> None:
        async with ledger_at(database) as ledger, leader_with(ledger) as one:
            await one.begin([node("n")], [demanding("a-0"), demanding("a-1")])
            await judged(one)
            assert in_ledger() == [("running", WHY)]
            async with LedgerInspection(address) as inspection:
                shown = await inspection.group("default", "a")
            assert shown is not None
            assert shown.reason == WHY
            assert ("RequirementViolated", WHY) in [
                (each.kind, each.message) for each in shown.events
            ]
            one.reader.nodes.changed(node("n", version=2, labels={"disk": "ssd"}))
            await judged(one)
            assert in_ledger() == [("running", "")]
            events = rows(database, "SELECT kind, message FROM afflux.events ORDER BY id")
            assert events[1:] == [("RequirementMet", "all members meet their requirements again")]

    run(test)


def test_a_violation_is_not_why_a_group_ended(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger, leader_with(ledger) as one:
            await one.begin([node("n")], [demanding("a-0"), demanding("a-1")])
            await judged(one)
            for name in ("a-0", "a-1"):
                one.reader.pods.deleted(demanding(name))
            await judged(one)
            assert rows(database, "SELECT name, reason FROM afflux.finished_groups") == [("a", "")]

    run(test)
