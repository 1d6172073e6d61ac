"""A class of tasks: those of one shape that the same selectors select are interchangeable."""

from typing import NamedTuple

from afflux.model.task import Shape


class TaskClass(NamedTuple):
    """A shape, and the ids of the registered selectors that select the tasks, ascending.

    What the tasks are selected by matters to the constraints of other tasks. It changes when a
    selector is registered, never when a task starts somewhere.
    """

    shape: Shape
    selected_by: tuple[int, ...] = ()
