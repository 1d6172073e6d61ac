"""What holds in a named queue: who may join it, and how those in it are started."""

from dataclasses import dataclass

from afflux.model.group import DEFAULT_QUEUE

# Larger groups are refused unless their queue says otherwise.
LARGEST_GROUP = 10_000


@dataclass(frozen=True, slots=True)
class QueueRules:
    """`depth` is how many groups are looked at in a cycle, `reservations` how many of those who do
    not fit are promised a start (for strategies that ask); None is no limit.

    Groups that do not say how long they run are expected to run `default_run_seconds`. What is
    larger than `largest_group` or longer than `longest_run_seconds` is refused, and so is whoever
    comes when `most_groups` wait. With `holds_for_endless` machines are kept free for a head that
    waits for work without end; otherwise such a head blocks nobody.
    """

    name: str = DEFAULT_QUEUE
    strategy: str = "flow"
    depth: int | None = None
    reservations: int | None = None
    default_run_seconds: float | None = None
    longest_run_seconds: float | None = None
    largest_group: int = LARGEST_GROUP
    most_groups: int | None = None
    holds_for_endless: bool = False
