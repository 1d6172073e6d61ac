"""Resources by name: CPU in thousandths of a core, everything else in whole units.

A vector is a tuple of (name, amount) pairs, sorted by name and without zeros, so that equal
vectors are equal values and can be dictionary keys.
"""

from collections.abc import Iterable, Mapping

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

Resources = tuple[tuple[str, int], ...]

# No single amount may exceed this: a thousand of them still add up within 64 bits.
MAX_AMOUNT = 2**53


def resources(amounts: Mapping[str, int] | Iterable[tuple[str, int]]) -> Resources:
    """The vector of these amounts; zeros are left out."""
    return tuple(sorted((name, amount) for name, amount in dict(amounts).items() if amount != 0))


def amount_of(vector: Resources, name: str) -> int:
    """The amount of one resource, 0 if it is not named."""
    return next((amount for key, amount in vector if key == name), 0)
