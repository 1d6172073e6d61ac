"""A class of tasks: those of one shape that the same selectors select are interchangeable."""

from typing import NamedTuple

from afflux.model.relations import CarriedTerm
from afflux.model.task import Shape

# What is counted in domains: the tasks that the selector with this id selects, or those that carry
# this term.
Counted = int | CarriedTerm


class TaskClass(NamedTuple):
    """A shape, and the ids of the registered selectors that select the tasks, ascending.

    What the tasks are selected by matters to the constraints of other tasks. It changes when a
    selector is registered, never when a task starts somewhere.
    """

    shape: Shape
    selected_by: tuple[int, ...] = ()

    @property
    def counted_as(self) -> tuple[Counted, ...]:
        """As what a task of the class counts where it runs."""
        return (*self.selected_by, *self.shape.relations.carried)
