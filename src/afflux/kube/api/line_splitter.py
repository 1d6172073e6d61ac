"""A stream of chunks to lines. Lines may be megabytes long, chunks may end anywhere."""


class LineSplitter:
    """Joins chunks to lines.

    The chunks of a long line are joined once, at its end, so that the cost is linear in its length.
    """

    def __init__(self) -> None:
        self._pending: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that end in this chunk, without line ends and without blank lines."""
        first, *rest = chunk.split(b"\n")
        self._pending.append(first)
        if not rest:
            return []
        *whole, last = rest
        lines = [b"".join(self._pending), *whole]
        self._pending = [last]
        return [line for line in lines if line and not line.isspace()]
