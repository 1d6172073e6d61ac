"""A decision: everything that a scheduler answers about the groups that wait.

A decision is a value. The cycle checks its plan and carries it out; the scheduler changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from afflux.model.reservation import Reservation
from afflux.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class Decision:
    """What happens now (`plan`), and what is known about the groups that keep waiting.

    `reservations` are the starts reserved for waiting groups. `unsatisfiable` has the groups that
    can never start, with the reason; `not_examined` those that this decision had no time or memory
    for. `queue_order` names the queues in the order in which they were served. With
    `rotation_pending` another decision should follow soon: groups behind the depth of their queue
    have not been examined yet, or what was placed gives others a chance (see `Plan.helps_others`).
    """

    plan: Plan
    reservations: tuple[Reservation, ...] = ()
    unsatisfiable: Mapping[str, str] = field(default_factory=dict[str, str])
    not_examined: frozenset[str] = frozenset()
    queue_order: tuple[str, ...] = ()
    rotation_pending: bool = False


NOTHING_DECIDED = Decision(Plan())
