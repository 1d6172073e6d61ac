"""Safe output: printable text and error messages.

Names in the input may contain anything, including escape sequences of a terminal. All output is
escaped here, so that no input can move the cursor, forge a line or hide one.
"""

import sys


def printable(text: str) -> str:
    """The text on one line; characters that are not printable are escaped."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def print_error(message: str) -> None:
    """Prints one line to standard error; errors while writing it are ignored."""
    try:
        print(printable(message), file=sys.stderr, flush=True)
    except OSError:
        return
