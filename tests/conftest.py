"""What all tests share: the examples they draw, their distribution over workers, Ctrl-C."""

import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling


# Property tests draw the same examples in every run. `make explore` draws new ones. A slow machine
# fails no test, so there is no deadline; nothing is remembered from one run to the next. Hypothesis
# has other defaults where the variable CI is set, so both profiles name every one that differs.
COMMON = settings(
    deadline=None, database=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("repeatable", COMMON, derandomize=True)
settings.register_profile("explore", COMMON, derandomize=False)
settings.load_profile("repeatable")


def pytest_configure() -> None:
    """Restores the default action of SIGINT.

    A shell starts background commands with SIGINT ignored, and child processes inherit that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> "LoadScopeScheduling":
    """Distributes tests one by one, except those that need the control plane: one worker runs them.

    Marks of `xdist_group` would do the same, but pytest 9.2 does not pass them on (pytest-xdist's
    issue 1386), so that every worker would start its own control plane.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Sharing(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "live" if "live/" in nodeid.partition("::")[0] else nodeid

    return Sharing(config, log)
