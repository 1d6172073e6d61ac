"""Tables for people."""

from collections.abc import Sequence

from afflux.cli.terminal import plain


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = True) -> str:
    """Lines under a header, wide enough for everything.

    All columns but the first hold `numbers`, aligned to the right, or else text.
    """
    lines = [[plain(cell) for cell in line] for line in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if numbers and place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
