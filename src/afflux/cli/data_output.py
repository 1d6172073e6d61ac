"""Answers for programs: JSON on one line, or YAML in block style with the same data.

Both are ASCII without control characters: valid in every encoding, safe on every terminal.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from textwrap import indent
from typing import TypeVar, cast

import yaml

from afflux.cli.output_option import DataForm

# Texts that other readers of YAML take for a number or a boolean; PyYAML would not quote them.
_AMBIGUOUS = re.compile(r"[-+.]*[0-9][0-9a-fox_.:+-]*|y|n", re.IGNORECASE)
# PyYAML needs many times the memory of the text: long lists are encoded in parts.
_MAX_ITEMS = 1_000
_MAX_WIDTH = 2**31 - 1
_TEXT = "tag:yaml.org,2002:str"

Named = Iterator[tuple[str, str]]
V = TypeVar("V")


def print_data(answer: object, form: DataForm) -> None:
    """Prints the answer."""
    for text in [f"{_json(answer)}\n"] if form == "json" else _yaml_parts(answer):
        print(text, end="")


def print_data_sharing(
    answer: Mapping[str, object],
    form: DataForm,
    key: str,
    values: Mapping[str, V],
    to_data: Callable[[V], Mapping[str, object]],
) -> None:
    """Prints the answer with one more field: `values` by name, as `to_data` shows them.

    Names that share one value can be many: each value is encoded once, and the whole text is never
    held in memory.
    """
    encode, joined = (_json, _join_json) if form == "json" else (_yaml_block, _join_yaml)
    encoded: dict[int, str] = {}

    def named() -> Named:
        for name, value in values.items():
            if id(value) not in encoded:
                encoded[id(value)] = encode(to_data(value))
            yield name, encoded[id(value)]

    for text in joined(answer, key, named()):
        print(text, end="")


# --- JSON


def _json(value: object) -> str:
    return json.dumps(value, allow_nan=False)


def _join_json(answer: Mapping[str, object], key: str, named: Named) -> Iterator[str]:
    yield f"{_json(answer).removesuffix('}')}, {_json(key)}: {{"
    for number, (name, text) in enumerate(named):
        yield f"{', ' if number else ''}{_json(name)}: {text}"
    yield "}}\n"


# --- YAML


def to_yaml(value: object) -> str:
    """YAML in block style, every scalar on one line."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=_MAX_WIDTH)


class _Dumper(yaml.CSafeDumper):
    """Repeats shared values, and quotes texts that some reader would not take for texts."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    quoted = not text.isprintable() or _AMBIGUOUS.fullmatch(text)
    # YAML cannot hold halves of surrogate pairs.
    text = text.encode(errors="backslashreplace").decode()
    style = '"' if quoted else None
    return dumper.represent_scalar(_TEXT, text, style)  # pyright: ignore[reportUnknownMemberType]


_Dumper.add_representer(str, _text)


def _yaml_parts(answer: object) -> Iterator[str]:
    """The text of `to_yaml` in parts: an object by its fields, lists by so many items."""
    if fields := _fields(answer):
        for key, value in fields.items():
            if _items(value):
                yield _named(key) + "\n"
                yield from _yaml_parts(value)
            else:
                yield to_yaml({key: value})
    elif items := _items(answer):
        for first in range(0, len(items), _MAX_ITEMS):
            yield to_yaml(items[first : first + _MAX_ITEMS])
    else:
        yield to_yaml(answer)


def _fields(value: object) -> dict[str, object]:
    """The fields of an object; none of anything else."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _items(value: object) -> list[object]:
    """The items of a list; none of anything else."""
    return cast("list[object]", value) if isinstance(value, list) else []


def _named(key: str) -> str:
    """The name of a field whose value follows."""
    return to_yaml({key: None}).removesuffix(" null\n")


def _yaml_block(value: Mapping[str, object]) -> str:
    """The value of a field of a field."""
    return "\n" + indent(to_yaml(value), "    ") if value else " {}\n"


def _join_yaml(answer: Mapping[str, object], key: str, named: Named) -> Iterator[str]:
    yield from _yaml_parts(answer)
    yield _named(key)
    empty = True
    for name, text in named:
        yield ("\n" if empty else "") + indent(_named(name), "  ") + text
        empty = False
    if empty:
        yield " {}\n"
