"""The rules of a named queue: which groups it takes, and how they are started."""

from collections.abc import Mapping
from dataclasses import dataclass

from afflux.model.waiting_group import DEFAULT_QUEUE

# For queues that do not say.
DEFAULT_MAX_GROUP_SIZE = 10_000
DEFAULT_QUORUM = "whole-group"


@dataclass(frozen=True, slots=True)
class QueueRules:
    """The rules of one queue; None is no limit. `strategy` and `quorum` are names of functions.

    A cycle examines `depth` groups. `max_reservations` is for strategies that ask for it. A group
    that does not say how long it runs is expected to run `default_run_seconds`. The queue refuses
    groups larger than `max_group_size` or longer than `max_run_seconds`, and new groups while
    `max_groups` wait. With `hold_for_endless` machines are kept free for a head that waits for work
    without end; otherwise such a head blocks no group.
    """

    name: str = DEFAULT_QUEUE
    strategy: str = "flow"
    depth: int | None = None
    max_reservations: int | None = None
    default_run_seconds: float | None = None
    max_run_seconds: float | None = None
    max_group_size: int = DEFAULT_MAX_GROUP_SIZE
    max_groups: int | None = None
    quorum: str = DEFAULT_QUORUM
    hold_for_endless: bool = False


ONE_QUEUE: Mapping[str, QueueRules] = {DEFAULT_QUEUE: QueueRules()}
