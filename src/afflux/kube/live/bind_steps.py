"""What the binder calls before a pod is bound and after: interfaces, and why a pod is not bound."""

from dataclasses import dataclass
from typing import Protocol

from afflux.cycle.ledger_entries import BindOutcome
from afflux.model.placement import Placement


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a placement is not bound. The pod can be decided again at once if there is no reason, or
    with `decide_again`; otherwise it waits for a while."""

    reason: str = ""
    decide_again: bool = False


DECIDE_AGAIN = Rejection()


class PreBinder(Protocol):
    """Prepares the node for a pod before the pod is bound, as kube-scheduler's PreBind plugins."""

    def concerns(self, placement: Placement) -> bool:
        """Whether this pod needs any preparation."""
        ...

    async def prepare(self, placement: Placement) -> Rejection | None:
        """Prepare; returns None when done, otherwise why it failed."""
        ...

    def is_joint(self, placement: Placement) -> bool:
        """Whether the preparation succeeds for several pods together or for none."""
        ...

    def cancel(self, placement: Placement, rejection: Rejection) -> None:
        """The pod will not be bound for this reason: what was chosen for it is free again."""


class Listener(Protocol):
    """Is called when a binding ends."""

    def bound(self, placement: Placement, seconds: float) -> None:
        """The pod is bound to its node."""

    def not_bound(self, placement: Placement, seconds: float) -> None:
        """The binding was refused."""

    def in_doubt(self, placement: Placement, why: str) -> None:
        """It is unknown, for a long time, whether the pod is bound."""


class BindOutcomes(Protocol):
    """Records the outcomes of bindings in the ledger."""

    def settled(self, placement: Placement, verdict: BindOutcome, why: str = "") -> None:
        """Record an outcome; "unknown" is followed by another one later."""
