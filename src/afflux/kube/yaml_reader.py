"""YAML text to plain values, event by event, with bounds on what a file may do to us.

The parser's events are turned into dicts, lists and scalars on a stack of our own. So nesting
cannot exhaust the interpreter's, and what aliases would unfold to is known before anything is
unfolded. Scalars mean what they mean to kubectl: numbers and booleans are not strings, but a
timestamp is one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

import yaml

from afflux.model.errors import InputError

Value = dict[str, "Value"] | list["Value"] | str | int | float | bool | None

DEEPEST_NESTING = 200
MOST_ALIASED_NODES = 5_000_000

# A long string behind an alias is repeated too: it counts as one node for so many characters.
_CHARACTERS_PER_NODE = 64

_CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
}
_LONGEST_NUMBER = 100
_NUMERIC_START = frozenset("0123456789+-.")
_INTEGERS = (
    (re.compile(r"[-+]?(?:0|[1-9][0-9]*)"), 10),
    (re.compile(r"[-+]?0x[0-9a-fA-F]+"), 16),
    (re.compile(r"[-+]?0b[01]+"), 2),
    (re.compile(r"[-+]?0o?[0-7]+"), 8),
)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_STRING_TAGS = frozenset({"tag:yaml.org,2002:str", "!"})
_PLAIN_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "timestamp")
)
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
    """The documents of this text in order; an empty document is None.

    An InputError names line and column, not the file.
    """
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
        elif tag is None or tag in _PLAIN_TAGS:
            value = _resolved(text)
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
        if len(self._stack) >= DEEPEST_NESTING:
            raise _error(mark, f"nested more than {DEEPEST_NESTING} levels deep")
        if self._expects_key():
            raise _error(mark, "a key that is a mapping or a list, expected a string")
        anchor = event.anchor
        if anchor is not None:
            self._anchors[anchor] = None
        value: dict[str, Value] | list[Value] = (
            {} if isinstance(event, yaml.MappingStartEvent) else []
        )
        self._stack.append(_Open(value, anchor, mark))

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
        if self._aliased_nodes > MOST_ALIASED_NODES:
            raise _error(mark, f"aliases unfold to more than {MOST_ALIASED_NODES} values")
        self._add(value, size, mark)

    def _expects_key(self) -> bool:
        if not self._stack:
            return False
        return isinstance(self._stack[-1].value, dict) and not self._stack[-1].key_pending

    def _add(self, value: Value, size: int, mark: yaml.Mark) -> None:
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
    if text[0] not in _NUMERIC_START or len(text) > _LONGEST_NUMBER:
        return text
    digits = text.replace("_", "")
    for pattern, base in _INTEGERS:
        if pattern.fullmatch(digits):
            return int(digits.lower().replace("0o", "0"), base)
    if _FLOAT.fullmatch(digits):
        number = float(digits)
        return number if abs(number) != float("inf") else text
    return text


def _key(value: Value, mark: yaml.Mark) -> str:
    """A key as kubectl makes it a JSON key: numbers and booleans by their text."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case None:
            raise _error(mark, "a key that is null, expected a string")
        case _:
            raise _error(mark, "a key that is a mapping or a list, expected a string")


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
