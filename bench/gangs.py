"""python -m bench.gangs: gangs whose classes may use few machines, by our search and by HiGHS.

The instances are made like those of `crates/afflux-flow/benches/gangs.rs`, in several kinds, all
but the last of them hard for the search: gangs of 2 to 32 pods in one to three classes, a fifth
more pods than room, and each class admitted on a few machines of one pool.
"""

import argparse
import time
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

from afflux._core import Gate, Network
from afflux.cli.text_table import format_table
from afflux.gates.gated_solve import GatedChoice, solve_gated

MACHINES = 300
GANGS = 200
WAITING = (4_000, 46_000)  # per pod: the minimum, and the range above it
FLOWS = 1_000

_WORD = (1 << 64) - 1

Arc = tuple[int, int, int, int]  # tail, head, capacity, cost


@dataclass(frozen=True)
class Kind:
    """The machines are in `pools`; a class may use `percent` of the machines of one pool."""

    pools: int
    percent: int

    def __str__(self) -> str:
        size = MACHINES // self.pools
        return f"{size * self.percent // 100} of {size} machines, pools: {self.pools}"


KINDS = (Kind(1, 1), Kind(4, 4), Kind(4, 8), Kind(8, 20), Kind(1, 30))


class _Random:
    """The generator of the benchmark in Rust (splitmix64)."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    def below(self, limit: int) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & _WORD
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _WORD
        return (mixed ^ (mixed >> 31)) % limit

    def choose(self, count: int, limit: int) -> list[int]:
        """`count` different numbers below a limit, in ascending order."""
        numbers = list(range(limit))
        for place in range(count):
            other = place + self.below(limit - place)
            numbers[place], numbers[other] = numbers[other], numbers[place]
        return sorted(numbers[:count])


@dataclass(frozen=True)
class _Gang:
    counts: list[int]
    admitted: list[list[tuple[int, int, int]]]
    """For each class: machines with their room and cost."""
    waiting_cost: int


def _gang(random: _Random, kind: Kind) -> _Gang:
    members = 2 + random.below(31)
    counts = [1] * min(1 + random.below(3), members)
    for _ in range(len(counts), members):
        counts[random.below(len(counts))] += 1
    size = MACHINES // kind.pools
    admitted: list[list[tuple[int, int, int]]] = []
    for _ in counts:
        first = 0 if kind.pools == 1 else random.below(kind.pools) * size
        chosen = random.choose(size * kind.percent // 100, size)
        rooms = [(first + each, 1 + random.below(10), random.below(2_001)) for each in chosen]
        admitted.append(rooms)
    return _Gang(counts, admitted, members * (WAITING[0] + random.below(WAITING[1])))


def instance(kind: Kind, seed: int) -> tuple[Network, list[Gate]]:
    """A network and its gates."""
    random = _Random(seed)
    gangs = [_gang(random, kind) for _ in range(GANGS)]
    pods = sum(sum(gang.counts) for gang in gangs)
    sink, supply = MACHINES, [0] * MACHINES + [-pods]
    arcs: list[Arc] = []
    slopes = [5 + random.below(55) for _ in range(MACHINES)]
    slots = [0] * MACHINES
    for _ in range(pods * 5 // 6):
        machine = random.below(MACHINES)
        arcs.append((machine, sink, 1, slots[machine] * slopes[machine]))
        slots[machine] += 1
    members: list[list[int]] = []
    for gang in gangs:
        members.append([])
        for count, admitted in zip(gang.counts, gang.admitted, strict=True):
            source, of_class = len(supply), len(supply) + 1
            supply += [count, 0]
            members[-1].append(len(arcs))
            arcs += [(source, of_class, count, 0), (source, sink, count, 0)]
            arcs += [(of_class, machine, room, cost) for machine, room, cost in admitted]
    network = Network()
    nodes = network.add_nodes(np.array(supply, np.int64))
    tail, head, capacity, cost = (np.array(column, np.int64) for column in zip(*arcs, strict=True))
    numbers = network.add_arcs(nodes[tail], nodes[head], np.zeros_like(cost), capacity, cost)
    gates = [
        Gate(numbers[places], np.array(gang.counts, np.int64), gang.waiting_cost)
        for gang, places in zip(gangs, members, strict=True)
    ]
    return network, gates


def _row(kind: Kind, seed: int, seconds: float) -> list[str]:
    own, own_seconds = _timed(kind, seed, 0)
    both, all_seconds = _timed(kind, seed, seconds)
    return [
        str(kind),
        str(seed),
        f"{own_seconds:.2f}",
        _gap(own),
        "–" if own.is_optimal else f"{all_seconds - own_seconds:.2f}",
        _gap(both),
        f"{1 - both.cost / own.cost:.2%}",
        both.fallback_note or "",
    ]


def _timed(kind: Kind, seed: int, fallback_seconds: float) -> tuple[GatedChoice, float]:
    network, gates = instance(kind, seed)
    began = time.perf_counter()
    found = solve_gated(network, gates, flows=FLOWS, fallback_seconds=fallback_seconds)
    return found, time.perf_counter() - began


def _gap(choice: GatedChoice) -> str:
    return f"{choice.gap / choice.cost:.3%}"


def main() -> None:
    """Run all kinds with all seeds."""
    parser = argparse.ArgumentParser(prog="python -m bench.gangs")
    parser.add_argument("--seeds", type=int, default=6, help="how many, from 101 on")
    parser.add_argument("--seconds", type=float, default=60.0, help="for HiGHS, at most")
    options = parser.parse_args()
    header = ["each class on", "seed", "search s", "gap", "HiGHS s", "gap then", "cheaper by", ""]
    cases = [(kind, seed) for kind in KINDS for seed in range(101, 101 + options.seeds)]
    shown = tqdm(cases, unit="instance", disable=None)
    print(format_table(header, [_row(kind, seed, options.seconds) for kind, seed in shown]))


if __name__ == "__main__":
    main()
