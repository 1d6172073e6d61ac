"""Durations as Kubernetes writes them: Go's, such as 15s, 1m30s or 500ms."""

import re
from decimal import Decimal

_NANOSECONDS = {
    "h": 3_600_000_000_000,
    "m": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "us": 1_000,
    "µs": 1_000,  # the micro sign
    "μs": 1_000,  # the Greek letter; Go takes both
    "ns": 1,
}
_PART = re.compile(r"([0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})(h|ms|m|s|us|µs|μs|ns)")

# What 64 bits of nanoseconds hold, as in Go.
_LONGEST = (1 << 63) - 1


class Duration(int):
    """A span of time that is not negative, in nanoseconds."""

    __slots__ = ()

    @property
    def seconds(self) -> float:
        """As the clocks here count."""
        return self / _NANOSECONDS["s"]

    def __str__(self) -> str:
        """The shortest way to write it: 10m, 1m30s, 1.5s, 500ms."""
        if self == 0:
            return "0s"
        if self < _NANOSECONDS["s"]:
            unit = next(unit for unit in ("ms", "us", "ns") if self >= _NANOSECONDS[unit])
            return f"{_number(self, unit)}{unit}"
        hours, rest = divmod(self, _NANOSECONDS["h"])
        minutes, rest = divmod(rest, _NANOSECONDS["m"])
        return "".join(
            (
                f"{hours}h" if hours else "",
                f"{minutes}m" if minutes else "",
                f"{_number(rest, 's')}s" if rest else "",
            )
        )

    def __repr__(self) -> str:
        return f"Duration({self})"


def parse_duration(text: str) -> Duration:
    """The duration that a text stands for; a ValueError if it stands for none."""
    if text == "0":
        return Duration(0)
    nanoseconds = Decimal(0)
    place = 0
    while place < len(text) and (part := _PART.match(text, place)):
        nanoseconds += Decimal(part[1]) * _NANOSECONDS[part[2]]
        place = part.end()
    if not text or place < len(text) or nanoseconds > _LONGEST:
        raise ValueError(f"{text!r:.80}, expected a duration such as 15s, 1m30s or 500ms")
    return Duration(int(nanoseconds))


def seconds(count: float) -> Duration:
    """A duration of so many seconds."""
    return Duration(round(count * _NANOSECONDS["s"]))


def _number(nanoseconds: int, unit: str) -> str:
    return f"{Decimal(nanoseconds) / _NANOSECONDS[unit]:f}"
