"""Node selectors: requirements on a machine's labels and name, as Kubernetes defines them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

_INTEGER = re.compile(r"[-+]?[0-9]{1,63}")


def compares(value: str, operator: Literal["Gt", "Lt"], bound: str) -> bool:
    """Whether `value` is above or below `bound`; False unless both are 64-bit integers."""
    if not _INTEGER.fullmatch(value) or not _INTEGER.fullmatch(bound):
        return False
    left, right = int(value), int(bound)
    if not (-(2**63) <= left < 2**63 and -(2**63) <= right < 2**63):
        return False
    return left > right if operator == "Gt" else left < right


Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression on the label `key`."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def accepts(self, value: str | None) -> bool:
        """Whether a machine whose label has this value (None: no such label) satisfies it."""
        match self.operator:
            case "In":
                return value in self.values if value is not None else False
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return value is not None and compares(value, self.operator, self.values[0])


@dataclass(frozen=True, slots=True)
class Term:
    """Requirements that must hold together; `names` restricts the machine's own name."""

    labels: tuple[Requirement, ...] = ()
    names: tuple[Requirement, ...] = ()

    @property
    def parts(self) -> int:
        """The number of expressions and values."""
        return sum(1 + len(each.values) for each in (*self.labels, *self.names))

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether this machine satisfies every requirement; an empty term matches nothing."""
        if not self.labels and not self.names:
            return False
        return all(r.accepts(labels.get(r.key)) for r in self.labels) and all(
            r.accepts(name) for r in self.names
        )


@dataclass(frozen=True, slots=True)
class NodeAffinity:
    """Where a task may run (any of `required`) and where it would like to (`preferred`).

    `required` None means anywhere; an empty tuple means nowhere.
    """

    selector: tuple[tuple[str, str], ...] = ()
    required: tuple[Term, ...] | None = None
    preferred: tuple[tuple[int, Term], ...] = ()

    @property
    def parts(self) -> int:
        """The number of expressions and values."""
        terms = [*(self.required or ()), *(term for _, term in self.preferred)]
        return 2 * len(self.selector) + sum(term.parts for term in terms)

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether the hard part accepts this machine."""
        if any(labels.get(key) != value for key, value in self.selector):
            return False
        return self.required is None or any(t.matches(name, labels) for t in self.required)


ANYWHERE = NodeAffinity()
