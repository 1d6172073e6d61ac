"""The SQL files: statements by name, migrations in order.

Statements are constant text; values are always passed as parameters.
"""

import re
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"-- (?P<name>[a-z_]+) --\n-- (?P<about>.+)\n(?P<text>[^;]+);\n*", re.MULTILINE)


@cache
def statements() -> dict[str, bytes]:
    """All of sql/queries.sql."""
    text = (files("afflux.ledger") / "sql" / "queries.sql").read_text("utf-8")
    return parse(text)


def statement(name: str) -> bytes:
    return statements()[name]


def parse(text: str) -> dict[str, bytes]:
    """The statements of a file, by name. It holds nothing else but a comment at the beginning."""
    found: dict[str, bytes] = {}
    position = text.index("\n\n") + 2
    while position < len(text):
        match = _NAME.match(text, position)
        if match is None:
            line = text.count("\n", 0, position) + 1
            raise ValueError(
                f"line {line}: expected '-- name --', a line of description and one statement"
            )
        if match["name"] in found:
            raise ValueError(f"statement {match['name']} is defined twice")
        found[match["name"]] = match["text"].encode()
        position = match.end()
    return found


@cache
def migrations() -> dict[str, bytes]:
    """The migrations of the schema by name, the oldest first: the names begin with a date."""
    folder = files("afflux.ledger") / "sql" / "migrations"
    scripts = [script for script in folder.iterdir() if script.name.endswith(".sql")]
    return {
        script.name.removesuffix(".sql"): script.read_bytes()
        for script in sorted(scripts, key=lambda script: script.name)
    }
