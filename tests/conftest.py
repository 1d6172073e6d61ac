"""How tests are shared out among workers, and that their processes hear Ctrl-C."""

import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling


def pytest_configure() -> None:
    """A shell has what it starts in the background ignore Ctrl-C, and so would all we start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> "LoadScopeScheduling":
    """One by one, but everything that needs the control plane goes to one worker.

    Marks of `xdist_group` would say the same, but pytest 9.2 does not pass them on (pytest-xdist's
    issue 1386): every worker would start a control plane of its own.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Sharing(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "live" if "live/" in nodeid.partition("::")[0] else nodeid

    return Sharing(config, log)
