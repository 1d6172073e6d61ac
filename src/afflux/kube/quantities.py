"""Quantities of Kubernetes: 250m, 1.5Gi, 2, 1e3.

They are integers in billionths, the finest unit of Kubernetes, rounded up to it. So sums over
containers are exact, and the result is rounded up once.
"""

import re
from functools import lru_cache

from afflux.model.errors import InputError
from afflux.model.resources import CPU, MAX_AMOUNT

QuantityValue = str | int | float
"""A quantity in a manifest: text, or a number if it is written without quotes."""

NANO_PER_MILLI = 10**6
NANO_PER_ONE = 10**9

_PATTERN = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]+))?"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

# Bounds the cost of arithmetic.
_MAX_TEXT_LENGTH = 128
_EXPECTED = "expected a quantity such as 500m, 2 or 1.5Gi"
_TOO_LARGE = f"expected a quantity of at most {MAX_AMOUNT}"


def to_amount(resource: str, nanos: int) -> int:
    """Billionths to the model's unit of this resource, rounded up."""
    unit = NANO_PER_MILLI if resource == CPU else NANO_PER_ONE
    amount = -(-nanos // unit)
    if amount > MAX_AMOUNT:
        raise InputError(f"{amount}, {_TOO_LARGE}")
    return amount


@lru_cache(maxsize=65536)
def nano(written: QuantityValue) -> int:
    """The quantity in billionths; an InputError if it is invalid, negative or too large."""
    nanos = _nano(written)
    if nanos > MAX_AMOUNT * NANO_PER_ONE:
        raise InputError(f"{written!r}, {_TOO_LARGE}")
    return nanos


def storage_bytes(written: QuantityValue) -> int:
    """The size of a volume in bytes, rounded up. Sizes that are too large are cut: some storage
    reports unlimited capacity.
    """
    return min(-(-_nano(written) // NANO_PER_ONE), MAX_AMOUNT)


def _nano(written: QuantityValue) -> int:
    text = written if isinstance(written, str) else repr(written)
    if len(text) > _MAX_TEXT_LENGTH:
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
    # With a mantissa of at most 128 digits, larger exponents make no difference.
    exponent = max(-1000, min(exponent, 1000))
    return mantissa * 10**exponent if exponent >= 0 else -(-mantissa // 10**-exponent)
