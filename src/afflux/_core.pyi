"""The contract of the Rust core.

`Network` is a minimum-cost flow problem that lives from cycle to cycle: what changes is told to it
in bulk, and each solve starts from the last answer. `solve` is the same for a problem that is
solved once. `Timeline` and `least_free` are room over time. `repack` searches better packings of
tasks on machines.

# The problem

Arc a goes from node tail[a] to node head[a] and carries lower[a] <= flow[a] <= capacity[a] at
cost[a] per unit. Node v sends supply[v] units more than it receives. Wanted is a flow that costs
the least. Arcs may be parallel, may be loops, may have no capacity; costs may be negative; parts
may be disconnected. Lower bounds are not negative, and supplies add up to zero.

# The proof

With r[a] = cost[a] + price[tail[a]] - price[head[a]] an answer satisfies, for every arc,
flow[a] < capacity[a] => r[a] >= 0 and flow[a] > lower[a] => r[a] <= 0, which proves that no cheaper
flow exists. `afflux.network.certificate.violation` checks this in a few lines of NumPy. The solver
checks it too before it answers; should the check ever fail, that is a RuntimeError, never a wrong
answer.

# Arrays

All columns are NumPy arrays of one dimension without gaps: int32 for nodes and arcs, int64 for
everything else. Only costs of convex arcs have two, arcs and units. Others are a TypeError that
names the argument. No thread may write to them meanwhile: they are read in place, by `solve` with
the GIL released.

# Threads, time and Ctrl-C

Solves release the GIL. A network can be used by one thread at a time: while it is being solved,
every other use of it, from another thread or from a signal handler, is a RuntimeError that says so.
Different networks can be solved side by side.

`budget_seconds` limits how long a solve may take, and a `Cancel` stops it from another thread. In
both cases the answer is the best flow found so far, with the gap that is proven by then; without
any flow to show, it is an ExpiredError. The solver looks at the clock about every millisecond, so
small problems are solved to the end, whatever the limits; large ones take a little longer than
that, since what was found has to be made a flow: a fifth of a second for a million arcs.
Ctrl-C, or any signal whose handler raises, ends a solve in the main thread as soon; the network
can be used afterwards.
"""

from collections.abc import Iterable, Sequence
from typing import final

import numpy as np
from numpy.typing import NDArray

class FlowError(ValueError):
    """The problem is not well formed, or its numbers do not fit; the message says which."""

class InfeasibleError(FlowError):
    """No flow satisfies the supplies and bounds; the message names what cannot be routed."""

class ExpiredError(FlowError):
    """The budget was used up, or the solve cancelled, before there was any flow to show."""

@final
class Solution:
    """A flow of minimum cost, with the prices that prove it."""

    @property
    def cost(self) -> int: ...
    @property
    def flow(self) -> NDArray[np.int64]:
        """One value per arc."""
    @property
    def price(self) -> NDArray[np.int64]:
        """One value per node."""

def solve(
    supply: NDArray[np.int64],
    tail: NDArray[np.int32],
    head: NDArray[np.int32],
    lower: NDArray[np.int64],
    capacity: NDArray[np.int64],
    cost: NDArray[np.int64],
) -> Solution:
    """Find a flow of minimum cost, and prove it. Nodes are 0 to n-1, one for each supply."""

@final
class Cancel:
    """Stops solves from another thread.

    Once cancelled it stays so, and also stops solves that begin later.
    """

    def __init__(self) -> None: ...
    def cancel(self) -> None: ...
    @property
    def is_cancelled(self) -> bool: ...

@final
class Answer:
    """What `Network.solve` found; flow and prices are read from the network."""

    @property
    def cost(self) -> int:
        """What the flow costs."""
    @property
    def bound(self) -> int:
        """No flow costs less. Equal to the cost, unless the limits were reached."""
    @property
    def gap(self) -> int:
        """By how much a better flow could be cheaper, at most: cost - bound."""
    @property
    def is_optimal(self) -> bool:
        """Whether the flow is proven to cost the least: cost == bound."""

@final
class LevelsAnswer:
    """What `Network.solve_levels` found; flow and prices are read from the network."""

    @property
    def cost(self) -> int:
        """What the flow costs."""
    @property
    def bound(self) -> int:
        """No flow costs less in which levels keep what they have in `kept`."""
    @property
    def gap(self) -> int:
        """By how much a better flow could be cheaper, at most, with what is kept."""
    @property
    def is_optimal(self) -> bool:
        """Whether all levels were finished, each with a flow proven to cost the least."""
    @property
    def units(self) -> list[int]:
        """By level, how many units enter through its arcs."""
    @property
    def kept(self) -> list[NDArray[np.int64]]:
        """By level, one value per arc: the lower bounds when the levels below were solved.

        Without the levels that were not finished when the limits were reached. With the caller's
        bounds and these lower bounds for all levels but the last, the prices prove the flow.
        """

@final
class Columns:
    """All nodes and arcs of a network, by rising id. Later changes are not in it.

    A convex arc is there once for each unit that it can carry, as an arc of its own.

    Every use of a property copies the column.
    """

    @property
    def nodes(self) -> NDArray[np.int32]:
        """The ids of nodes."""
    @property
    def supply(self) -> NDArray[np.int64]:
        """One value per node."""
    @property
    def arcs(self) -> NDArray[np.int32]:
        """The ids of arcs."""
    @property
    def tail(self) -> NDArray[np.int32]:
        """One id of a node per arc; `numpy.searchsorted(nodes, tail)` is its place among them."""
    @property
    def head(self) -> NDArray[np.int32]:
        """One id of a node per arc."""
    @property
    def lower(self) -> NDArray[np.int64]:
        """One value per arc."""
    @property
    def capacity(self) -> NDArray[np.int64]:
        """One value per arc."""
    @property
    def cost(self) -> NDArray[np.int64]:
        """One value per arc."""
    @property
    def flow(self) -> NDArray[np.int64]:
        """One value per arc: what flows since the last solve; changes may have cut it since."""

@final
class Gate:
    """A binary choice for a group of arcs.

    Open, each member carries exactly its count. Closed, none carries anything, and the waiting cost
    is paid, once. No arc may be a member twice, of one gate or of two, and none may be convex;
    lower bounds of members have to be zero, and counts between one and the capacity.
    """

    def __init__(
        self, members: NDArray[np.int32], counts: NDArray[np.int64], waiting_cost: int
    ) -> None: ...
    @property
    def members(self) -> NDArray[np.int32]: ...
    @property
    def counts(self) -> NDArray[np.int64]: ...
    @property
    def waiting_cost(self) -> int: ...

@final
class GatedAnswer:
    """What `Network.solve_gated` found; flow and prices are read from the network."""

    @property
    def cost(self) -> int:
        """What the flow costs, together with the waiting costs of closed gates."""
    @property
    def bound(self) -> int:
        """No choice costs less. Equal to the cost, unless effort or limits were used up."""
    @property
    def gap(self) -> int:
        """By how much a better choice could be cheaper, at most: cost - bound."""
    @property
    def is_optimal(self) -> bool:
        """Whether the choice is proven to cost the least: cost == bound."""
    @property
    def open(self) -> NDArray[np.bool_]:
        """By gate, whether it is open."""
    @property
    def flows(self) -> int:
        """How many flows were solved."""

@final
class Network:
    """A minimum-cost flow problem that changes, and its last answer.

    Nodes and arcs are known by ids, which are given out when they are added; ids of what was
    removed are given out again. Between solves anything goes: supplies may add up to something else
    than zero, a capacity may fall below what flows.

    Every change is one call for many nodes or arcs, and takes some ten nanoseconds for each. A call
    that is refused changes nothing, and its FlowError names the node or arc.

    ```
    network = Network()
    source, machine, sink = network.add_nodes(np.array([3, 0, -3]))
    arcs = network.add_arcs(
        tail=np.array([source, machine, source]),
        head=np.array([machine, sink, sink]),
        lower=np.array([0, 0, 0]),
        capacity=np.array([3, 2, 3]),
        cost=np.array([1, 0, 10]),  # the last one is for those who wait
    )
    network.solve().cost  # 12: two units run, one waits
    network.set_bounds(arcs[1:2], np.array([0]), np.array([5]))
    network.solve().cost  # 3
    network.flow(arcs)  # [3, 3, 0]
    ```
    """

    def __init__(self) -> None: ...
    @property
    def nodes(self) -> int:
        """How many nodes there are."""
    @property
    def arcs(self) -> int:
        """How many arcs there are; a convex one counts once."""
    def add_nodes(self, supply: NDArray[np.int64]) -> NDArray[np.int32]:
        """Add nodes, and answer their ids."""
    def remove_nodes(self, nodes: NDArray[np.int32]) -> None:
        """Remove nodes; their arcs have to be removed before."""
    def set_supply(self, nodes: NDArray[np.int32], supply: NDArray[np.int64]) -> None:
        """Change by how much nodes send more than they receive."""
    def add_arcs(
        self,
        tail: NDArray[np.int32],
        head: NDArray[np.int32],
        lower: NDArray[np.int64],
        capacity: NDArray[np.int64],
        cost: NDArray[np.int64],
    ) -> NDArray[np.int32]:
        """Add arcs, and answer their ids. An error names an arc by its position in the call.

        The magnitude of a cost, times one more than there are nodes, has to stay below 2**59. An
        infinite capacity may be written as any large number, best below 2**31: a single cost or
        capacity beyond makes every arc of the network take twelve bytes more, for good.
        """
    def add_convex_arcs(
        self,
        tail: NDArray[np.int32],
        head: NDArray[np.int32],
        lower: NDArray[np.int64],
        capacity: NDArray[np.int64],
        costs: NDArray[np.int64],
    ) -> NDArray[np.int32]:
        """Add convex arcs, of which each unit costs as much as the one before or more.

        `costs` has a row for each arc: what the first unit costs, the second, and so on. A capacity
        is no more than there are costs, costs do not fall, and head and tail are two nodes. Such an
        arc is what as many parallel arcs of one unit would be, but it is changed, looked at and
        proven as one: a round of changes takes up to a quarter less time. Ids begin at 2**30. Calls
        that take arcs take both kinds, but for `set_cost` and `terms`, gates and levels. An error
        names an arc by its position in the call. The place of one that is removed is taken by the
        next with as many costs.
        """
    def set_convex(
        self,
        arcs: NDArray[np.int32],
        lower: NDArray[np.int64],
        capacity: NDArray[np.int64],
        costs: NDArray[np.int64],
    ) -> None:
        """Change bounds and costs of convex arcs; they keep as many costs as they were added with.

        `set_bounds` changes their bounds alone.
        """
    def remove_arcs(self, arcs: NDArray[np.int32]) -> None:
        """Remove arcs, convex or not, and what flows along them."""
    def set_bounds(
        self, arcs: NDArray[np.int32], lower: NDArray[np.int64], capacity: NDArray[np.int64]
    ) -> None:
        """Change how much arcs must and can carry. Flow outside of the bounds is cut."""
    def set_cost(self, arcs: NDArray[np.int32], cost: NDArray[np.int64]) -> None:
        """Change what a unit costs on arcs; on convex ones, `set_convex` does."""
    def terms(
        self, arcs: NDArray[np.int32]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Lower bounds, capacities and costs of arcs; `columns` has those of convex ones."""
    def columns(self) -> Columns:
        """The whole network as it stands, for other solvers and for checkers."""
    def solve(self, *, budget_seconds: float | None = None, cancel: Cancel | None = None) -> Answer:
        """Find a flow of minimum cost, starting from the last one, and prove it."""
    def solve_levels(
        self,
        levels: Iterable[NDArray[np.int32]],
        *,
        budget_seconds: float | None = None,
        cancel: Cancel | None = None,
    ) -> LevelsAnswer:
        """Solve level by level, in descending priority: no level gives way to one below.

        A level is the arcs through which its tasks enter the network, none of them convex. While it
        is solved, those below are closed: their arcs carry their lower bound, mostly nothing. So
        their tasks need a way past them, such as an arc for those who wait. Then what the arcs of
        the level carry becomes their lower bound, the next level is opened, and the solve goes on
        from there.
        Afterwards, also after an error, all bounds are as they were before the call.

        The last flow is proven to cost the least of those that keep what the levels above were
        given. These may be moved for the sake of lower ones, to where they cost more, but they are
        not made to wait. Where several flows of a level cost the least, any of them may be the one
        that counts, whatever the levels below would like better: who wants ties to be decided for
        running makes waiting dearer by one.

        When the limits are reached, levels that had not begun are still closed, and the bound is
        for all flows in which finished levels keep what they have. With one level or none this is
        `solve`. Gates are solved by calls of their own.
        """
    def solve_gated(
        self,
        gates: Iterable[Gate],
        *,
        flows: int = 1000,
        gap_ppm: int = 0,
        budget_seconds: float | None = None,
        cancel: Cancel | None = None,
    ) -> GatedAnswer:
        """Choose which gates to open, such that flow and waiting cost the least together.

        A closed gate lets nothing through, so there should be a way past it: a gang has, for each
        of its classes, a source with as many units as the class has pods, the member arc from there
        to the class, and an arc of cost zero from the source to where waiting pods go.

        The search ends when the best choice is proven, when it is proven to cost at most `gap_ppm`
        millionths of its cost more than the best, or when `flows` flows were solved. Afterwards,
        also after an error, all bounds and costs are as they were before the call.
        `afflux.gates.solving.solve_gated` asks HiGHS where this leaves a gap.
        """
    def add_gain(
        self,
        tail: NDArray[np.int32],
        head: NDArray[np.int32],
        lower: NDArray[np.int64],
        capacity: NDArray[np.int64],
        gain: NDArray[np.int64],
        waiting: int,
        waiting_cost: int,
    ) -> Gate:
        """Add what arcs with a gain stand for, as a gate.

        The arcs are all arcs out of one node: one with a gain of k, for one unit at most, and one
        with a gain of 1, for exactly k - 1 units. Instead of them there will be a member of the
        gate from there to where the gain arc ends, and an arc to the node `waiting` for units that
        do not go through the gate. Any other use of gains is refused.
        """
    def flow(self, arcs: NDArray[np.int32]) -> NDArray[np.int64]:
        """What flows along arcs since the last solve; changes may have cut it since."""
    def price(self, nodes: NDArray[np.int32]) -> NDArray[np.int64]:
        """The prices of nodes since the last solve."""

# A unit of the search: its class, its machine, the devices it takes there.
PlacedUnit = tuple[int, int, Sequence[int]]

@final
class Timeline:
    """Room over time for tasks of one class, summed over machines.

    A start is (when, whether at once). What ends now, or should have ended already, is a step after
    *at once* at the same time: a group that needs it cannot start yet, but is expected to at any
    moment. For one class the answers are exact, whatever machines are taken; with several classes
    nobody fits earlier. `inf` is a run without end.
    """

    def __new__(cls) -> Timeline: ...
    def set_row(self, row: int, room: int, growth: Sequence[tuple[float, int]]) -> None:
        """A machine's room at once, and how much more there is from which times on."""
    def begin(self, now: float) -> None:
        """A pass begins: nobody has been started or promised anything."""
    def earliest(self, count: int, run: float, not_before: float) -> tuple[float, bool] | None:
        """The first start from which on `count` tasks fit for `run` seconds; None: never."""
    def fits(self, count: int, run: float, start: tuple[float, bool]) -> bool:
        """Whether `count` tasks fit from this start on for `run` seconds."""
    def take(self, count: int, run: float, start: tuple[float, bool]) -> None:
        """Take that room, or give it back with a negative count."""
    def steps(self) -> list[tuple[float, int]]:
        """From which time on there is how much room."""

def least_free(
    free: NDArray[np.int64],
    *,
    ends: NDArray[np.float64],
    end_rows: NDArray[np.int64],
    returned: NDArray[np.int64],
    seats: Sequence[tuple[float, float, int, int]],
    requests: NDArray[np.int64],
    start: float,
    end: float,
) -> NDArray[np.int64]:
    """What every machine has free throughout a span of time.

    `free` is what is free now, a row per machine; at `ends`, in the order of time, `returned` is
    given back on `end_rows`. `seats` are what is planned: (from, until, machine, class), a class
    asking for its row of `requests`. From minus infinity is at once, before anything ends, and so
    is a `start` of minus infinity. At the same time what ends makes room for what begins.
    """

def repack(
    *,
    requests: NDArray[np.int64],
    devices: Sequence[tuple[int, int] | None],
    admitted: NDArray[np.bool_],
    cost: NDArray[np.int64],
    slope: NDArray[np.int64],
    free: NDArray[np.int64],
    free_devices: Sequence[Sequence[int]],
    units: Sequence[PlacedUnit],
    fixed: Sequence[int],
    singles: Sequence[Sequence[int]],
    gangs: Sequence[tuple[Sequence[tuple[int, int]], int, bool]],
    first: tuple[Sequence[int], Sequence[bool]] | None,
    rounds: int,
    effort: int,
    seed: int,
) -> tuple[list[PlacedUnit], list[bool]]:
    """Pack units on machines better: never worth less, never dearer at equal worth.

    Tables have a row per class and a column per machine, `requests` a column per resource; `free`
    is what is left with `units` in place. The k-th unit on a machine (k from 0) costs k * slope
    more. `fixed` units of each class have to stay; `singles` are what each further unit of a class
    is worth; a gang is (what it needs of each class, its worth, whether it is placed), and stays
    whole. `first`, how many singles of each class and which gangs, is what a packing from scratch
    places before the rest; None where everything has room. The search is bounded by `rounds` and by
    `effort`, the times a task is held against a machine, and repeatable by `seed`.

    Returns the units, and for each gang whether it is placed now.
    """
