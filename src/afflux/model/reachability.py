"""Places: where something that a task needs can be reached from, such as its volumes."""

from collections.abc import Mapping
from dataclasses import dataclass

from afflux.model.selectors import Term


@dataclass(frozen=True, slots=True)
class Places:
    """A machine must match at least one of the terms; otherwise `reason` is against it.

    `passing` places are so because of what runs: on the empty cluster all machines would be.
    """

    reason: str
    terms: tuple[Term, ...]
    passing: bool = False

    def include(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a machine of this name with these labels is one of the places."""
        return any(term.matches(name, labels) for term in self.terms)


def driver_label(driver: str) -> str:
    """The label, which no node can have by itself, of machines on which a driver is installed."""
    return f"driver/csi/{driver}"
