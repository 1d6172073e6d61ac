"""Chooses the gates to open: by our search, and by HiGHS if the search leaves a gap.

HiGHS answers which gates to open, and a bound. Our solver computes the cost of that choice, with
the gates fixed, in integers and with prices that prove it. The choice is used if it costs less.

The bound of our search is exact. That of HiGHS is computed in floating point, with tolerances of
1e-7 for a reduced cost, and the only check here is that it does not exceed the cost of a known
choice. It is lowered by the possible error and then raised to the next integer, since costs are
integers. So `is_optimal` is a proof if `bound_by` is "search"; if it is "highs", it relies on
HiGHS. For costs beyond about 10**9 the bound is lowered by more than one unit, so that a gap of a
few units remains.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from afflux._core import Cancel, FlowError, Gate, Network
from afflux.gates.highs_process import HighsAnswer, HighsUnavailableError, run_highs
from afflux.gates.integer_program import MAX_EXACT_INTEGER, TooLargeError, build_integer_program

By = Literal["search", "highs"]


@dataclass(frozen=True, slots=True, eq=False)
class GatedChoice:
    """Which gates are open; flow and prices are read from the network."""

    cost: int
    """What the flow costs, together with the waiting costs of closed gates."""
    bound: int
    """No choice costs less."""
    open: NDArray[np.bool_]
    """By gate, whether it is open."""
    flows: int
    """How many flows were solved here, not by HiGHS."""
    choice_by: By = "search"
    bound_by: By = "search"
    fallback_note: str | None = None
    """Why HiGHS gave nothing better, or why its bound was not used; None otherwise."""

    @property
    def gap(self) -> int:
        """By how much a better choice could be cheaper, at most."""
        return self.cost - self.bound

    @property
    def is_optimal(self) -> bool:
        """Whether no choice costs less; `bound_by` says which solver claims it."""
        return self.cost == self.bound


def solve_gated(
    network: Network,
    gates: Iterable[Gate],
    *,
    flows: int = 1000,
    gap_ppm: int = 0,
    budget_seconds: float | None = None,
    cancel: Cancel | None = None,
    fallback_seconds: float = 60.0,
) -> GatedChoice:
    """Choose which gates to open, such that flow and waiting cost the least together.

    First `Network.solve_gated` searches, with `flows` and `budget_seconds` for its limits, and its
    errors are raised. If that leaves a gap of more than `gap_ppm` millionths of the cost, HiGHS is
    run, if it is installed, and stopped after `fallback_seconds`; 0 disables it. `cancel` stops
    both. Then one flow is solved with the choice of HiGHS, and one more if that was no better; no
    limit stops these two. No other thread may use the network during the call.

    If HiGHS fails, the answer is that of the search, and says why. Afterwards, also after an error,
    all bounds and costs are as before the call, and the network has the flow and the prices of the
    returned choice.
    """
    if not 0 <= fallback_seconds < math.inf:
        raise ValueError(f"fallback_seconds is {fallback_seconds}, expected 0 or more, and finite")
    gates = list(gates)
    found = network.solve_gated(
        gates, flows=flows, gap_ppm=gap_ppm, budget_seconds=budget_seconds, cancel=cancel
    )
    own = GatedChoice(found.cost, found.bound, found.open, found.flows)
    if own.gap * 1_000_000 <= gap_ppm * abs(own.cost):
        return own
    try:
        if fallback_seconds == 0:
            raise HighsUnavailableError("HiGHS was not asked: it was given no time")
        if not gates:
            raise HighsUnavailableError("HiGHS was not asked: there is nothing to choose")
        if cancel is not None and cancel.is_cancelled:
            raise HighsUnavailableError("HiGHS was not asked: the search was cancelled")
        largest = max(own.cost, own.bound, key=abs)
        if abs(largest) > MAX_EXACT_INTEGER:
            raise TooLargeError(f"cost: {largest} is not exact in floating point")
        program = build_integer_program(network, gates, own.open)
        highs_answer = run_highs(program, seconds=fallback_seconds, gap_ppm=gap_ppm, cancel=cancel)
    except (HighsUnavailableError, TooLargeError) as error:
        return replace(own, fallback_note=str(error))
    choice = own if highs_answer.open is None else _cheaper(network, gates, own, highs_answer.open)
    # The error of the bound grows with the units of flow: take the larger of two good flows.
    now = float(network.columns().flow.sum())
    return _bounded(choice, highs_answer, max(now, float(program.known.sum())))


def _cheaper(
    network: Network, gates: Sequence[Gate], own: GatedChoice, is_open: NDArray[np.bool_]
) -> GatedChoice:
    """The cheaper of two choices; the network has its flow."""
    cost = _cost(network, gates, is_open)
    if cost is not None and cost < own.cost:
        return replace(own, cost=cost, open=is_open, flows=own.flows + 1, choice_by="highs")
    # If the search was stopped in the middle of its best flow, this one is cheaper.
    again = _cost(network, gates, own.open)
    if again is None:
        raise RuntimeError("the choice of the search has no flow any more")
    return replace(own, cost=again, flows=own.flows + 2)


def _cost(network: Network, gates: Sequence[Gate], is_open: NDArray[np.bool_]) -> int | None:
    """What a choice costs, None if no flow is found. The network keeps the flow, not the bounds."""
    members = np.concatenate([gate.members for gate in gates])
    counts = [gate.counts * int(opened) for gate, opened in zip(gates, is_open, strict=True)]
    units = np.concatenate(counts)
    lower, capacity, _ = network.terms(members)
    waiting = (gate.waiting_cost for gate, opened in zip(gates, is_open, strict=True) if not opened)
    try:
        network.set_bounds(members, units, units)
        return network.solve().cost + sum(waiting)
    except FlowError:  # there is none, or its numbers do not fit
        return None
    finally:
        network.set_bounds(members, lower, capacity)


def _bounded(choice: GatedChoice, highs_answer: HighsAnswer, units: float) -> GatedChoice:
    """The choice with the larger of the two bounds, if that of HiGHS can be true."""
    if highs_answer.bound is not None:
        bound = safe_bound(highs_answer.bound, units)
        if bound > choice.cost:
            reason = f"HiGHS says that no choice costs less than {bound}, but one does"
            return replace(choice, fallback_note=reason)
        if bound > choice.bound:
            return replace(choice, bound=bound, bound_by="highs")
    if choice.choice_by == "highs":
        return choice
    return replace(choice, fallback_note=f"HiGHS knew nothing better: {highs_answer.status}")


def safe_bound(bound: float, units: float) -> int:
    """A bound from floating point as an integer that is no larger than the true one.

    A reduced cost may be wrong by 1e-7 for each of `units` units of flow, a sum by 1e-9 of itself.
    The bound is lowered by ten times the first, once the second, and 0.01.
    """
    return math.ceil(bound - (0.01 + 1e-9 * abs(bound) + 1e-6 * units))
