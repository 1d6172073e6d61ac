"""Where a ledger of our own is if nobody says so: in a directory for each cluster."""

import os
import re
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

from afflux.model.errors import InputError

# Root's home is closed to others, and PostgreSQL does not run as root.
OF_ROOT = "/var/lib"
# A socket's whole path has to be short.
_LONGEST_NAME = 20


def usual_directory(cluster: str, lease: str) -> str:
    """Among the states of this user's programs, for those who follow the cluster with this address
    and lead by this lease: they share it. Others have one of their own."""
    host = re.sub(r"[^A-Za-z0-9.]+", "-", urlsplit(cluster).netloc).strip("-")
    digest = sha256(f"{cluster.rstrip('/')} {lease}".encode()).hexdigest()
    name = f"{host[:_LONGEST_NAME]}-{digest[:8]}"
    return str(_states() / "afflux" / "ledger" / name)


def _states() -> Path:
    """As the XDG base directory specification has it; what is not absolute does not count, nor does
    what root may have kept of somebody else's environment."""
    if os.geteuid() == 0:
        return Path(OF_ROOT)
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    if given.is_absolute():
        return given
    try:
        return Path.home() / ".local" / "state"
    except RuntimeError:
        raise InputError(
            "ledger.directory: missing, and this user has no home; expected a directory that can"
            " be written, ledger.url, or `ledger: {enabled: false}` to keep nothing"
        ) from None
