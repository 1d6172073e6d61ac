"""The slots of a machine: limits on the number of tasks, of the machine and of its parts.

Parts nest, so that filling them one task at a time, wherever there is still room, reaches as many
tasks as any other way.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a machine: the index of the part around it (-1 for the machine itself), and how
    many tasks may be in it, None if that is not stated. Units run tasks."""

    uuid: str
    parent: int
    limit: int | None = None
    is_unit: bool = False


class SlotTree:
    """The parts of one machine, the machine first and each after the part around it; and how many
    tasks are in each."""

    def __init__(self, parts: tuple[Part, ...]) -> None:
        self.parts = parts
        self._index_of = {part.uuid: index for index, part in enumerate(parts)}
        self._counts = [0] * len(parts)
        # Without units, tasks run on the machine as a whole.
        self._units = [index for index, part in enumerate(parts) if part.is_unit] or [0]

    def slots(self) -> int:
        """How many tasks the machine takes. A machine without any limit has no slots."""
        # Of each part, what the parts in it allow together, None if one of them has no limit.
        inside: dict[int, int | None] = {}
        total: int | None = None
        for index in reversed(range(len(self.parts))):
            part = self.parts[index]
            total = _smaller(part.limit, inside.get(index))
            if part.parent in inside:
                joined = inside[part.parent]
                inside[part.parent] = None if joined is None or total is None else joined + total
            else:
                inside[part.parent] = total
        return total or 0

    def free_unit(self) -> str | None:
        """The unit with the fewest tasks among those with a free slot, the machine if it has no
        units; None if every slot is taken."""
        free = [(self._counts[index], index) for index in self._units if self._has_room(index)]
        return self.parts[min(free)[1]].uuid if free else None

    def take(self, uuid: str) -> None:
        """A task is on this unit; on one that the machine does not have: in the machine."""
        self._add(uuid, 1)

    def give_back(self, uuid: str) -> None:
        self._add(uuid, -1)

    def take_all(self, uuids: Iterable[str]) -> None:
        for uuid in uuids:
            self.take(uuid)

    def _add(self, uuid: str, amount: int) -> None:
        index = self._index_of.get(uuid, 0)
        while index >= 0:
            self._counts[index] += amount
            index = self.parts[index].parent

    def _has_room(self, index: int) -> bool:
        while index >= 0:
            limit = self.parts[index].limit
            if limit is not None and self._counts[index] >= limit:
                return False
            index = self.parts[index].parent
        return True


def _smaller(first: int | None, second: int | None) -> int | None:
    known = [each for each in (first, second) if each is not None]
    return min(known, default=None)
