"""An adapter that knows only control's protocol has a ledger: a new leader continues from it."""

from ledger_values import history, ledger_at, run, states

from control.memory_adapter import MemoryAdapter, at_work, until


def test_a_new_leader_continues_where_the_last_one_stopped(database: str) -> None:
    async def test() -> None:
        first = MemoryAdapter()
        first.add_machine("m", cpu=2)
        async with ledger_at(database) as ledger, at_work(first, ledger):
            first.add_group("runs", 2, cpu=1)
            await until(lambda: len(first.places) == 2)
            first.add_group("waits", 1, cpu=2)
            first.add_group("vanishes", 1, cpu=1)
            expected = {"runs": "running", "waits": "waiting", "vanishes": "waiting"}
            await until(lambda: states(database) == expected)

        del first.cluster.tasks["vanishes.0"]
        second = MemoryAdapter(first.cluster)
        second.add_group("new", 1, cpu=2)
        async with ledger_at(database) as ledger, at_work(second, ledger):
            await until(lambda: states(database).get("new") == "waiting")
            assert history(database) == {"vanishes": "deleted"}
            second.end("runs.0")
            second.end("runs.1")
            await until(lambda: "waits.0" in second.places)
            assert "new.0" not in second.places
            await until(lambda: history(database).get("runs") == "succeeded")

    run(test)
