"""One case: a cold solve, then round after round of churn, by both solvers on the same network.

Our solver keeps its network from round to round; applying the changes of a round and solving are
timed. OR-Tools starts from nothing each time; only its solve call is timed. It has no convex arcs
and gets parallel ones; our time with parallel arcs is measured too. Placements are read from our
flow after checking its bounds, balances and cost, also against the cost of OR-Tools.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from afflux._core import Network
from bench.solver import ortools_solver
from bench.solver.column_changes import Changes, ChangeTracker, apply
from bench.solver.cpu_memory import CpuMemory
from bench.solver.load_spreading import LoadSpreading
from bench.solver.network_columns import NONE, Columns, Ints, check_flow
from bench.solver.quincy import Quincy
from bench.solver.shapes import CHURN_SHARE, Setting, Shape

SHAPES: dict[str, Callable[[Setting], Shape]] = {"a": LoadSpreading, "b": Quincy, "c": CpuMemory}
NAMES = {"a": "load spreading", "b": "Quincy", "c": "CPU and memory"}
FORMS = ("free", "pinned")
_COLD = range(3)  # the cold solve is a single round, so it is measured more often


@dataclass(frozen=True)
class Case:
    """One cluster in one form."""

    shape: str
    form: str
    load: float
    machines: int

    def __str__(self) -> str:
        return f"shape {self.shape}, {self.form}, load {self.load:g}, {self.machines:,} machines"

    def cluster(self, seed: int) -> Shape:
        """The cluster before the cold solve; the same tasks in both forms."""
        return SHAPES[self.shape](Setting(self.machines, self.load, self.form == "pinned", seed))


@dataclass(frozen=True)
class Round:
    """One network solved: sizes, seconds, and the cost both found.

    Round 0 is the cold solve. Round 1 settles it: all its placements are priced at once, without
    arrivals or departures. Churn begins with round 2. Seconds are None for a peer that did not run,
    and for parallel arcs in a network without convex ones.
    """

    number: int
    nodes: int
    arcs: int
    machines_priced: int
    arcs_changed: int
    apply_seconds: float
    solve_seconds: float
    peer_seconds: float | None
    by_hand_seconds: float | None
    parallel_seconds: float | None
    cost: int

    @property
    def seconds(self) -> float:
        """Seconds of our solver: changes and solve."""
        return self.apply_seconds + self.solve_seconds


@dataclass(frozen=True)
class Series:
    """All rounds of a case."""

    case: Case
    rounds: tuple[Round, ...]

    @property
    def cold(self) -> Round:
        """The first round."""
        return self.rounds[0]

    @property
    def churn(self) -> tuple[Round, ...]:
        """All rounds from the third on."""
        return self.rounds[2:]


def run(
    case: Case, *, rounds: int, seed: int, with_peer: bool, after_round: Callable[[Round], None]
) -> Series:
    """The case: its cold solve, and this number of rounds of churn."""
    cluster = case.cluster(seed)
    columns = cluster.columns
    compares = with_peer and columns.rising != NONE
    both = [(Ours(columns), Ours(columns, convex=False) if compares else None) for _ in _COLD]
    done = [_middle([_round(case, 0, cluster, *each, with_peer=with_peer) for each in both])]
    ours, parallel = both.pop()
    both.clear()
    after_round(done[0])
    for number in range(1, rounds + 2):
        cluster.place(ours.flow())
        cluster.churn(CHURN_SHARE if number > 1 else 0.0)
        done.append(_round(case, number, cluster, ours, parallel, with_peer=with_peer))
        after_round(done[-1])
    return Series(case, tuple(done))


@dataclass(frozen=True)
class Solved:
    """The time of one solve of ours, and its answer."""

    cost: int
    apply_seconds: float
    solve_seconds: float

    @property
    def seconds(self) -> float:
        """Seconds of changes and solve."""
        return self.apply_seconds + self.solve_seconds


class Ours:
    """Our solver, which gets the changes of a cluster's columns."""

    def __init__(self, columns: Columns, *, convex: bool = True) -> None:
        self._network = Network()
        self._tracker = ChangeTracker(columns, convex=convex)

    def prepare(self) -> Changes:
        """The changes since the last solve."""
        return self._tracker.changes()

    def solve(self, changes: Changes) -> Solved:
        """Apply the changes, and solve."""
        began = time.perf_counter()
        added = apply(self._network, changes)
        applied = time.perf_counter()
        answer = self._network.solve()
        solved = time.perf_counter()
        self._tracker.applied(added)
        return Solved(answer.cost, applied - began, solved - applied)

    def flow(self) -> Ints:
        """The flow of the last solve, by position."""
        return self._tracker.flow(self._network)


def _round(
    case: Case, number: int, cluster: Shape, ours: Ours, parallel: Ours | None, *, with_peer: bool
) -> Round:
    columns = cluster.columns
    changes = ours.prepare()
    solved = ours.solve(changes)
    again = parallel.solve(parallel.prepare()) if parallel else None
    where = f"{case}, round {number}"
    try:
        found = check_flow(columns, ours.flow())
    except ValueError as error:
        raise RuntimeError(f"{where}: {error}") from error
    costs = {"ours": solved.cost, "that of our flow": found}
    if again:
        costs["ours with parallel arcs"] = again.cost
    cold = by_hand = None
    if with_peer:
        cold = ortools_solver.solve_cold(columns)
        costs["that of OR-Tools"] = cold.cost
    if with_peer and case.form == "pinned":
        by_hand = ortools_solver.solve_cold(columns, by_hand=True)
        costs["that of OR-Tools by hand"] = by_hand.cost
    if len(set(costs.values())) > 1:
        said = ", ".join(f"{name} is {value}" for name, value in costs.items())
        raise RuntimeError(f"{where}: the costs differ: {said}")
    return Round(
        number,
        columns.supply.size,
        columns.arcs,
        cluster.touched,
        changes.arcs,
        solved.apply_seconds,
        solved.solve_seconds,
        cold.seconds if cold else None,
        by_hand.seconds if by_hand else None,
        again.seconds if again else None,
        solved.cost,
    )


def _middle(cold: list[Round]) -> Round:
    """Each solver's own median of the repeated cold solves."""
    ours = sorted(cold, key=lambda r: r.seconds)[len(cold) // 2]
    others = {
        name: statistics.median(getattr(r, name) for r in cold)
        for name in ("peer_seconds", "by_hand_seconds", "parallel_seconds")
        if getattr(ours, name) is not None
    }
    return replace(ours, **others)
