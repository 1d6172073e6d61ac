"""The cheapest pairs of each class: flat columns, searched in blocks so that memory stays small."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.int64]

# Pairs looked at in one step: a few columns of this length fit in the processor's cache.
BLOCK_PAIRS = 1 << 18


def lengths_of(first: Column) -> Column:
    """How many pairs each class has, if those of class `c` begin at `first[c]`."""
    return first[1:] - first[:-1]


def blocks(first: Column, max_classes: int) -> Iterator[tuple[int, int]]:
    """Ranges of classes with at most BLOCK_PAIRS pairs together, or with one class each."""
    begin, classes = 0, len(first) - 1
    while begin < classes:
        until = int(first[begin]) + BLOCK_PAIRS
        within = int(np.searchsorted(first, until, side="right")) - 1
        end = min(max(within, begin + 1), begin + max_classes, classes)
        yield begin, end
        begin = end


def cheapest(cost: Column, first: Column, keep: int) -> NDArray[np.intp]:
    """The positions of the `keep` cheapest of each class, sorted by class, then cost."""
    lengths = lengths_of(first)
    longest = int(lengths.max(initial=0))
    position = np.arange(len(cost))
    if longest > keep and len(lengths) * longest <= 4 * len(cost):
        # A rectangle with a row per class; partitioning its rows is faster than sorting.
        table = np.full((len(lengths), longest), np.iinfo(np.int64).max)
        filled = np.arange(longest) < lengths[:, None]
        table[filled] = cost
        column = np.sort(np.argpartition(table, keep - 1, axis=1)[:, :keep], axis=1)
        kept = column < lengths[:, None]
        position = (first[:-1, None] + column)[kept]
    number = np.searchsorted(first, position, side="right")
    position = position[np.lexsort((cost[position], number))]
    return position[rank(np.sort(number)) < keep]


def cheapest_of_domains(
    cost: Column, domain: Column, machine: NDArray[np.int32] | NDArray[np.intp], keep: int
) -> NDArray[np.bool_]:
    """All pairs with the `keep` cheapest machines of each domain; machines are ascending, and of
    those with one machine the cheapest comes first."""
    begins = np.diff(machine, prepend=-1) != 0
    of_machine = np.cumsum(begins) - 1
    order = np.lexsort((cost[begins], domain[begins]))
    is_kept = np.zeros(len(order), np.bool_)
    is_kept[order] = rank(domain[begins][order].astype(np.intp) + 1) < keep
    return is_kept[of_machine]


def rank(number: NDArray[np.intp]) -> NDArray[np.intp]:
    """The position of each entry among the entries of its class, in a column sorted by class."""
    is_first = np.ones(len(number), np.bool_)
    is_first[1:] = number[1:] != number[:-1]
    begins = np.flatnonzero(is_first)
    return np.arange(len(number)) - begins[np.cumsum(is_first) - 1]


def sums_before(amount: Column, place: NDArray[np.intp]) -> Column:
    """The sum of the amounts before each entry in its class, where `place` is its `rank`."""
    before = np.cumsum(amount) - amount
    begins = np.flatnonzero(place == 0)
    return before - np.repeat(before[begins], np.diff(begins, append=len(place)))


def ranges(begin: Column, length: Column) -> Column:
    """The numbers from each `begin` on, as many as its `length`, one range after the other."""
    before = np.cumsum(length) - length
    return np.arange(int(length.sum())) + np.repeat(begin - before, length)
