"""YAML text to plain values, event by event, with bounds on nesting and on aliases.

The parser's events are turned into dicts, lists and scalars on an explicit stack. Deep nesting
therefore cannot exhaust the interpreter's stack, and the size of what aliases stand for is known
before it is copied.

Scalars mean what they mean to kubectl, which turns YAML into JSON with sigs.k8s.io/yaml (go-yaml
v2, YAML 1.1): `yes` and `y` are booleans, `0o7` and `1_000` are numbers, a timestamp is a string.
The table in tests/kube/kubectl_scalars.tsv was written by that Go package.
"""

import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import cast

import yaml

from afflux.model.errors import InputError

Value = dict[str, "Value"] | list["Value"] | str | int | float | bool | None

MAX_NESTING = 200
MAX_ALIASED_NODES = 5_000_000

# A long string behind an alias is repeated too: it counts as one node for so many characters.
_CHARACTERS_PER_NODE = 64

_CONSTANTS: dict[str, bool | float | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF"), False),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_NUMERIC_START = frozenset("0123456789+-.")
_INTEGERS = (
    (re.compile(r"([-+]?)(0|[1-9][0-9]{0,19})"), 10),
    (re.compile(r"([-+]?)0[xX]([0-9a-fA-F]+)"), 16),
    (re.compile(r"([-+]?)0[bB]([01]+)"), 2),
    (re.compile(r"([-+]?)0[oO]?([0-7]+)"), 8),
    # go-yaml reads a sign after the prefix too.
    (re.compile(r"0b([-+])([01]+)"), 2),
)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
# A number that starts with the point may have underscores between digits only.
_POINT_FLOAT = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")
_TIMESTAMP = re.compile(
    r"[0-9]{4}-(?:0?[1-9]|1[0-2])-(?:0?[1-9]|[12][0-9]|3[01])"
    r"(?: [0-9:.]+|[tT][0-9:.]+(?:Z|[-+][0-9]{2}:[0-9]{2}))?"
)
_MIN_INT64, _MAX_INT64, _MAX_UINT64 = -(2**63), 2**63 - 1, 2**64 - 1
# From here on Go writes whole numbers with an exponent: in JSON, and as the key of a mapping.
_EXPONENT_IN_JSON = 1e21
_EXPONENT_IN_KEY = 6
_STRING_TAGS = frozenset({"tag:yaml.org,2002:str", "!"})
_TYPE_TAGS: dict[str, type | None] = {
    "tag:yaml.org,2002:null": type(None),
    "tag:yaml.org,2002:bool": bool,
    "tag:yaml.org,2002:int": int,
    "tag:yaml.org,2002:float": float,
    "tag:yaml.org,2002:timestamp": str,
}
_COLLECTION_TAGS = frozenset({None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})


@dataclass(slots=True)
class _Open:
    """A mapping or sequence whose end has not been seen."""

    value: dict[str, Value] | list[Value]
    anchor: str | None
    mark: yaml.Mark
    size: int = 1
    key: str | None = None
    key_pending: bool = False
    merged: list[dict[str, Value]] = field(default_factory=list[dict[str, Value]])


def documents(text: str) -> Iterator[Value]:
    """The documents of this text in order; an empty document is None. An InputError names line and
    column, not the file."""
    try:
        yield from _Assembly().documents(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = " ".join((error.problem or error.context or "cannot be read").split())
        raise _error(mark, f"not valid YAML: {problem}") from None
    except yaml.YAMLError as error:
        raise InputError("not valid YAML: " + " ".join(str(error).split())) from None


class _Assembly:
    """The state between two events."""

    def __init__(self) -> None:
        self._stack: list[_Open] = []
        # Values behind anchors with the number of nodes they unfold to; None while still open.
        self._anchors: dict[str, tuple[Value, int] | None] = {}
        self._aliased_nodes = 0
        self._root: Value = None

    def documents(self, text: str) -> Iterator[Value]:
        events = cast(
            "Iterator[yaml.Event]",
            yaml.parse(text, Loader=yaml.CSafeLoader),  # pyright: ignore[reportUnknownMemberType]
        )
        for event in events:
            match event:
                case yaml.ScalarEvent():
                    self._scalar(event)
                case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                    self._start(event)
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    self._end()
                case yaml.AliasEvent():
                    self._alias(event)
                case yaml.DocumentStartEvent():
                    self._anchors.clear()
                    self._root = None
                case yaml.DocumentEndEvent():
                    yield self._root
                case _:
                    pass

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        text = event.value
        tag, plain = event.tag, bool(event.implicit[0])
        mark = cast("yaml.Mark", event.start_mark)
        value: Value
        if tag in _STRING_TAGS or (tag is None and not plain):
            value = text
        elif text == "<<" and self._expects_key():
            # The merge key; in quotes it would be an ordinary one.
            self._stack[-1].key, self._stack[-1].key_pending = None, True
            return
        elif tag is None:
            value = _resolved(text)
        elif tag in _TYPE_TAGS:
            value = _tagged(text, tag, mark)
        else:
            raise _error(mark, f"tag {tag!r}, expected plain values only")
        size = 1 + len(text) // _CHARACTERS_PER_NODE
        anchor = event.anchor
        if anchor is not None:
            self._anchors[anchor] = (value, size)
        self._add(value, size, mark)

    def _start(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        mark = cast("yaml.Mark", event.start_mark)
        tag = event.tag
        if tag not in _COLLECTION_TAGS:
            raise _error(mark, f"tag {tag!r}, expected plain values only")
        if len(self._stack) >= MAX_NESTING:
            raise _error(mark, f"nested more than {MAX_NESTING} levels deep")
        if self._expects_key():
            raise _error(mark, "a key that is a mapping or a list, expected a string")
        anchor = event.anchor
        if anchor is not None:
            self._anchors[anchor] = None
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        self._stack.append(_Open({} if is_mapping else [], anchor, mark))

    def _end(self) -> None:
        closed = self._stack.pop()
        if isinstance(closed.value, dict):
            for merged in closed.merged:
                for key, value in merged.items():
                    closed.value.setdefault(key, value)
        if closed.anchor is not None:
            self._anchors[closed.anchor] = (closed.value, closed.size)
        self._add(closed.value, closed.size, closed.mark)

    def _alias(self, event: yaml.AliasEvent) -> None:
        mark, name = cast("yaml.Mark", event.start_mark), cast("str", event.anchor)
        if name not in self._anchors:
            raise _error(mark, f"alias '*{name}' of an anchor that is not defined above")
        anchored = self._anchors[name]
        if anchored is None:
            raise _error(mark, f"alias '*{name}' inside what it stands for")
        value, size = anchored
        self._aliased_nodes += size
        if self._aliased_nodes > MAX_ALIASED_NODES:
            raise _error(mark, f"aliases unfold to more than {MAX_ALIASED_NODES} values")
        self._add(value, size, mark)

    def _expects_key(self) -> bool:
        if not self._stack:
            return False
        return isinstance(self._stack[-1].value, dict) and not self._stack[-1].key_pending

    def _add(self, value: Value, size: int, mark: yaml.Mark) -> None:
        if type(value) is float and not self._expects_key():
            value = _json_number(value, mark)
        if not self._stack:
            self._root = value
            return
        parent = self._stack[-1]
        parent.size += size
        if isinstance(parent.value, list):
            parent.value.append(value)
        elif not parent.key_pending:
            parent.key, parent.key_pending = _key(value, mark), True
            if parent.key in parent.value:
                raise _error(mark, f"key {_shown(parent.key)} twice in one mapping")
        elif parent.key is None:
            parent.merged.extend(_mergeable(value, mark))
            parent.key_pending = False
        else:
            parent.value[parent.key] = value
            parent.key_pending = False


def _resolved(text: str) -> Value:
    """What an unquoted scalar means."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in _NUMERIC_START:
        return text
    if text[0] == ".":
        is_number, digits = _POINT_FLOAT.fullmatch(text), text
    else:
        digits = text.replace("_", "")
        if (integer := _integer(digits)) is not None:
            return integer
        is_number = _FLOAT.fullmatch(digits)
    number = float(digits) if is_number else math.inf
    return text if math.isinf(number) else number


def _integer(digits: str) -> int | None:
    """A whole number that 64 bits hold, None for anything else."""
    for pattern, base in _INTEGERS:
        if match := pattern.fullmatch(digits):
            number = int(match[1] + match[2], base)
            most = _MAX_INT64 if match[1] else _MAX_UINT64
            return number if _MIN_INT64 <= number <= most else None
    return None


def _tagged(text: str, tag: str, mark: yaml.Mark) -> Value:
    """What a scalar with one of the tags for numbers, booleans, nulls and timestamps means."""
    value = _resolved(text)
    if _TYPE_TAGS[tag] is float and type(value) is int and value <= _MAX_INT64:
        value = float(value)
    is_other_text = isinstance(value, str) and not _TIMESTAMP.fullmatch(value)
    if is_other_text or type(value) is not _TYPE_TAGS[tag]:
        name = tag.rpartition(":")[2]
        raise _error(mark, f"{_shown(text)} with the tag !!{name}, expected such a value")
    return value


def _json_number(number: float, mark: yaml.Mark) -> int | float:
    """The number as Go writes it in JSON, where 1e3 is 1000."""
    if not math.isfinite(number):
        raise _error(mark, f"{number}, which JSON does not have; expected a finite number")
    if not number.is_integer() or abs(number) >= _EXPONENT_IN_JSON:
        return number
    return int(Decimal(repr(number)))


def _key(value: Value, mark: yaml.Mark) -> str:
    """A key as kubectl makes it a JSON key: numbers and booleans by their text."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() if value <= _MAX_INT64:
            return str(value)
        case int():
            raise _error(mark, f"a key that is {value}, expected at most {_MAX_INT64}")
        case float():
            return _float_key(value)
        case None:
            raise _error(mark, "a key that is null, expected a string")
        case _:
            raise _error(mark, "a key that is a mapping or a list, expected a string")


def _float_key(number: float) -> str:
    """The shortest text that names this number among those of 32 bits: %g of Go."""
    single = _single(number)
    if math.isnan(single):
        return ".nan"
    if math.isinf(single):
        return ".inf" if single > 0 else "-.inf"
    texts = (f"{single:.{digits}e}" for digits in range(9))
    shortest = next(text for text in texts if _single(float(text)) == single)
    exponent = int(shortest.partition("e")[2])
    return shortest if not -4 <= exponent < _EXPONENT_IN_KEY else f"{Decimal(shortest):f}"


def _single(number: float) -> float:
    """The nearest number of 32 bits."""
    try:
        return struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)


def _mergeable(value: Value, mark: yaml.Mark) -> list[dict[str, Value]]:
    """The mappings that `<<` names, the earlier ones winning."""
    candidates = value if isinstance(value, list) else [value]
    mappings = [candidate for candidate in candidates if isinstance(candidate, dict)]
    if len(mappings) != len(candidates):
        raise _error(mark, "merge key '<<' with something that is not a mapping")
    return mappings


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _error(mark: yaml.Mark | None, problem: str) -> InputError:
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
    return InputError(where + problem)
