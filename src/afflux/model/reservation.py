"""A promise: a waiting group will start then, and there is a place for every member."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Promise:
    """`start_seconds` is when the group starts at the latest, None if nobody can know: it waits for
    work without end. `machines` is the witness: for every member, by task id, a machine that is
    free for it from then on; other machines at the same time do as well.
    """

    group: str
    start_seconds: float | None
    machines: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Standing:
    """What was promised before, by group, and whether all has gone `as_expected` since.

    It has if work ended when it was to end, and if nobody came who goes before one who was promised
    a start: then every promise can be kept, and none moves to an earlier start. With `has_news`
    something has happened since the last decision that may help somebody who waits.
    """

    promises: Mapping[str, Promise] = field(default_factory=dict[str, Promise])
    as_expected: bool = False
    has_news: bool = True


NOTHING_PROMISED = Standing()
