"""A stream of pieces as lines. Lines may be megabytes long, pieces may end anywhere."""


class Lines:
    """What was read and is not a whole line yet.

    A long line is kept as the pieces it came in and joined once, so that its cost grows with its
    length and not with the square of it.
    """

    def __init__(self) -> None:
        self._begun: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that this piece completes, without their ends; blank ones are left out."""
        first, *rest = piece.split(b"\n")
        self._begun.append(first)
        if not rest:
            return []
        *whole, last = rest
        lines = [b"".join(self._begun), *whole]
        self._begun = [last]
        return [line for line in lines if line and not line.isspace()]
