"""What people and programs read: plain text, complaints, JSON.

Names in the input may hold anything, escape sequences of a terminal included. Whatever is printed
goes through here, so that no input can move a cursor, forge a line or hide one.
"""

import sys


def plain(text: str) -> str:
    """The text on one line, with everything written out that would not show as itself."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def complain(message: str) -> None:
    """One line on standard error; if nobody reads that either, so be it."""
    try:
        print(plain(message), file=sys.stderr, flush=True)
    except OSError:
        return


def to_json(value: object) -> str:
    """One line in ASCII: valid in every encoding, harmless on every terminal."""
    import json

    return json.dumps(value, allow_nan=False)
