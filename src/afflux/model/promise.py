"""A promise: a waiting group will start then, and there is a place for every member."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Promise:
    """`start_seconds` is when the group starts at the latest, None if nobody can know: it waits for
    work without end. `machines` is the witness: for every member, by task id, a machine that is
    free for it from then on; other machines at the same time do as well.
    """

    group: str
    start_seconds: float | None
    machines: tuple[tuple[str, str], ...] = ()
