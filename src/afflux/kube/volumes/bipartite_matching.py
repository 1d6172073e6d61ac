"""Maximum bipartite matching of requesters, which want several items each, to their candidates.

A requester takes its first free candidate. If none is free, a breadth-first search finds an
augmenting path, along which other requesters move to other candidates. The matching is therefore
maximum in whatever order requesters come. Requesters with equal candidates should be merged.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

R = TypeVar("R", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Shortfall(Generic[R]):
    """A requester misses `missing` items: `competitors`, itself included, hold all of `taken`."""

    missing: int
    competitors: frozenset[R]
    taken: frozenset[str]


class BipartiteMatching(Generic[R]):
    """`assigned`: the items of each requester; `shortfalls`: those that got too few."""

    def __init__(self, candidates: Mapping[R, Sequence[str]]) -> None:
        self.assigned: dict[R, list[str]] = {requester: [] for requester in candidates}
        self.shortfalls: dict[R, Shortfall[R]] = {}
        self._candidates = candidates
        self._owner: dict[str, R] = {}
        # Assigned candidates never become free again: the index of the first that may be free.
        self._first_free: dict[R, int] = {}

    def add(self, requester: R, count: int) -> None:
        """Assign `count` items to a requester, or as many as possible."""
        for done in range(count):
            shortfall = self._take(requester, count - done)
            if shortfall is not None:
                self.shortfalls[requester] = shortfall
                return

    def _take(self, requester: R, missing: int) -> Shortfall[R] | None:
        own = self._candidates[requester]
        first = self._first_free.get(requester, 0)
        while first < len(own) and own[first] in self._owner:
            first += 1
        self._first_free[requester] = first
        if first < len(own):
            self._owner[own[first]] = requester
            self.assigned[requester].append(own[first])
            return None
        # The predecessor of each requester on a path, and the item it would give up.
        parents: dict[R, tuple[R, str]] = {}
        frontier = deque([requester])
        while frontier:
            at = frontier.popleft()
            for name in self._candidates[at]:
                owner = self._owner.get(name)
                if owner is None:
                    self._move(requester, at, name, parents)
                    return None
                if owner != requester and owner not in parents:
                    parents[owner] = (at, name)
                    frontier.append(owner)
        competitors = frozenset((requester, *parents))
        taken = frozenset(name for rival in competitors for name in self._candidates[rival])
        return Shortfall(missing, competitors, taken)

    def _move(self, requester: R, last: R, name: str, parents: Mapping[R, tuple[R, str]]) -> None:
        """Augment: the last requester takes the free item, each other one that of its successor."""
        at = last
        while True:
            self._owner[name] = at
            self.assigned[at].append(name)
            if at == requester:
                return
            parent, given_up = parents[at]
            self.assigned[at].remove(given_up)
            at, name = parent, given_up


def match(
    wants: Iterable[tuple[R, int]], candidates: Mapping[R, Sequence[str]]
) -> BipartiteMatching[R]:
    """Match all requesters, in this order of preference."""
    matching = BipartiteMatching(candidates)
    for requester, count in wants:
        matching.add(requester, count)
    return matching
