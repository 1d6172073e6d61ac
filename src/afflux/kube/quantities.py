"""Quantities as Kubernetes writes them: 250m, 1.5Gi, 2, 1e3.

Everything is counted in billionths, the finest step Kubernetes knows, in integers: sums of
containers are exact and rounding happens once, upwards, at the end. What is finer than a billionth
is rounded up to one.
"""

import re
from functools import lru_cache

from afflux.model.errors import InputError
from afflux.model.resources import CPU, LARGEST_AMOUNT

Written = str | int | float
"""A quantity in a manifest: mostly text, a plain number where somebody left out the quotes."""

NANO_PER_MILLI = 10**6
NANO_PER_ONE = 10**9

_PATTERN = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]+))?"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

# Nobody writes longer ones, and arithmetic on them must not become an attack.
_LONGEST_TEXT = 128
_EXPECTED = "expected a quantity such as 500m, 2 or 1.5Gi"
_TOO_LARGE = f"expected a quantity of at most {LARGEST_AMOUNT}"


def cpu_milli(written: Written) -> int:
    """CPU in thousandths of a core, rounded up."""
    return to_amount(CPU, nano(written))


def whole(written: Written) -> int:
    """Bytes, pods, devices: whole units, rounded up."""
    return to_amount("", nano(written))


def to_amount(resource: str, nanos: int) -> int:
    """Billionths of this resource in the units the model uses, rounded up."""
    unit = NANO_PER_MILLI if resource == CPU else NANO_PER_ONE
    amount = -(-nanos // unit)
    if amount > LARGEST_AMOUNT:
        raise InputError(f"{amount}, {_TOO_LARGE}")
    return amount


@lru_cache(maxsize=65536)
def nano(written: Written) -> int:
    """The quantity in billionths, rounded up; an InputError if it is none, negative or absurd."""
    nanos = _nano(written)
    if nanos > LARGEST_AMOUNT * NANO_PER_ONE:
        raise InputError(f"{written!r}, {_TOO_LARGE}")
    return nanos


def storage_bytes(written: Written) -> int:
    """The size of a volume in bytes, rounded up; some storage says it has no end, which is fine."""
    return min(-(-_nano(written) // NANO_PER_ONE), LARGEST_AMOUNT)


def _nano(written: Written) -> int:
    text = written if isinstance(written, str) else repr(written)
    if len(text) > _LONGEST_TEXT:
        raise InputError(f"{text[:20]!r}... ({len(text)} characters), {_EXPECTED}")
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise InputError(f"{written!r}, {_EXPECTED}")
    fraction = match["fraction"] or ""
    digits = match["whole"] + fraction
    if not digits:
        raise InputError(f"{written!r}, {_EXPECTED}")
    mantissa = int(digits)
    if mantissa == 0:
        return 0
    if match["sign"] == "-":
        raise InputError(f"{written!r}, expected a quantity that is not negative")
    mantissa <<= _BINARY.get(match["suffix"], 0)
    exponent = int(match["exponent"] or _DECIMAL.get(match["suffix"], 0)) - len(fraction) + 9
    # Beyond this the mantissa (at most 128 digits) cannot bring it back into range.
    exponent = max(-1000, min(exponent, 1000))
    return mantissa * 10**exponent if exponent >= 0 else -(-mantissa // 10**-exponent)
