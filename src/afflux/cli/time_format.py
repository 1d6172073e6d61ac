"""Times for people, formatted as kubectl does: ages, remaining times and exact times."""

from datetime import UTC, datetime

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY

# For times below so many seconds: unit, its letter, and a smaller unit with its letter, 0 for none.
_STEPS: tuple[tuple[int, int, str, int, str], ...] = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (48 * _HOUR, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)


def span(seconds: float) -> str:
    """A length of time in at most two units: 95s, 5m12s, 47m, 3h10m, 2d4h. Negative times, which
    come from clocks that differ, are 0s."""
    whole = max(0, int(seconds))
    for below, unit, letter, smaller, small_letter in _STEPS:
        if whole < below:
            count, rest = divmod(whole, unit)
            beside = rest // smaller if smaller else 0
            return f"{count}{letter}" + (f"{beside}{small_letter}" if beside else "")
    return f"{whole // _YEAR}y"


def ago(then: datetime | None, now: datetime) -> str:
    """The time since then; a dash for None."""
    return "-" if then is None else span((now - then).total_seconds())


def exact(then: datetime | None) -> str:
    """The time in UTC, to the second; a dash for None."""
    return "-" if then is None else then.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def expected(has_reservation: bool, start: datetime | None, now: datetime) -> str:
    """The expected start: in 5m12s, now, overdue, unknown, or a dash without reservation."""
    if not has_reservation:
        return "-"
    if start is None:
        return "unknown"
    seconds = (start - now).total_seconds()
    if seconds <= -1:
        return "overdue"
    return f"in {span(seconds)}" if seconds >= 1 else "now"
