"""How often the account refused what the flow proposed, per kind of constraint.

The encodings of the network make refusals rare; these counts say how rare, and which encoding to
improve.
"""

from collections import Counter
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from afflux.model import reason
from afflux.plan.book import Book
from afflux.plan.domain_rules import Rule

Column = NDArray[np.int64]

RefusalKind = Literal[
    "resources", "devices", "disks", "affinity", "anti-affinity", "existing-anti-affinity", "spread"
]
REFUSAL_KINDS: tuple[RefusalKind, ...] = get_args(RefusalKind)
# By kind of constraint.
RefusedProposals = Counter[str]

# The parts of the account that are no rules of a class, by their number; the last two are rules of
# units that are placed already.
_FIXED_PARTS: dict[int, RefusalKind] = {
    -2: "resources",
    -1: "devices",
    -6: "disks",
    -4: "spread",
    -5: "affinity",
}
_NO_PART = -3


def count_refused(book: Book, numbers: Column, rows: Column, units: Column) -> RefusedProposals:
    """So many units of these classes were proposed for these machines, and have no room there now:
    how many each kind of constraint refuses, the first one that does."""
    found: RefusedProposals = Counter()
    left_over = np.flatnonzero(units > 0)
    if not len(left_over):
        return found
    numbers, rows = numbers[left_over], rows[left_over]
    parts = book.packing.refusing_parts(numbers, rows)
    for number, part, count in zip(
        numbers.tolist(), parts.tolist(), units[left_over].tolist(), strict=True
    ):
        if part != _NO_PART:
            found[_kind_of(book, number, part)] += count
    return found


def _kind_of(book: Book, number: int, part: int) -> RefusalKind:
    if part in _FIXED_PARTS:
        return _FIXED_PARTS[part]
    return _kind_of_rule(book.rules.classes[number].rules[part])


def _kind_of_rule(rule: Rule) -> RefusalKind:
    """The kind of constraint that a rule states."""
    match rule.kind:
        case "near":
            return "affinity"
        case "spread":
            return "spread"
        case "apart":
            is_own = rule.reason == reason.POD_ANTI_AFFINITY
            return "anti-affinity" if is_own else "existing-anti-affinity"
