"""Error messages for unknown fields, with a suggestion."""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import get_args, get_origin, get_type_hints

import msgspec

from afflux.config.schema import ConfigurationFile, Fields
from afflux.kube.input_errors import shown

_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(?P<field>.*)`", re.DOTALL)
_STEP = re.compile(r"\.(?P<field>[^.\[]+)|\[[0-9]+\]")


def field_types(fields: type[Fields]) -> Iterator[tuple[str, type]]:
    """The fields of a mapping with their names in the file, each with the type of its value."""
    hints = get_type_hints(fields)
    for inside, outside in zip(
        fields.__struct_fields__, fields.__struct_encode_fields__, strict=True
    ):
        yield outside, hints[inside]


def mapping_in(annotation: object) -> type[Fields] | None:
    """The mapping type of a field, or of the entries of its list; None for other types."""
    if isinstance(annotation, type) and get_origin(annotation) is None:
        return annotation if issubclass(annotation, Fields) else None
    return next(filter(None, map(mapping_in, get_args(annotation))), None)


def unknown_field(error: msgspec.ValidationError) -> str | None:
    """The message about an unknown field; None if the error is about something else."""
    message, _, path = str(error).partition(" - at `$")
    unknown = _UNKNOWN_FIELD.fullmatch(message)
    if unknown is None:
        return None
    place = path.removesuffix("`").removeprefix(".")
    name = unknown["field"]
    known = dict(field_types(_mapping_at(path)))
    spelled = name if name.isprintable() and len(name) <= 80 else shown(name)
    return (
        f"{place}{'.' if place else ''}{spelled}: unknown field;"
        f" expected one of {', '.join(known)}{_suggestion(name, list(known))}"
    )


def _suggestion(name: str, known: list[str]) -> str:
    for field, annotation in field_types(ConfigurationFile):
        inner = mapping_in(annotation)
        if inner is not None and name in inner.__struct_encode_fields__:
            return f"; it belongs under {field}"
    similar = get_close_matches(name, known, n=1)
    return f"; did you mean {similar[0]}?" if similar else ""


def _mapping_at(path: str) -> type[Fields]:
    """The mapping at a path of the decoder, such as `.profiles[0].policies[1]`."""
    found: type[Fields] = ConfigurationFile
    for step in _STEP.finditer(path.removesuffix("`")):
        if step["field"] is not None:
            found = mapping_in(dict(field_types(found))[step["field"]]) or found
    return found
