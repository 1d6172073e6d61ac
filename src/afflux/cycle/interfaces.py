"""The interfaces of a scheduler and of a ledger, as the cycle and its adapters use them."""

from collections.abc import Sequence
from typing import Protocol

from afflux.cluster.state import State
from afflux.cycle.decision import Decision
from afflux.cycle.ledger_entries import LedgerBatch, RecoveredLedger
from afflux.model.reservation import StandingReservations
from afflux.model.task import Shape
from afflux.model.waiting_group import WaitingGroup
from afflux.policies.policy import Policy


class Scheduler(Protocol):
    """Decides for all waiting groups at once."""

    def policies_of(self, shape: Shape) -> Sequence[Policy]:
        """The policies that may refuse a machine to a class, for explanations."""
        ...

    def decide(
        self,
        state: State,
        queue: Sequence[WaitingGroup],
        now_seconds: float,
        earlier: StandingReservations,
    ) -> Decision:
        """A decision about the groups, which come in queue order.

        `earlier` are the reservations of the decision before. Deciding does not change the state:
        an implementation that tries placements does so in an overlay (`State.overlay`).
        """
        ...


class LedgerError(Exception):
    """The ledger did not take a batch."""


class DeposedError(LedgerError):
    """A later leader writes; this one must neither write nor bind any more."""


class LaterSchemaError(DeposedError):
    """A later version of the program has changed the ledger; this one cannot write it."""


class LedgerUnavailableError(LedgerError):
    """The ledger cannot be reached. To learn whether it took the batch, commit the batch again."""


class Ledger(Protocol):
    """Keeps groups, their order, reservations and intents beyond the life of a process."""

    async def take_over(self, epoch: int | None) -> RecoveredLedger:
        """Become the only process that may write, under the leader's epoch.

        None takes the next epoch after the last one, for a leader that was not elected. Raises a
        DeposedError if the ledger has seen a later epoch, and a LaterSchemaError if a later version
        has written it.
        """
        ...

    async def commit(self, batch: LedgerBatch) -> None:
        """Write the whole batch or nothing.

        After a LedgerUnavailableError the same batch has to be committed again before any other.
        It is written once, whether the first attempt succeeded or not.
        """
        ...

    async def close(self) -> None:
        """Close the connection; nothing more will be written."""
        ...
