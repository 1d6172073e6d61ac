"""From the configuration to a ledger."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from ledger_values import group, run

from afflux.app import opened
from afflux.config import Ledger
from afflux.cycle.entries import Turn
from afflux.ledger.embedded import _servers
from afflux.ledger.postgres import PostgresLedger
from afflux.model.errors import InputError


def test_without_a_word_about_it_there_is_none() -> None:
    with opened(Ledger()) as ledger:
        assert ledger is None


def test_a_database_by_its_url(database: str) -> None:
    parts = dict(part.split("=", 1) for part in database.split())
    url = f"postgresql://{parts['user']}@/{parts['dbname']}?host={parts['host']}"

    async def test() -> None:
        with opened(Ledger(url=url)) as address:
            assert address is not None
            ledger = PostgresLedger(address)
            await ledger.take_over(3)
            await ledger.commit(Turn(groups=(group(),)))
            await ledger.close()

    run(test)


def test_a_database_of_our_own_in_a_directory_runs_as_long_as_we_do() -> None:
    with TemporaryDirectory(prefix="ledger-") as name:
        directory = os.path.join(name, "new", "one")

        async def test() -> None:
            with opened(Ledger(directory=directory)) as address:
                assert address is not None
                ledger = PostgresLedger(address)
                assert (await ledger.take_over(None)).epoch == 0
                await ledger.close()

        run(test)
        assert not any(_servers(Path(directory).resolve() / "data"))


def test_a_url_that_nobody_understands_is_refused_without_repeating_it() -> None:
    with (
        pytest.raises(InputError, match=r"ledger\.url: cannot be understood") as refused,
        opened(Ledger(url="postgresql://u:secret@[h/d")),
    ):
        pass
    assert "secret" not in str(refused.value)
