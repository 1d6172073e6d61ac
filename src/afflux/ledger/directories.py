"""Where a ledger of our own is: in a directory for each cluster if nobody says so, and never where
PostgreSQL could not be reached, or where somebody else could get in its way."""

import logging
import os
import pwd
import re
import sys
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

from afflux.model.errors import InputError

# Root's home is closed to others, and PostgreSQL does not run as root.
OF_ROOT = "/var/lib"
# A socket's whole path has to be short: as long as this, and no longer.
LONGEST_SOCKET_PATH = 103 if sys.platform == "darwin" else 107
SOCKET = "data/.s.PGSQL.5432"
LONGEST_PATH = LONGEST_SOCKET_PATH - len(f"/{SOCKET}")
# A file in a directory in which a server has run.
BEGUN = "begun"
INSTEAD = (
    "ledger.directory names another one, ledger.url a database,"
    " and with `ledger: {enabled: false}` nothing is kept"
)
_LONGEST_NAME = 20
_log = logging.getLogger(__name__)
# Paths go through a shell, and into a URL.
_AWKWARD = re.compile(r"[^\w/.+:@~-]")


def usual_directory(cluster: str, lease: str) -> str:
    """Among the states of this user's programs, for those who follow the cluster with this address
    and lead by this lease: they share it. Others have one of their own. Where the home of a user
    leaves no room for the cluster's name, it is left out."""
    host = re.sub(r"[^A-Za-z0-9.]+", "-", urlsplit(cluster).netloc).strip("-")
    digest = sha256(f"{cluster.rstrip('/')} {lease}".encode()).hexdigest()
    names = f"{host[:_LONGEST_NAME]}-{digest[:8]}", digest[:8]
    paths = [_within(_states(), name) for name in names]
    # One that is there is never forgotten for another, not even if it has to be moved first.
    there = [path for path in paths if os.path.exists(path / BEGUN)]
    fitting = [path for path in paths if _length(path) <= LONGEST_PATH]
    directory = [*there, *fitting, paths[-1]][0]
    if os.geteuid() == 0:
        _tell_of_another(names[0], directory)
    return str(directory)


def usable(directory: str) -> Path:
    """This directory, wherever links lead; an InputError if PostgreSQL cannot be there."""
    try:
        path = Path(directory).expanduser().resolve()
    except (RuntimeError, OSError) as error:
        raise InputError(f"ledger.directory: {directory}: {error}; {INSTEAD}") from None
    if awkward := _AWKWARD.search(str(path)):
        raise InputError(
            f"ledger.directory: {path}: {awkward[0]!r} cannot be used; expected a path of letters,"
            f" digits and '/.+:@~-_' only; {INSTEAD}"
        )
    if _length(path) > LONGEST_PATH:
        raise InputError(
            f"ledger.directory: {path}: {_length(path)} bytes long, too long for PostgreSQL's"
            f" socket in it; expected at most {LONGEST_PATH}: move it to a shorter path and name"
            f" that with ledger.directory; {INSTEAD}"
        )
    return path


def check_owner(path: Path, *others: int) -> None:
    """An InputError if this, or where it leads, is somebody's but ours, root's, or that of these
    others: they could put there whatever they like, and least of all root may follow it."""
    for owner in (path.lstat().st_uid, path.stat().st_uid):
        if owner not in {0, os.geteuid(), *others}:
            raise InputError(
                f"ledger.directory: {path}: belongs to {_name(owner)}; expected"
                f" {_name(os.geteuid())}, or afflux to be run by {_name(owner)}; {INSTEAD}"
            )


def _length(path: Path) -> int:
    """In bytes, wherever links lead."""
    return len(os.fsencode(os.path.realpath(path)))


def _name(user: int) -> str:
    try:
        return f"user {pwd.getpwuid(user).pw_name}"
    except KeyError:
        return f"user {user}"


def _tell_of_another(name: str, directory: Path) -> None:
    """Root's ledger was once where its environment says; nobody is to find an empty one instead and
    not know why."""
    earlier = _within(_given_states(), name)
    if not earlier.is_absolute() or not os.path.exists(earlier / BEGUN):
        return
    if earlier.stat().st_uid == 0 and os.path.realpath(earlier) != os.path.realpath(directory):
        _log.warning(
            "%s is a ledger, too, and is not used: as root XDG_STATE_HOME does not count, and the"
            " ledger is in %s; ledger.directory can name the other one",
            earlier,
            directory,
        )


def _within(states: Path, name: str) -> Path:
    return states / "afflux" / "ledger" / name


def _states() -> Path:
    """As the XDG base directory specification has it; what is not absolute does not count, nor does
    what root may have kept of somebody else's environment."""
    if os.geteuid() == 0:
        return Path(OF_ROOT)
    given = _given_states()
    if given.is_absolute():
        return given
    try:
        return Path.home() / ".local" / "state"
    except RuntimeError:
        raise InputError(
            "ledger.directory: missing, and this user has no home; expected a directory that can"
            " be written, ledger.url, or `ledger: {enabled: false}` to keep nothing"
        ) from None


def _given_states() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME", ""))
