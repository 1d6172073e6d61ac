"""Encodes PNG images with a palette, small enough to embed in the page."""

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

Colour = tuple[int, int, int]


def palette_png(pixels: NDArray[np.uint8], palette: list[Colour]) -> str:
    """A data URI of an image whose pixels are indices into the palette."""
    height, width = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    # Filter 0 (none) before each row: filters do not help with palette indices.
    rows = np.concatenate([np.zeros((height, 1), dtype=np.uint8), pixels], axis=1)
    chunks = (
        (b"IHDR", header),
        (b"PLTE", bytes(part for colour in palette for part in colour)),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    )
    data = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, body) for kind, body in chunks)
    return "data:image/png;base64," + base64.b64encode(data).decode("ascii")


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def ramp(stops: list[str], levels: int) -> list[Colour]:
    """Colours from the first stop to the last, evenly spaced."""
    known = np.array([[int(s[i : i + 2], 16) for i in (1, 3, 5)] for s in stops], dtype=np.float64)
    at = np.linspace(0, len(stops) - 1, levels)
    mixed = [np.interp(at, np.arange(len(stops)), known[:, part]) for part in range(3)]
    return [(round(r), round(g), round(b)) for r, g, b in zip(*mixed, strict=True)]
