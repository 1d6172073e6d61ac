"""Strategies, each a function from the queue to those who may start now.

`flow` admits everybody and lets cost decide. `fcfs` is strict: it admits groups in queue order
while they fit, and nobody behind the first one that does not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from afflux.cluster.state import State
from afflux.model.errors import InputError
from afflux.model.group import Group
from afflux.model.placement import Placement
from afflux.model.task import Shape
from afflux.network.pricing import Pricing
from afflux.plan.book import Book, settle
from afflux.plan.demand import count_classes
from afflux.plan.gangs import place_gang


@dataclass(frozen=True, slots=True)
class Admission:
    """Who may start now. A `witness` is a placement of them all that the strategy knows to fit;
    it is used if the optimiser does not find room for every one of them."""

    groups: Sequence[Group]
    witness: tuple[Placement, ...] | None = None


Strategy = Callable[[State, Pricing, Sequence[Group]], Admission]


def flow(state: State, pricing: Pricing, queue: Sequence[Group]) -> Admission:
    """Everybody."""
    del state, pricing
    return Admission(queue)


def fcfs(state: State, pricing: Pricing, queue: Sequence[Group]) -> Admission:
    """The longest run of groups from the head of the queue that fit, one after the other."""
    # Most often only a few can start: look at a few, and at twice as many while all of them fit.
    window = 8
    while True:
        admission = _run_from_head(state, pricing, queue[:window])
        if len(admission.groups) < window:
            return admission
        window *= 2


def _run_from_head(state: State, pricing: Pricing, queue: Sequence[Group]) -> Admission:
    hopeful = list(
        takewhile(
            lambda group: all(pricing.prices(shape).room.any() for shape, _ in group.shapes), queue
        )
    )
    if not hopeful:
        return Admission((), ())
    numbers: dict[Shape, int] = {}
    needs = [count_classes(group, numbers) for group in hopeful]
    book = Book(state, list(numbers), [pricing.prices(shape) for shape in numbers])
    count = sum(1 for _ in takewhile(lambda need: place_gang(book, need), needs))
    admitted = hopeful[:count]
    return Admission(admitted, settle(book, state, admitted))


STRATEGIES: dict[str, Strategy] = {"flow": flow, "fcfs": fcfs}


def find_strategy(name: str, where: str) -> Strategy:
    """The strategy of this name; `where` names the place that asks for it."""
    if name not in STRATEGIES:
        known = ", ".join(STRATEGIES)
        raise InputError(f"{where}: unknown strategy {name!r}; expected one of {known}")
    return STRATEGIES[name]
