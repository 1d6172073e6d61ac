"""python -m bench: runs all benchmarks and prints tables; --json FILE also writes the figures."""

import argparse
import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm

from afflux.cli.text_table import format_table
from afflux.plan.refused_proposals import REFUSAL_KINDS
from bench import cold_cycle, import_time, openb, quality, refused_proposals, sparse_rounds
from bench.random_instances import random_instance


def main() -> None:
    """Run the chosen benchmarks and print their tables."""
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("only", nargs="*", metavar="NAME", help=f"some of {', '.join(_PARTS)}")
    parser.add_argument("--instances", type=int, default=20, help="per load and kind (quality)")
    parser.add_argument("--first-seed", type=int, default=0, help="of the instances (quality)")
    parser.add_argument("--json", metavar="FILE", help="also write the figures to a file")
    options = parser.parse_args()
    figures: dict[str, object] = {"machine": _machine()}
    print(f"{figures['machine']}\n")
    for name in options.only or _PARTS:
        if name not in _PARTS:
            parser.error(f"unknown measurement {name!r}; expected some of {', '.join(_PARTS)}")
        figures[name] = _PARTS[name](options)
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def _machine() -> str:
    cores = 0
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        cores += line.startswith("processor")
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
    return f"{model}, {cores} cores, Python {platform.python_version()}"


def _import(options: argparse.Namespace) -> object:
    del options
    seconds = import_time.measure()
    print(f"import of the command line: {seconds * 1000:.0f} ms\n")
    return seconds


def _cold(options: argparse.Namespace) -> object:
    del options
    found = cold_cycle.measure()
    print("one cold cycle, 1,000 machines, 10,000 waiting tasks, 50 classes")
    print(
        format_table(
            ["scheduler", "load", "seconds", "placed", "solves", "gap to bound"],
            [
                [
                    r.scheduler,
                    f"{r.load:g}",
                    f"{r.seconds:.2f}",
                    str(r.placed),
                    str(r.solves) if r.solves else "-",
                    "-" if r.gap is None else f"{r.gap:.1%}",
                ]
                for r in found
            ],
        ),
        end="\n\n",
    )
    return [asdict(r) for r in found]


def _sparse(options: argparse.Namespace) -> object:
    del options
    found = sparse_rounds.measure()
    print("one cycle in which few pairs of a class and a machine can matter")
    rows = [
        [r.name, f"{r.seconds:.2f}", f"{r.memory_mib:.0f}", f"{r.placed} of {r.tasks}"]
        for r in found
    ]
    print(format_table(["cycle", "seconds", "MiB", "placed"], rows), end="\n\n")
    return [asdict(r) for r in found]


def _refusals(options: argparse.Namespace) -> object:
    del options
    found = refused_proposals.measure()
    print("proposals of the flow network that the account refused, 1,000 machines, one cycle each")
    rows = [
        [
            r.workload,
            f"{r.seconds:.2f}",
            f"{r.placed} of {r.tasks}",
            *(str(r.refused.get(kind, 0)) for kind in REFUSAL_KINDS),
        ]
        for r in found
    ]
    print(format_table(["workload", "seconds", "placed", *REFUSAL_KINDS], rows), end="\n\n")
    return [asdict(r) for r in found]


def _openb(options: argparse.Namespace) -> object:
    del options
    found = openb.measure()
    if found is None:
        print(f"openb: not measured, no trace in {' or '.join(map(str, openb.FOLDERS))}\n")
        return None
    print("replay of openb, 1,523 nodes, 8,152 pods, end to end")
    print(
        format_table(
            ["scheduler", "seconds", "MiB", "unplaced", "cycle p50 ms", "cycle p99 ms"],
            [
                [
                    r.scheduler,
                    f"{r.seconds:.1f}",
                    f"{r.memory_mib:.0f}",
                    str(r.unplaced),
                    f"{r.cycle_p50_seconds * 1000:.2f}",
                    f"{r.cycle_p99_seconds * 1000:.2f}",
                ]
                for r in found
            ],
        ),
        end="\n\n",
    )
    return [asdict(r) for r in found]


def _quality(options: argparse.Namespace) -> object:
    gaps: dict[str, list[quality.Gap]] = {}
    unfinished = 0
    kinds: list[tuple[str, bool, Callable[[quality.Instance], Sequence[quality.Placement]]]] = [
        ("afflux", False, quality.ours),
        ("pod-by-pod", False, quality.peer),
        ("afflux, gangs", True, quality.ours),
    ]
    seeds = range(options.first_seed, options.first_seed + options.instances)
    work = [(load, seed) for load in quality.LOADS for seed in seeds]
    for load, seed in tqdm(work, desc="quality", disable=None, leave=False):
        for name, gangs, place in kinds:
            instance = random_instance(seed * 1000 + int(load * 100), load, gangs)
            gap = quality.gap(instance, load, place(instance))
            if gap is None:
                unfinished += 1
            else:
                gaps.setdefault(name, []).append(gap)
    print("against the exact optimum: up to 12 machines, 40 tasks, 3 resources, 2 priorities")
    rows: list[list[str]] = []
    for name, found in gaps.items():
        for load in [*quality.LOADS, None]:
            here = [g for g in found if load is None or g.load == load]
            most, least = sum(g.most for g in here), sum(g.least for g in here)
            fewer = 1 - sum(g.placed for g in here) / most
            higher_cost = sum(g.cost for g in here) / least - 1
            label = "all" if load is None else f"{load:g}"
            rows.append([name, label, str(len(here)), f"{fewer:.2%}", f"{higher_cost:.2%}"])
    print(format_table(["scheduler", "load", "instances", "fewer placed", "higher cost"], rows))
    if unfinished:
        print(f"left out: {unfinished} instances that HiGHS did not finish in time")
    print()
    return {name: [asdict(gap) for gap in found] for name, found in gaps.items()}


_PARTS: dict[str, Callable[[argparse.Namespace], object]] = {
    "import": _import,
    "cold-cycle": _cold,
    "sparse-rounds": _sparse,
    "refusals": _refusals,
    "openb": _openb,
    "quality": _quality,
}

if __name__ == "__main__":
    main()
