"""What a scheduler answers, and what a ledger keeps."""

from collections.abc import Sequence
from typing import Protocol

from afflux.cluster.state import State
from afflux.cycle.entries import Recovered, Turn
from afflux.model.group import Group
from afflux.model.promise import Standing
from afflux.model.task import Shape
from afflux.plan.rounds import Round
from afflux.policies.policy import Policy


class Scheduler(Protocol):
    """Decides for everybody who waits at once."""

    def policies_of(self, shape: Shape) -> Sequence[Policy]:
        """What may refuse a machine to a class, for explanations."""
        ...

    def decide(
        self,
        state: State,
        queue: Sequence[Group],
        now_seconds: float,
        standing: Standing,
    ) -> Round:
        """A plan for some of the groups, which come in queue order; the state is not changed.

        `standing` is what was promised before.
        """
        ...


class LedgerError(Exception):
    """The ledger did not take a turn."""


class DeposedError(LedgerError):
    """A later leader writes; this one must neither write nor bind any more."""


class LedgerAwayError(LedgerError):
    """The ledger cannot be reached. Whether it took the turn is found out by offering it again."""


class Ledger(Protocol):
    """Remembers groups, their order, promises and intents beyond the life of a process."""

    async def take_over(self, epoch: int | None) -> Recovered:
        """Become the only one who may write, under the leader's epoch.

        None takes the next after the last, for a leader who was not elected. A DeposedError if the
        ledger has seen a later epoch.
        """
        ...

    async def commit(self, turn: Turn) -> None:
        """Write all of it or nothing.

        After a LedgerAwayError the same turn has to be offered again before any other: it is
        written once, whether the first attempt came through or not.
        """
        ...

    async def close(self) -> None:
        """Let go of it; nothing more will be written."""
        ...
