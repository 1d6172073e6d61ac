"""The SQL files: statements by name, the schema's steps in order.

Statements are constant text; values only ever travel beside them, as parameters.
"""

import re
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"-- (?P<name>[a-z_]+) --\n-- (?P<about>.+)\n(?P<text>[^;]+);\n*", re.MULTILINE)


@cache
def statements() -> dict[str, bytes]:
    """All of sql/queries.sql."""
    text = (files("afflux.ledger") / "sql" / "queries.sql").read_text("utf-8")
    return named(text)


def statement(name: str) -> bytes:
    """The statement of this name."""
    return statements()[name]


def named(text: str) -> dict[str, bytes]:
    """The statements in a file: after its first comment, nothing else may stand in it."""
    found: dict[str, bytes] = {}
    place = text.index("\n\n") + 2
    while place < len(text):
        match = _NAME.match(text, place)
        if match is None:
            line = text.count("\n", 0, place) + 1
            raise ValueError(
                f"line {line}: expected '-- name --', a line of description and one statement"
            )
        if match["name"] in found:
            raise ValueError(f"statement {match['name']} is there twice")
        found[match["name"]] = match["text"].encode()
        place = match.end()
    return found


@cache
def migrations() -> dict[str, bytes]:
    """The steps of the schema by name, oldest first: the names begin with a date."""
    folder = files("afflux.ledger") / "sql" / "migrations"
    steps = [step for step in folder.iterdir() if step.name.endswith(".sql")]
    return {
        step.name.removesuffix(".sql"): step.read_bytes()
        for step in sorted(steps, key=lambda step: step.name)
    }
