"""Errors in messages of clients, and checks of single fields."""

import math

from afflux.kube.input_errors import shown
from afflux.model.resources import MAX_AMOUNT

MAX_NAME_CHARACTERS = 1024


class MessageError(ValueError):
    """A message that cannot be used: the field, its value and what was expected."""


class LimitError(ValueError):
    """A message that is refused because of a limit of the service."""


def checked_name(text: str, field: str) -> str:
    """A text that identifies something and is shown to people."""
    if not text:
        raise MessageError(f"{field}: missing, expected a name")
    if len(text) > MAX_NAME_CHARACTERS:
        raise MessageError(
            f"{field}: {len(text)} characters, expected at most {MAX_NAME_CHARACTERS}"
        )
    if not text.isprintable():
        raise MessageError(f"{field}: {shown(text)}, expected printable characters")
    return text


def checked_amount(amount: float, field: str) -> float:
    """An amount of a resource, in the unit of the message."""
    if not math.isfinite(amount) or not 0 <= amount <= MAX_AMOUNT:
        raise MessageError(f"{field}: {amount:g}, expected a number from 0 to {MAX_AMOUNT}")
    return amount
