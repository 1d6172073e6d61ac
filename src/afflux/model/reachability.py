"""Reachability: which machines can reach something that a task needs, such as a volume."""

from collections.abc import Mapping
from dataclasses import dataclass

from afflux.model.selectors import Term


@dataclass(frozen=True, slots=True)
class Reachability:
    """A machine must match at least one of the terms; otherwise `reason` speaks against it."""

    reason: str
    terms: tuple[Term, ...]

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a machine of this name with these labels matches one of the terms."""
        return any(term.matches(name, labels) for term in self.terms)


def driver_label(driver: str) -> str:
    """The label of machines on which a driver is installed; no label of a node has this form."""
    return f"driver/csi/{driver}"
