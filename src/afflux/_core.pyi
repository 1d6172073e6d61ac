"""The contract of the Rust core.

`Network` is a minimum-cost flow problem that persists from cycle to cycle: it is changed in bulk,
and each solve starts from the last answer. `solve` solves a problem once. `Timeline` and
`least_free` compute free capacity over time. `Packing` is the account of what fits in a round, and
`room` answers for a single class.

# The problem

Arc a goes from node tail[a] to node head[a] and carries lower[a] <= flow[a] <= capacity[a] at
cost[a] per unit. Node v sends supply[v] units more than it receives. The solver finds a flow of
minimum cost. Arcs may be parallel, may be loops, may have capacity zero; costs may be negative; the
network may be disconnected. Lower bounds are not negative, and supplies add up to zero.

# The proof

With r[a] = cost[a] + price[tail[a]] - price[head[a]] an answer satisfies, for every arc,
flow[a] < capacity[a] => r[a] >= 0 and flow[a] > lower[a] => r[a] <= 0, which proves that no cheaper
flow exists. `afflux.network.certificate.violation` checks this in a few lines of NumPy. The solver
checks it too before it answers; if that check fails, the solve raises a RuntimeError.

# Arrays

All columns are contiguous NumPy arrays of one dimension: int32 for nodes and arcs, int64 for
everything else. Costs of convex arcs have two dimensions, arcs and units. Any other array raises a
TypeError that names the argument. Arrays are read in place, by `solve` with the GIL released, so no
thread may write to them during a call.

# Threads, time and Ctrl-C

Solves release the GIL. A network can be used by one thread at a time: while it is being solved,
every other use of it, from another thread or from a signal handler, raises a RuntimeError.
Different networks can be solved in parallel.

`budget_seconds` limits the time of a solve, and a `Cancel` stops it from another thread. In both
cases the answer is the best flow found so far, with the bound that is proven by then; if there is
no feasible flow yet, the solve raises an ExpiredError. The solver checks the clock about every
millisecond, so small problems are always solved to the end. Large ones exceed the limit a little,
because the flow must be made feasible: 0.2 s for a million arcs. Ctrl-C, or any signal whose
handler raises, ends a solve in the main thread as quickly; the network can be used afterwards.
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
    """The time budget was used up, or the solve was cancelled, before there was a feasible flow."""

@final
class Solution:
    """A flow of minimum cost, with the prices that prove that it is optimal."""

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
    """Find a flow of minimum cost, and prove it. Nodes are 0 to n-1, one per supply."""

@final
class Cancel:
    """Stops solves from another thread.

    A cancelled object stays cancelled and also stops solves that begin later.
    """

    def __init__(self) -> None: ...
    def cancel(self) -> None: ...
    @property
    def is_cancelled(self) -> bool: ...

@final
class Answer:
    """The answer of `Network.solve`; flow and prices are read from the network."""

    @property
    def cost(self) -> int:
        """The cost of the flow."""
    @property
    def bound(self) -> int:
        """A lower bound on the cost of every flow. Equal to the cost unless a limit was reached."""
    @property
    def gap(self) -> int:
        """An upper bound on what a better flow could save: cost - bound."""
    @property
    def is_optimal(self) -> bool:
        """Whether the flow is proven to be optimal: cost == bound."""

@final
class LevelsAnswer:
    """The answer of `Network.solve_levels`; flow and prices are read from the network."""

    @property
    def cost(self) -> int:
        """The cost of the flow."""
    @property
    def bound(self) -> int:
        """A lower bound on the cost of every flow that preserves the flows in `guaranteed`."""
    @property
    def gap(self) -> int:
        """An upper bound on what a better flow with the same guarantees could save."""
    @property
    def is_optimal(self) -> bool:
        """Whether all levels were finished with a proven optimal flow."""
    @property
    def units(self) -> list[int]:
        """By level, the units that enter through its arcs."""
    @property
    def guaranteed(self) -> list[NDArray[np.int64]]:
        """By level, one value per arc: the lower bounds while lower levels were solved.

        Only finished levels are included. With the caller's bounds, and these lower bounds for all
        levels but the last, the prices prove the flow.
        """

@final
class Columns:
    """A copy of all nodes and arcs of a network, by ascending id.

    A convex arc appears once for each unit of its capacity, as an arc of its own.

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
        """One node id per arc; `numpy.searchsorted(nodes, tail)` is its position in `nodes`."""
    @property
    def head(self) -> NDArray[np.int32]:
        """One node id per arc."""
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
        """One value per arc: its flow in the last solve; later changes may have reduced it."""

@final
class Gate:
    """A binary decision for a group of arcs.

    If the gate is open, each member carries exactly its count. If it is closed, members carry
    nothing and the waiting cost is paid, once. An arc may be a member only once, of one gate, and
    may not be convex; its lower bound must be zero, and its count between one and its capacity.
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
    """The answer of `Network.solve_gated`; flow and prices are read from the network."""

    @property
    def cost(self) -> int:
        """The cost of the flow plus the waiting costs of closed gates."""
    @property
    def bound(self) -> int:
        """A lower bound on the cost of every choice. Equal to cost unless a limit was reached."""
    @property
    def gap(self) -> int:
        """An upper bound on what a better choice could save: cost - bound."""
    @property
    def is_optimal(self) -> bool:
        """Whether the choice is proven to be optimal: cost == bound."""
    @property
    def open(self) -> NDArray[np.bool_]:
        """By gate, whether it is open."""
    @property
    def flows(self) -> int:
        """The number of flows solved."""

@final
class Network:
    """A minimum-cost flow problem that can be changed, and its last answer.

    Adding nodes or arcs returns their ids; ids of removed nodes and arcs are reused. Between solves
    the problem may be inconsistent: supplies may not add up to zero, and a capacity may be set
    below the current flow, which is then reduced.

    Every change is one call for many nodes or arcs, and takes some ten nanoseconds for each. A call
    that raises an error changes nothing; a FlowError names the node or arc.

    ```
    network = Network()
    source, machine, sink = network.add_nodes(np.array([3, 0, -3]))
    arcs = network.add_arcs(
        tail=np.array([source, machine, source]),
        head=np.array([machine, sink, sink]),
        lower=np.array([0, 0, 0]),
        capacity=np.array([3, 2, 3]),
        cost=np.array([1, 0, 10]),  # the last arc is for waiting units
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
        """The number of nodes."""
    @property
    def arcs(self) -> int:
        """The number of arcs; a convex arc counts once."""
    def add_nodes(self, supply: NDArray[np.int64]) -> NDArray[np.int32]:
        """Add nodes; return their ids."""
    def remove_nodes(self, nodes: NDArray[np.int32]) -> None:
        """Remove nodes; their arcs must be removed first."""
    def set_supply(self, nodes: NDArray[np.int32], supply: NDArray[np.int64]) -> None:
        """Change the supplies of nodes: the units that they send more than they receive."""
    def add_arcs(
        self,
        tail: NDArray[np.int32],
        head: NDArray[np.int32],
        lower: NDArray[np.int64],
        capacity: NDArray[np.int64],
        cost: NDArray[np.int64],
    ) -> NDArray[np.int32]:
        """Add arcs; return their ids. An error names an arc by its position in the call.

        The magnitude of a cost, times the number of nodes plus one, must be below 2**59. An
        infinite capacity may be written as any large number, best below 2**31: a single larger cost
        or capacity makes every arc of the network take twelve more bytes from then on.
        """
    def add_convex_arcs(
        self,
        tail: NDArray[np.int32],
        head: NDArray[np.int32],
        lower: NDArray[np.int64],
        capacity: NDArray[np.int64],
        costs: NDArray[np.int64],
    ) -> NDArray[np.int32]:
        """Add convex arcs: each unit costs at least as much as the unit before.

        `costs` has a row for each arc: the cost of the first unit, of the second, and so on. Costs
        must not fall, a capacity is at most the number of costs, and head and tail must differ. A
        convex arc is equivalent to parallel arcs of one unit each, but a round of changes takes up
        to a quarter less time. Its id is 2**30 or more. All calls that take arcs accept convex
        arcs, except `set_cost`, `terms`, gates and levels. An error names an arc by its position in
        the call. The memory of a removed arc is reused by the next one with as many costs.
        """
    def set_convex(
        self,
        arcs: NDArray[np.int32],
        lower: NDArray[np.int64],
        capacity: NDArray[np.int64],
        costs: NDArray[np.int64],
    ) -> None:
        """Change bounds and costs of convex arcs; the number of costs of an arc is fixed.

        `set_bounds` changes only their bounds.
        """
    def remove_arcs(self, arcs: NDArray[np.int32]) -> None:
        """Remove arcs, convex or not, and their flow."""
    def set_bounds(
        self, arcs: NDArray[np.int32], lower: NDArray[np.int64], capacity: NDArray[np.int64]
    ) -> None:
        """Change lower bounds and capacities of arcs. Their flow is clamped to the bounds."""
    def set_cost(self, arcs: NDArray[np.int32], cost: NDArray[np.int64]) -> None:
        """Change the costs of arcs; for convex arcs use `set_convex`."""
    def terms(
        self, arcs: NDArray[np.int32]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Lower bounds, capacities and costs of arcs; for convex arcs use `columns`."""
    def columns(self) -> Columns:
        """A copy of the whole network, for other solvers and for checkers."""
    def solve(self, *, budget_seconds: float | None = None, cancel: Cancel | None = None) -> Answer:
        """Find a flow of minimum cost, starting from the last one, and prove it."""
    def solve_levels(
        self,
        levels: Iterable[NDArray[np.int32]],
        *,
        budget_seconds: float | None = None,
        cancel: Cancel | None = None,
    ) -> LevelsAnswer:
        """Solve level by level, in descending priority: a lower level never displaces a higher one.

        A level is the set of arcs through which its tasks enter the network, none of them convex.
        While a level is solved, lower levels are closed: the capacity of their arcs is their lower
        bound, usually zero. So their tasks need another arc, such as one for waiting tasks. Then
        the flow on the arcs of the level becomes their lower bound, the next level is opened, and
        the solve continues from there. Afterwards, also after an error, all bounds are restored.

        The last flow is proven to be optimal among all flows that preserve the guaranteed flows of
        higher levels. Lower levels may move tasks of higher levels to more expensive places, but do
        not make them wait. If several flows of a level are optimal, any of them may be guaranteed;
        lower levels have no influence on it. A caller that prefers running makes waiting more
        expensive by one.

        If a limit is reached, levels that have not begun are still closed, and the bound holds for
        all flows that preserve the guarantees of finished levels. With one level or none this is
        `solve`. Gates cannot be part of such a call.
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
        """Choose which gates to open such that flow and waiting together have minimum cost.

        A closed gate carries nothing, so its units need another arc: a gang has, for each of its
        classes, a source with as many units as the class has pods, the member arc from the source
        to the class, and an arc of cost zero from the source to where waiting pods go.

        The search ends when a choice is proven to be optimal, when it is proven to be within
        `gap_ppm` millionths of its cost of the optimum, or when `flows` flows were solved.
        Afterwards, also after an error, all bounds and costs are restored.
        `afflux.gates.gated_solve.solve_gated` calls HiGHS where this leaves a gap.
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
        """Add the gate that arcs with a gain represent.

        The arcs are all arcs out of one node: one with a gain of k, for at most one unit, and one
        with a gain of 1, for exactly k - 1 units. They are replaced by a member of the gate from
        that node to the head of the gain arc, and an arc to the node `waiting` for units that do
        not pass the gate. Any other use of gains raises an error.
        """
    def flow(self, arcs: NDArray[np.int32]) -> NDArray[np.int64]:
        """The flow of arcs in the last solve; later changes may have reduced it."""
    def price(self, nodes: NDArray[np.int32]) -> NDArray[np.int64]:
        """The prices of nodes in the last solve."""

# A placed unit: its class, its machine, its devices there.
PlacedUnit = tuple[int, int, Sequence[int]]

@final
class Timeline:
    """Room over time for tasks of one class, summed over machines.

    A start is (time, whether at once). Tasks that end now, or are overdue, are a step after *at
    once* at the same time: a group that needs their room cannot start yet, but is expected to at
    any moment. For one class the answers are exact, whichever machines are taken; with several
    classes no group fits earlier. A run time of `inf` never ends.
    """

    def __new__(cls) -> Timeline: ...
    def set_row(self, row: int, room: int, growth: Sequence[tuple[float, int]]) -> None:
        """Set the room of a machine at once, and the increases of its room with their times."""
    def begin(self, now: float) -> None:
        """Begin a pass, without started groups and reservations."""
    def earliest(self, count: int, run: float, not_before: float) -> tuple[float, bool] | None:
        """The earliest start from which `count` tasks fit for `run` seconds; None: never."""
    def fits(self, count: int, run: float, start: tuple[float, bool]) -> bool:
        """Whether `count` tasks fit from this start on for `run` seconds."""
    def take(self, count: int, run: float, start: tuple[float, bool]) -> None:
        """Take that room, or return it with a negative count."""
    def steps(self) -> list[tuple[float, int]]:
        """The steps of the room: (time from which on, room)."""

def least_free(
    free: NDArray[np.int64],
    *,
    ends: NDArray[np.float64],
    end_rows: NDArray[np.int64],
    returned: NDArray[np.int64],
    occupancies: Sequence[tuple[float, float, int, int]],
    requests: NDArray[np.int64],
    start: float,
    end: float,
) -> NDArray[np.int64]:
    """The amounts that every machine has free throughout the span from `start` to `end`.

    `free` has the amounts free now, a row per machine; at the times `ends`, in ascending order, the
    amounts `returned` become free on `end_rows`. `occupancies` are planned tasks: (from, until,
    machine, class), where a class asks for its row of `requests`. From minus infinity is at once,
    before any task ends, and so is a `start` of minus infinity. Amounts that become free at a time
    are available to tasks that begin at that time.
    """

# What one task does on disks: by volume, and by number of a model, what it takes of such a disk
# (read, write, total), None where it cannot be; and whether it is stated. A task for which it is
# not stated takes nothing where no disks are known.
_DiskRequest = tuple[Sequence[Sequence[tuple[int, int, int] | None]], bool]
# By machine and disk: what is left of it (read, write, total), and the number of its model (int32),
# -1 for no disk.
_DiskTable = tuple[NDArray[np.int64], NDArray[np.int32]]

def room(
    free: NDArray[np.int64],
    request: NDArray[np.int64],
    free_devices: Sequence[tuple[int, ...]] | None = None,
    devices: tuple[int, int] | None = None,
    disks: tuple[_DiskTable, _DiskRequest] | None = None,
) -> NDArray[np.int64]:
    """How many tasks with this `request`, these `devices` (count, thousandths of each) and `disks`
    fit into each row of `free`, with the free thousandths of each device in `free_devices`."""

def refusals(
    free: NDArray[np.int64],
    request: NDArray[np.int64],
    free_devices: Sequence[tuple[int, ...]] | None = None,
    devices: tuple[int, int] | None = None,
    disks: tuple[_DiskTable, _DiskRequest] | None = None,
) -> NDArray[np.bool_]:
    """What refuses one more such task, a row per machine: a column for each resource of which too
    little is free, one for devices, and a last one for disks."""

def choose_devices(free: Sequence[int], count: int, milli: int, /) -> list[int] | None:
    """The indices of the fullest devices with `milli` thousandths free; None if there are fewer
    than `count`."""

def choose_disks(table: _DiskTable, request: _DiskRequest, /) -> list[int] | None:
    """A disk for each volume on the only machine of `table`, the fullest that fit, or the emptiest
    for a request that is not stated; None if it does not fit."""

@final
class Packing:
    """The exact account of a round with the units placed in it, what they cost, and searches.

    Classes and machines are numbers. The pairs of class c are those from first[c] to first[c + 1],
    in columns: a machine, ascending within a class, and what a task costs there. Pairs without room
    at the start are left out. The k-th unit on a machine (k from 0) costs k * slope more.
    """

    def __init__(
        self,
        *,
        requests: NDArray[np.int64],
        devices: Sequence[tuple[int, int] | None],
        first: NDArray[np.int64],
        machine: NDArray[np.int32],
        cost: NDArray[np.int64],
        room: NDArray[np.int64] | None,
        free: NDArray[np.int64],
        free_devices: Sequence[tuple[int, ...]],
        scale: Sequence[float],
        domains: tuple[Sequence[object], Sequence[object], Sequence[object]] | None = None,
        disks: tuple[_DiskTable, Sequence[_DiskRequest | None]] | None = None,
    ) -> None:
        """`requests` has a row per class, `free` a row per machine. `room`, if it is known, says
        by pair how many tasks fit at the start. `free_devices` has the free
        thousandths of each device, or is empty if no class needs devices. `scale` divides amounts
        when those of different resources are added.

        `domains` has the constraints between tasks. Topologies: by machine the number of its
        domain, -1 for none (int32), and whether tasks count there (booleans, None for everywhere).
        Counters: a topology, different domains of it (int32) and the tasks in each (int64). By
        class: its rules, and the counters that its units are counted by. A rule is (kind, counters,
        maximum skew, minimum of domains, flag); `near` needs a task in the domains of all counters,
        or with the flag no task anywhere, `apart` none in the domain of one, `spread` bounds the
        skew, and its flag says that the unit counts itself."""

    def set_slope(self, slope: NDArray[np.int64], /) -> None:
        """By how much each further unit on each machine costs more; 0 at first."""

    def slope(self) -> NDArray[np.int64]:
        """By how much each further unit on each machine costs more."""

    def pairs(self, class_index: int, /) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The machines and the costs of the pairs of a class."""

    def set_costs(self, class_index: int, costs: NDArray[np.int64], /) -> None:
        """Change what a task of a class costs, by pair of the class."""

    def rooms(self, class_index: int, /) -> NDArray[np.int64]:
        """How many more tasks fit, by pair of the class."""

    def room(self, class_index: int, machine: int, /) -> int:
        """How many more tasks fit on one machine; 0 if it is not a pair of the class."""

    def has_room(self, class_index: int, count: int, /) -> bool:
        """Whether `count` more tasks of the class have room, if nothing else is placed."""

    def had_room(self, class_index: int, count: int, /) -> bool:
        """Whether `count` tasks of the class had room at the start, each machine counted alone."""

    def usable_machines(self) -> NDArray[np.int64]:
        """The machines that are in some pair."""

    def usable_classes(self) -> NDArray[np.bool_]:
        """By class, whether there is room for one more task."""

    def open_pairs(
        self, chosen: NDArray[np.bool_], /
    ) -> tuple[
        NDArray[np.int64],
        NDArray[np.int32],
        NDArray[np.int64],
        NDArray[np.int64],
        NDArray[np.int64],
    ]:
        """The pairs of the chosen classes that have room now: where those of each class begin,
        their machines, room and costs; and by machine how many tasks of the smallest fit."""

    def place(
        self, class_index: int, machine: int, count: int = 1, devices: Sequence[int] | None = None
    ) -> int:
        """Place units of a class; returns how many had room. `devices` are those of a single unit;
        without it each unit takes the fullest devices that fit."""

    def place_flow(
        self,
        classes: NDArray[np.int64],
        machines: NDArray[np.int64],
        units: NDArray[np.int64],
        /,
    ) -> NDArray[np.int64]:
        """Place units one entry after the other; returns how many of each had room."""

    def place_tightest(self, class_index: int, count: int, /) -> int:
        """Place units one after the other on the machine that has the least left, the cheapest of
        equal ones; returns how many had room."""

    def place_gang(self, need: Sequence[tuple[int, int]], /) -> bool:
        """Place all units (class, count), or none: the search is exact up to its limits."""

    def place_together(self, units: Sequence[tuple[int, int, Sequence[int]]], /) -> bool:
        """Place these units (class, machine, devices), or none: each is judged with all of them in
        place. Without devices a unit takes the fullest that fit. `devices` are first those of which
        it has shares, then the disk of each volume."""

    def refusing_parts(
        self, classes: NDArray[np.int64], machines: NDArray[np.int64], /
    ) -> NDArray[np.int64]:
        """By entry, the first part of the account that refuses one more unit of the class on the
        machine: -2 for resources, -1 for devices, -6 for disks, the index of a rule of the class;
        -4 and -5 for spread and affinity of units that are placed already; -3 if nothing refuses
        it."""

    def cut_searches(self) -> int:
        """How many searches for units with constraints between tasks gave up at a limit."""

    def remove(self, class_index: int, machine: int, count: int, /) -> None:
        """Take off the units of a class that were placed last on the machine."""

    def domain_counts(self, counter: int, /) -> NDArray[np.int64]:
        """By machine, the counted tasks in its domain; -1 for a machine without the key."""

    def counted_tasks(self, counter: int, /) -> int:
        """How many tasks a counter counts in all domains."""

    def rule_refusals(self, class_index: int, /) -> NDArray[np.bool_]:
        """By machine and rule of the class, whether the rule refuses one more unit."""

    def rule_refusals_in_place(
        self, class_index: int, machines: Sequence[int], /
    ) -> NDArray[np.bool_]:
        """By place in `machines` and rule of the class, whether the rule refuses a task of the
        class that the counters count on this machine already: it is taken out and judged with
        everything else in place."""

    def meets_rules(self, class_index: int, machine: int, /) -> bool:
        """Whether the unit of the class that was placed last on the machine meets its rules with
        everything else in place; True if there is none."""

    def violations(self) -> list[tuple[int, int]]:
        """The units, by class and machine, that their rules would refuse with everything else in
        place."""

    def units(self) -> list[tuple[int, int, int, list[int]]]:
        """Every unit: its class, its machine, the cost of the pair, its devices; by machine."""

    def unit_columns(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Every unit: its class, its machine; by machine."""

    def counts(self) -> NDArray[np.int64]:
        """The number of units on each machine."""

    def placed(self) -> NDArray[np.int64]:
        """The number of units of each class."""

    def free(self) -> NDArray[np.int64]:
        """What is left on every machine, a row per machine."""

    def cost(self) -> int:
        """What all units cost."""

    def mark(self) -> int:
        """A point to roll back to; valid until the next `repack`."""

    def rollback(self, mark: int, /) -> None:
        """Undo everything placed and removed since the mark, devices included."""

    def taken_since(self, mark: int, /) -> list[tuple[int, int, list[int]]]:
        """Every unit placed since the mark: its class, its machine, its devices. Nothing may have
        been removed since."""

    def repack(
        self,
        *,
        fixed: Sequence[int],
        singles: Sequence[Sequence[int]],
        gangs: Sequence[tuple[Sequence[tuple[int, int]], int, bool]],
        first: tuple[Sequence[int], Sequence[bool]] | None,
        rounds: int,
        effort: int,
        seed: int,
    ) -> list[bool]:
        """Improve the packing: never worth less, and never more expensive at equal worth.

        `fixed` is the number of units of each class that must stay; `singles` has the worth of each
        further unit of a class; a gang is (its units of each class, its worth, whether it is
        placed), and stays whole. `first`, the number of singles of each class and a flag per gang,
        are the items that a packing from scratch places first; None if everything has room. The
        search is bounded by `rounds` and by `effort`, the number of comparisons of a task with a
        machine, and repeatable by `seed`. Returns for each gang whether it is placed.
        """
