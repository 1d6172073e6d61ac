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
    """The longest run of groups from the head of the queue that fit together."""
    hopeful = list(
        takewhile(lambda group: all(pricing.prices(t.shape).room.any() for t in group.tasks), queue)
    )
    if not hopeful:
        return Admission((), ())
    shapes = list({task.shape: None for group in hopeful for task in group.tasks})
    numbers = {shape: number for number, shape in enumerate(shapes)}
    book = Book(state, shapes, [pricing.prices(shape) for shape in shapes])
    admitted = list(
        takewhile(lambda group: place_gang(book, count_classes(group, numbers)), hopeful)
    )
    return Admission(admitted, settle(book, state, admitted))


STRATEGIES: dict[str, Strategy] = {"flow": flow, "fcfs": fcfs}


def find_strategy(name: str, where: str) -> Strategy:
    """The strategy of this name; `where` names the place that asks for it."""
    if name not in STRATEGIES:
        known = ", ".join(STRATEGIES)
        raise InputError(f"{where}: unknown strategy {name!r}; expected one of {known}")
    return STRATEGIES[name]
