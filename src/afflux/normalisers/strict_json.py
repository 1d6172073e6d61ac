"""Reads JSON of strangers strictly: UTF-8, bounded, no NaN, no infinity, no field twice."""

import json
from collections.abc import Collection
from typing import cast

from afflux.normalisers.errors import NormaliserRefusedError

_MAX_SHOWN = 80


def parse_json(content: bytes, max_bytes: int) -> object:
    """The decoded value; refused if it is too long or no strict JSON."""
    if len(content) > max_bytes:
        raise NormaliserRefusedError(f"{len(content)} bytes, expected at most {max_bytes}")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise NormaliserRefusedError(f"byte {error.start} is not UTF-8, expected JSON") from None
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except NormaliserRefusedError:
        raise
    except json.JSONDecodeError as error:
        why = f"{error.msg} at line {error.lineno}, column {error.colno}"
    except RecursionError:
        why = "nested too deeply"
    except ValueError:  # an integer of thousands of digits
        why = "a number is too long"
    raise NormaliserRefusedError(f"{why}, expected JSON")


def fields(
    value: object, required: Collection[str], optional: Collection[str] = ()
) -> dict[str, object]:
    """The fields of an object that has all required and no unknown ones."""
    found = as_object(value, "expected an object")
    for name in found:
        if name not in required and name not in optional:
            known = ", ".join((*required, *optional))
            raise NormaliserRefusedError(f"{shown(name)}: unknown field, expected one of {known}")
    for name in required:
        if name not in found:
            raise NormaliserRefusedError(f"{name}: missing, expected a value")
    return found


def as_object(value: object, expected: str) -> dict[str, object]:
    """The value if it is an object with fields."""
    if not isinstance(value, dict) or not value:
        raise NormaliserRefusedError(f"{shown(cast('object', value))}, {expected}")
    return cast("dict[str, object]", value)


def printable_text(value: object, name: str, max_length: int) -> str:
    """A text of printable characters that is not empty."""
    if not isinstance(value, str) or not value.isprintable() or not 0 < len(value) <= max_length:
        expected = f"expected a text of 1 to {max_length} printable characters"
        raise NormaliserRefusedError(f"{name}: {shown(value)}, {expected}")
    return value


def shown(value: object) -> str:
    """A value for a message: on one line, shortened."""
    try:
        text = json.dumps(value, default=repr)
    except RecursionError:
        text = "..."
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise NormaliserRefusedError(f"{shown(twice)}: given twice, expected once")
    return found


def _constant(name: str) -> object:
    raise NormaliserRefusedError(f"{name}, expected a finite number")
