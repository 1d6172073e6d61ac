"""What is known only after a cycle is written without another one: nothing else may ever happen."""

from ledger_values import ledger_at, rows, run
from small_cluster import leader_with, node, pod, wait_until

from afflux.control.ledger_writer import LedgerTiming

SOON = LedgerTiming(max_delay_seconds=0.01)


def in_ledger(url: str) -> list[tuple[str, str]]:
    return rows(url, "SELECT state, reason FROM afflux.groups")


def is_unsatisfiable(url: str) -> bool:
    ((state, reason),) = in_ledger(url)
    return state == "unsatisfiable" and reason.startswith("needs")


def test_why_a_group_waits_is_written_without_another_cycle(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger, leader_with(ledger, timing=SOON) as one:
            await one.begin([node("n", cpu=1)], [pod("first", node="n"), pod("next")])
            await one.settled()
            query = "SELECT reason FROM afflux.groups WHERE alone = 'next'"
            await wait_until(lambda: "Insufficient cpu" in rows(database, query)[0][0])

    run(test)


def test_an_unsatisfiable_group_is_shown_as_such_after_a_restart(database: str) -> None:
    async def test() -> None:
        for _ in range(2):
            async with ledger_at(database) as ledger, leader_with(ledger, timing=SOON) as one:
                await one.begin([node("n")], [pod("big", cpu="100")])
                await one.settled()
                await wait_until(lambda: is_unsatisfiable(database))

    run(test)


def test_a_cycle_in_between_takes_the_reasons_along(database: str) -> None:
    later = LedgerTiming(max_delay_seconds=60.0)

    async def test() -> None:
        async with ledger_at(database) as ledger, leader_with(ledger, timing=later) as one:
            await one.begin([node("n")], [pod("big", cpu="100")])
            await one.settled()
            assert in_ledger(database) == [("waiting", "")]
            await one.settled()
            assert is_unsatisfiable(database)

    run(test)


def test_a_bind_without_an_answer_is_written_without_another_cycle(database: str) -> None:
    async def test() -> None:
        async with ledger_at(database) as ledger, leader_with(ledger, timing=SOON) as one:
            await one.begin([node("n")], [pod("p")])
            (placement,) = (await one.once()).placements
            doubt = "no answer from the API server"
            one.reader.register.doubtful(placement.task.id, doubt)
            query = "SELECT state, reason FROM afflux.intents"
            await wait_until(lambda: rows(database, query) == [("unknown", doubt)])

    run(test)


def test_a_violation_is_written_without_another_cycle(database: str) -> None:
    required = {"annotations": {"afflux.dev/required-during-execution": "true"}}

    async def test() -> None:
        async with ledger_at(database) as ledger, leader_with(ledger, timing=SOON) as one:
            there = pod("p", node="n", metadata=required, spec={"nodeSelector": {"disk": "ssd"}})
            await one.begin([node("n")], [there])
            await one.settled()
            found = one.cycle.violations.current()
            one.reader.register.set_violations({each.task.id: each.sentence for each in found})
            await wait_until(lambda: "requirements of p" in in_ledger(database)[0][1])

    run(test)
