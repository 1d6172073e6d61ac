"""Formats tables as text."""

from collections.abc import Sequence

from afflux.cli.safe_output import printable


def format_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, right_align: bool = True
) -> str:
    """Lines under a header, with columns as wide as their longest cell.

    With `right_align`, all columns but the first are right-aligned, as for numbers.
    """
    lines = [[printable(cell) for cell in line] for line in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right_align and place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
