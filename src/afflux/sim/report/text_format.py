"""Formats numbers, durations and names for people."""

import html
import math
import re

# Characters that XML cannot hold: control characters and halves of surrogate pairs.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")

MINUTE = 60.0
HOUR = 3600.0
DAY = 86400.0


def escape(text: str, max_length: int = 120) -> str:
    """Text escaped for HTML, SVG and attributes, at most `max_length` characters of it."""
    return html.escape(_UNPRINTABLE.sub("\ufffd", shorten(text, max_length)), quote=True)


def shorten(text: str, max_length: int) -> str:
    return text if len(text) <= max_length else text[: max_length - 1] + "…"


def count(number: float) -> str:
    """A whole number with thousands separators."""
    return f"{round(number):,}"


def significant_figures(number: float, digits: int = 3) -> str:
    """A number with `digits` significant digits; digits before the point are never rounded."""
    if number == 0:
        return "0"
    magnitude = int(f"{number:.{digits - 1}e}".partition("e")[2])  # after rounding: 9.999 is 10.0
    decimals = digits - 1 - magnitude
    return f"{number:,.{max(0, min(decimals, 6))}f}"


def brief(number: float) -> str:
    """A number with three significant digits, without trailing zeros."""
    text = significant_figures(number)
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(share: float) -> str:
    """A share as per cent; a positive share is never shown as 0."""
    if 0 < share < 0.0005:
        return "< 0.1 %"
    return f"{100 * share:.1f} %"


def duration(seconds: float) -> str:
    """Two units at most: 12.3 ms, 4.25 s, 3 min 5 s, 1 h 12 min, 2 d 3 h."""
    if seconds == 0:
        return "0 s"
    if seconds < 1e-3:
        return f"{significant_figures(seconds * 1e6)} µs"
    if seconds < 0.9995:
        return f"{significant_figures(seconds * 1e3)} ms"
    if seconds < 59.95:
        return f"{significant_figures(seconds)} s"
    for unit, name, part, part_name in (
        (MINUTE, "min", 1.0, "s"),
        (HOUR, "h", MINUTE, "min"),
        (DAY, "d", HOUR, "h"),
    ):
        whole, rest = divmod(round(seconds / part) * part, unit)
        following = {MINUTE: HOUR, HOUR: DAY}.get(unit, math.inf)
        if whole * unit < following:
            tail = f" {round(rest / part)} {part_name}" if rest else ""
            return f"{count(whole)} {name}{tail}"
    raise AssertionError(seconds)


def amount(resource: str, total: float) -> str:
    """An amount of a resource, in its usual unit."""
    match resource:
        case "cpu":
            return f"{brief(total / 1000)} cores"
        case "devices":
            return f"{brief(total / 1000)} devices"
        case "memory" | "ephemeral-storage":
            power = min(5, max(0, int(math.log2(total) // 10))) if total >= 1 else 0
            unit = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")[power]
            return f"{brief(total / 1024**power)} {unit} {resource}"
        case _:
            return f"{brief(total)} {resource}"


def listing(names: list[str]) -> str:
    """a, b and c."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else ""


def plural(number: int, noun: str) -> str:
    """1 task, 2 tasks."""
    return f"{count(number)} {noun}" + ("" if number == 1 else "s")
