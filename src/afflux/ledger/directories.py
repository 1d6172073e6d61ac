"""Directories of embedded ledgers: the default one of a cluster, checks of path and owner."""

import logging
import os
import pwd
import re
import sys
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

from afflux.model.errors import InputError

# Instead of root's home, which other users cannot read: PostgreSQL does not run as root.
ROOT_STATE_HOME = "/var/lib"
MAX_SOCKET_PATH_BYTES = 103 if sys.platform == "darwin" else 107
SOCKET = "data/.s.PGSQL.5432"
MAX_DIRECTORY_BYTES = MAX_SOCKET_PATH_BYTES - len(f"/{SOCKET}")
# A file in a directory in which a server has run at least once.
INITIALISED_MARKER = "begun"
ALTERNATIVES = (
    "ledger.directory names another one, ledger.url a database,"
    " and with `ledger: {enabled: false}` nothing is kept"
)
_MAX_HOST_LENGTH = 20
_log = logging.getLogger(__name__)
# Paths are passed through a shell, and into a URL.
_UNSAFE = re.compile(r"[^\w/.+:@~-]")


def default_directory(
    cluster: str,
    lease: str,
    *,
    root_state_home: str | None = None,
    max_bytes: int = MAX_DIRECTORY_BYTES,
) -> str:
    """The directory for the cluster with this address and this lease, in the user's state home.

    Schedulers with the same cluster and lease share it. Its name begins with the cluster's host,
    unless the path would be too long.
    """
    host = re.sub(r"[^A-Za-z0-9.]+", "-", urlsplit(cluster).netloc).strip("-")
    digest = sha256(f"{cluster.rstrip('/')} {lease}".encode()).hexdigest()
    names = f"{host[:_MAX_HOST_LENGTH]}-{digest[:8]}", digest[:8]
    home = Path(root_state_home or ROOT_STATE_HOME) if os.geteuid() == 0 else _user_state_home()
    paths = [_below(home, name) for name in names]
    # An existing ledger always wins, even if its path is too long and it has to be moved.
    existing = [path for path in paths if os.path.exists(path / INITIALISED_MARKER)]
    fitting = [path for path in paths if _length_bytes(path) <= max_bytes]
    directory = [*existing, *fitting, paths[-1]][0]
    if os.geteuid() == 0:
        _warn_of_other_ledger(names[0], directory)
    return str(directory)


def checked_directory(directory: str) -> Path:
    """The resolved path of this directory; an InputError if PostgreSQL cannot use it."""
    try:
        path = Path(directory).expanduser().resolve()
    except (RuntimeError, OSError) as error:
        raise InputError(f"ledger.directory: {directory}: {error}; {ALTERNATIVES}") from None
    if unsafe := _UNSAFE.search(str(path)):
        raise InputError(
            f"ledger.directory: {path}: {unsafe[0]!r} cannot be used; expected a path of letters,"
            f" digits and '/.+:@~-_' only; {ALTERNATIVES}"
        )
    if _length_bytes(path) > MAX_DIRECTORY_BYTES:
        raise InputError(
            f"ledger.directory: {path}: {_length_bytes(path)} bytes long, too long for PostgreSQL's"
            f" socket in it; expected at most {MAX_DIRECTORY_BYTES}: move it to a shorter path"
            f" and name that with ledger.directory; {ALTERNATIVES}"
        )
    return path


def check_owner(path: Path, *others: int) -> None:
    """Raises an InputError unless this user, root or one of `others` owns the path and the target
    of its links. Another owner could replace the contents, above all to mislead root."""
    for owner in (path.lstat().st_uid, path.stat().st_uid):
        if owner not in {0, os.geteuid(), *others}:
            raise InputError(
                f"ledger.directory: {path}: belongs to {_name(owner)}; expected"
                f" {_name(os.geteuid())}, or afflux to be run by {_name(owner)}; {ALTERNATIVES}"
            )


def _length_bytes(path: Path) -> int:
    """Of the path with links resolved."""
    return len(os.fsencode(os.path.realpath(path)))


def _name(user: int) -> str:
    try:
        return f"user {pwd.getpwuid(user).pw_name}"
    except KeyError:
        return f"user {user}"


def _warn_of_other_ledger(name: str, directory: Path) -> None:
    """Earlier versions followed XDG_STATE_HOME as root, too: say so if such a ledger exists."""
    earlier = _below(_xdg_state_home(), name)
    if not earlier.is_absolute() or not os.path.exists(earlier / INITIALISED_MARKER):
        return
    if earlier.stat().st_uid == 0 and os.path.realpath(earlier) != os.path.realpath(directory):
        _log.warning(
            "%s is a ledger, too, and is not used: for root XDG_STATE_HOME is ignored, and the"
            " ledger is in %s; ledger.directory can name the other one",
            earlier,
            directory,
        )


def _below(state_home: Path, name: str) -> Path:
    return state_home / "afflux" / "ledger" / name


def _user_state_home() -> Path:
    """As in the XDG base directory specification: a relative path is ignored."""
    configured = _xdg_state_home()
    if configured.is_absolute():
        return configured
    try:
        return Path.home() / ".local" / "state"
    except RuntimeError:
        raise InputError(
            "ledger.directory: missing, and this user has no home; expected a writable"
            " directory, ledger.url, or `ledger: {enabled: false}` to keep nothing"
        ) from None


def _xdg_state_home() -> Path:
    return Path(os.environ.get("XDG_STATE_HOME", ""))
