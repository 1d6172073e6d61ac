"""Which ledger a configuration selects: a URL, a directory, or the default directory."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from ledger_values import group, run
from only_root import AS_ROOT

from afflux.app import open_ledger
from afflux.config import Ledger
from afflux.cycle.ledger_entries import LedgerBatch
from afflux.ledger.directories import (
    ALTERNATIVES,
    MAX_SOCKET_PATH_BYTES,
    SOCKET,
    checked_directory,
    default_directory,
)
from afflux.ledger.embedded_postgres import _servers
from afflux.ledger.postgres import PostgresLedger
from afflux.model.errors import InputError


def test_a_disabled_ledger_has_no_address() -> None:
    with open_ledger(Ledger(enabled=False)) as ledger:
        assert ledger is None


CLUSTER, LEASE = "https://10.0.0.1:6443", "kube-system/afflux"


def test_the_default_directory_is_in_the_state_home_of_the_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_directory(CLUSTER, LEASE).startswith("/state/afflux/ledger/10.0.0.1-6443-")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")  # relative paths are ignored
    monkeypatch.setenv("HOME", "/home/me")
    assert default_directory(CLUSTER, LEASE).startswith("/home/me/.local/state/afflux/ledger/")


def test_root_ignores_xdg_state_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """sudo may keep the variable of the user."""
    monkeypatch.setenv("XDG_STATE_HOME", "/home/me/.local/state")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_directory(CLUSTER, LEASE).startswith("/var/lib/afflux/ledger/")


@AS_ROOT
def test_root_is_warned_of_its_ledger_in_xdg_state_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Earlier versions used that directory, and the new one has none of its groups."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    directory = Path(default_directory(CLUSTER, LEASE))
    assert caplog.text == ""
    earlier = tmp_path / "afflux" / "ledger" / directory.name
    earlier.mkdir(parents=True)
    (earlier / "begun").touch()
    assert default_directory(CLUSTER, LEASE) == str(directory)
    (said,) = caplog.messages
    assert said.startswith(f"{earlier} is a ledger, too, and is not used")
    assert "ledger.directory can name" in said
    # No warning if both are the same directory, or if the ledger is another scheduler's.
    default_directory(CLUSTER, LEASE, root_state_home=str(tmp_path))
    default_directory(CLUSTER, "batch/afflux", root_state_home=str(tmp_path))
    assert caplog.messages == [said]


@AS_ROOT
def test_root_is_not_warned_of_ledgers_of_other_users(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    of_others = tmp_path / "afflux" / "ledger" / Path(default_directory(CLUSTER, LEASE)).name
    of_others.mkdir(parents=True)
    (of_others / "begun").touch()
    os.chown(of_others, 12_345, 12_345)
    default_directory(CLUSTER, LEASE)
    assert caplog.text == ""


def test_a_user_without_home_gets_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("no home")

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(InputError, match=r"ledger\.directory: missing.*ledger\.url"):
        default_directory(CLUSTER, LEASE)


def test_only_replicas_of_one_scheduler_share_a_directory() -> None:
    one = default_directory(CLUSTER, LEASE)
    assert default_directory(f"{CLUSTER}/", LEASE) == one
    others = [
        default_directory("https://10.0.0.1:6444", LEASE),
        default_directory(f"{CLUSTER}/clusters/b", LEASE),
        default_directory(CLUSTER, "kube-system/batch"),
        default_directory(CLUSTER, "batch/afflux"),
    ]
    assert len({one, *others}) == 5


def test_the_longest_address_leaves_room_for_a_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", "/home/user-with-a-long-name/.local/state")
    cluster = f"https://{'a' * 32}.gr7.us-east-1.eks.amazonaws.example"
    directory = default_directory(cluster, LEASE)
    assert str(checked_directory(directory)) == directory


@pytest.mark.parametrize(
    "home", ["/home/EXAMPLE.COM/firstname.lastname", "/home/firstname.lastname@corp.example.com"]
)
def test_a_long_home_leaves_room_for_a_socket(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", home)
    cluster = "https://kubernetes.corp.example.com:6443"
    directory = default_directory(cluster, LEASE)
    assert directory.startswith(f"{home}/.local/state/afflux/ledger/")
    assert str(checked_directory(directory)) == directory
    assert default_directory(cluster, "batch/afflux") != directory


@pytest.mark.parametrize("room", [8, 100])
def test_an_existing_ledger_is_found_even_if_its_name_is_too_long_for_a_new_one(
    room: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An earlier version allowed longer names, or the path of the home was shorter."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    usual = len(f"{tmp_path}/afflux/ledger/")
    begun = Path(default_directory(CLUSTER, LEASE, max_bytes=usual + room))
    begun.mkdir(parents=True)
    (begun / "begun").touch()
    for other in (0, 8, 100):
        assert default_directory(CLUSTER, LEASE, max_bytes=usual + other) == str(begun)


def test_the_error_for_a_long_path_says_to_move_the_ledger() -> None:
    with pytest.raises(InputError, match="move it to a shorter path and name that with ledger"):
        checked_directory(f"/{'x' * 90}")


@pytest.mark.parametrize(
    ("directory", "complaint"),
    [
        (f"/{'x' * 90}", "91 bytes long, too long for PostgreSQL's socket in it; expected at"),
        (f"/{'ü' * 50}", "101 bytes long"),
        ("/my files/ledger", "' ' cannot be used; expected a path of letters"),
        ("/x$(touch here)", "'$' cannot be used"),
        ("/a,b", "',' cannot be used"),
        ("/a%20b", "'%' cannot be used"),
        ("~nobody-of-this-name/ledger", "home directory"),
    ],
)
def test_an_unusable_path_is_refused_with_the_reason(directory: str, complaint: str) -> None:
    with pytest.raises(InputError) as refused, open_ledger(Ledger(directory=directory)):
        pass
    assert str(refused.value).startswith(f"ledger.directory: {directory}: ")
    assert complaint in str(refused.value)
    assert str(refused.value).endswith(ALTERNATIVES)


@pytest.mark.slow
def test_other_characters_and_the_longest_path_are_accepted() -> None:
    with TemporaryDirectory(prefix="ledger-") as name:
        odd = Path(name) / "a+b@c:d~-ü"
        longest = MAX_SOCKET_PATH_BYTES - len(f"/{SOCKET}") - len(os.fsencode(f"{odd.resolve()}/"))
        directory = odd / ("x" * longest)

        async def test() -> None:
            with open_ledger(Ledger(directory=str(directory))) as address:
                assert address is not None
                ledger = PostgresLedger(address)
                assert (await ledger.take_over(None)).epoch == 0
                await ledger.close()
                assert (directory / SOCKET).is_socket()

        run(test)


def test_a_url_opens_an_existing_database(database: str) -> None:
    parts = dict(part.split("=", 1) for part in database.split())
    url = f"postgresql://{parts['user']}@/{parts['dbname']}?host={parts['host']}"

    async def test() -> None:
        with open_ledger(Ledger(url=url)) as address:
            assert address is not None
            ledger = PostgresLedger(address)
            await ledger.take_over(3)
            await ledger.commit(LedgerBatch(groups=(group(),)))
            await ledger.close()

    run(test)


def test_an_embedded_database_stops_with_its_last_user() -> None:
    with TemporaryDirectory(prefix="ledger-") as name:
        directory = os.path.join(name, "new", "one")

        async def test() -> None:
            with open_ledger(Ledger(directory=directory)) as address:
                assert address is not None
                ledger = PostgresLedger(address)
                assert (await ledger.take_over(None)).epoch == 0
                await ledger.close()

        run(test)
        assert not any(_servers(Path(directory).resolve() / "data"))


def test_a_malformed_url_is_refused_without_repeating_it() -> None:
    with (
        pytest.raises(InputError, match=r"ledger\.url: cannot be understood") as refused,
        open_ledger(Ledger(url="postgresql://u:secret@[h/d")),
    ):
        pass
    assert "secret" not in str(refused.value)
