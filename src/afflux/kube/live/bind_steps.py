"""What the binder calls before a pod is bound: an interface."""

from typing import Protocol

from afflux.kube.rejection import Rejection
from afflux.model.placement import Placement


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
