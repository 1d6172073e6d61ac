"""A volume for everybody: bidders that want several things each out of what they could have.

Everybody takes the first of their candidates that is left. Who finds none left is helped by others
who move to something else, over as many as it takes (augmenting paths): as many as possible are
served, whatever the order. Bidders who could have the same things are best made one bidder.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

B = TypeVar("B", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Shortage(Generic[B]):
    """One bidder goes without so many: all that `rivals` (itself included) could have is taken."""

    missing: int
    rivals: frozenset[B]
    taken: frozenset[str]


class Matching(Generic[B]):
    """`given` is what each bidder has; `short` who has not got all they wanted, and why."""

    def __init__(self, candidates: Mapping[B, Sequence[str]]) -> None:
        self.given: dict[B, list[str]] = {bidder: [] for bidder in candidates}
        self.short: dict[B, Shortage[B]] = {}
        self._candidates = candidates
        self._holder: dict[str, B] = {}
        # What is taken stays taken, if not by the same: the first candidates need no second look.
        self._looked_at: dict[B, int] = {}

    def serve(self, bidder: B, count: int) -> None:
        """Give a bidder so many, or as many as possible."""
        for served in range(count):
            shortage = self._take(bidder, count - served)
            if shortage is not None:
                self.short[bidder] = shortage
                return

    def _take(self, bidder: B, missing: int) -> Shortage[B] | None:
        own = self._candidates[bidder]
        first = self._looked_at.get(bidder, 0)
        while first < len(own) and own[first] in self._holder:
            first += 1
        self._looked_at[bidder] = first
        if first < len(own):
            self._holder[own[first]] = bidder
            self.given[bidder].append(own[first])
            return None
        # By whom, and for what, each bidder would be asked to move.
        asked: dict[B, tuple[B, str]] = {}
        waiting = deque([bidder])
        while waiting:
            at = waiting.popleft()
            for name in self._candidates[at]:
                holder = self._holder.get(name)
                if holder is None:
                    self._move(bidder, at, name, asked)
                    return None
                if holder != bidder and holder not in asked:
                    asked[holder] = (at, name)
                    waiting.append(holder)
        rivals = frozenset((bidder, *asked))
        taken = frozenset(name for rival in rivals for name in self._candidates[rival])
        return Shortage(missing, rivals, taken)

    def _move(self, bidder: B, last: B, name: str, asked: Mapping[B, tuple[B, str]]) -> None:
        """The last one asked takes what is free; everybody before takes what the next one left."""
        at = last
        while True:
            self._holder[name] = at
            self.given[at].append(name)
            if at == bidder:
                return
            before, left = asked[at]
            self.given[at].remove(left)
            at, name = before, left


def match(wants: Iterable[tuple[B, int]], candidates: Mapping[B, Sequence[str]]) -> Matching[B]:
    """Serve all bidders, who come in the order in which they choose."""
    matching = Matching(candidates)
    for bidder, count in wants:
        matching.serve(bidder, count)
    return matching
