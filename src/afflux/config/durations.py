"""Durations in Go's notation, as in Kubernetes: 15s, 1m30s or 500ms."""

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

# The maximum of a signed 64-bit number of nanoseconds, as in Go.
_MAX_NANOSECONDS = (1 << 63) - 1


class Duration(int):
    """A non-negative duration in nanoseconds."""

    __slots__ = ()

    @property
    def seconds(self) -> float:
        return self / _NANOSECONDS["s"]

    def __str__(self) -> str:
        """The shortest notation: 10m, 1m30s, 1.5s, 500ms."""
        if self == 0:
            return "0s"
        if self < _NANOSECONDS["s"]:
            unit = next(unit for unit in ("ms", "us", "ns") if self >= _NANOSECONDS[unit])
            return f"{_number(self, unit)}{unit}"
        hours, rest = divmod(self, _NANOSECONDS["h"])
        minutes, rest = divmod(rest, _NANOSECONDS["m"])
        text = f"{hours}h" if hours else ""
        text += f"{minutes}m" if minutes else ""
        return text + (f"{_number(rest, 's')}s" if rest else "")

    def __repr__(self) -> str:
        return f"Duration({self})"


def parse_duration(text: str) -> Duration:
    """Parses a duration; a ValueError if the text is not one."""
    if text == "0":
        return Duration(0)
    nanoseconds = Decimal(0)
    place = 0
    while place < len(text) and (part := _PART.match(text, place)):
        nanoseconds += Decimal(part[1]) * _NANOSECONDS[part[2]]
        place = part.end()
    if not text or place < len(text) or nanoseconds > _MAX_NANOSECONDS:
        raise ValueError(f"{text!r:.80}, expected a duration such as 15s, 1m30s or 500ms")
    return Duration(int(nanoseconds))


def seconds(count: float) -> Duration:
    """A duration of `count` seconds."""
    return Duration(round(count * _NANOSECONDS["s"]))


def _number(nanoseconds: int, unit: str) -> str:
    return f"{Decimal(nanoseconds) / _NANOSECONDS[unit]:f}"
