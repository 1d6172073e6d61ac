"""Fields that nobody knows, and which one was probably meant."""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import get_args, get_origin, get_type_hints

import msgspec

from afflux.config.fields import Fields, File
from afflux.kube.complaints import shown

_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(?P<field>.*)`", re.DOTALL)
_STEP = re.compile(r"\.(?P<field>[^.\[]+)|\[[0-9]+\]")


def field_types(fields: type[Fields]) -> Iterator[tuple[str, type]]:
    """The fields of a mapping as the file spells them, each with the type of its value."""
    hints = get_type_hints(fields)
    for inside, outside in zip(
        fields.__struct_fields__, fields.__struct_encode_fields__, strict=True
    ):
        yield outside, hints[inside]


def mapping_in(annotation: object) -> type[Fields] | None:
    """The mapping that a field is, or that the entries of its list are."""
    if isinstance(annotation, type) and get_origin(annotation) is None:
        return annotation if issubclass(annotation, Fields) else None
    return next(filter(None, map(mapping_in, get_args(annotation))), None)


def unknown_field(error: msgspec.ValidationError) -> str | None:
    """What to say about a field that is not known; None if the error is about something else."""
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
        f" expected one of {', '.join(known)}{_meant(name, list(known))}"
    )


def _meant(name: str, known: list[str]) -> str:
    for field, annotation in field_types(File):
        inner = mapping_in(annotation)
        if inner is not None and name in inner.__struct_encode_fields__:
            return f"; it belongs under {field}"
    near = get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _mapping_at(path: str) -> type[Fields]:
    """The mapping at a path of the decoder, such as `.profiles[0].policies[1]`."""
    found: type[Fields] = File
    for step in _STEP.finditer(path.removesuffix("`")):
        if step["field"] is not None:
            found = mapping_in(dict(field_types(found))[step["field"]]) or found
    return found
