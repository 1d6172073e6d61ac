"""What every normaliser can do, and how one is made from its content."""

from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from afflux.model.disks import Bandwidth, VolumeIO
from afflux.model.resources import MAX_AMOUNT

# No disk has as much; sums of it stay within 64 bits.
MAX_BANDWIDTH = MAX_AMOUNT

Kind = Literal["coefficients", "wasm"]
WASM_MAGIC = b"\0asm"


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a request takes of a disk, and the fuel that a module used to compute it."""

    taken: Bandwidth
    fuel: int = 0


class Normaliser(Protocol):
    """Converts requests for one model of a disk. It keeps no state between calls."""

    kind: ClassVar[Kind]

    @property
    def name(self) -> str:
        """How the vendor calls it, for people."""
        ...

    def estimate(self, volume: VolumeIO) -> Estimate:
        """What this takes; raises NormaliserRefusedError if it cannot be known."""
        ...


def load_normaliser(content: bytes) -> Normaliser:
    """The normaliser of this content, a WebAssembly module or a table of coefficients in JSON.

    Raises NormaliserRefusedError. A module is compiled and called here, which takes a few
    milliseconds, or seconds if its author means harm: in a live process call this in a thread.
    """
    if content.startswith(WASM_MAGIC):
        from afflux.normalisers.sandbox import load_module

        return load_module(content)
    from afflux.normalisers.coefficient_table import parse_table

    return parse_table(content)
