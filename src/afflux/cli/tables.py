"""Tables for people: aligned columns, numbers to the right."""

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lines under a header, wide enough for everything; the last column is not padded."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    numeric = [all(_is_number(row[i]) for row in rows) and bool(rows) for i in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in lines
    )


def _is_number(cell: str) -> bool:
    return cell[:1].isdigit() or cell in ("", "-")
