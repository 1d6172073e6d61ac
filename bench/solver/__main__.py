"""python -m bench.solver: our solver against OR-Tools; --json and --plot write files."""

import argparse
import importlib.metadata
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm

from afflux.cli.text_table import format_table
from bench.solver.churn_rounds import FORMS, NAMES, Case, Round, Series, run
from bench.solver.memory_measurement import MemoryRun, measure
from bench.solver.plot import draw
from bench.solver.results import EXPLAINED, HEADER, Figures

MACHINES = (1_000, 1_250, 5_000, 12_500)
LOADS = (0.5, 0.9, 1.05)
# A million tasks on a hundred thousand machines of twelve slots each.
LARGE = Case("c", "pinned", 1_000_000 / 1_200_000, 100_000)


def main() -> None:
    """Run the chosen cases and print the table."""
    options = _parser().parse_args()
    about = _machine()
    print(f"{about}\n")
    cases = [
        Case(shape, form, load, machines)
        for shape in options.shapes
        for form in options.forms
        for load in options.loads
        for machines in sorted(options.machines)
    ]
    series = _run(cases, options)
    figures = Figures(series, {} if options.no_peer else _memory(cases, options.seed))
    print(format_table(HEADER, figures.rows()))
    print(f"\n{EXPLAINED}\n")
    goals = figures.goals()
    if goals:
        lines = [[g.what, g.wanted, f"{g.reached:.2f}", _met(g.met), g.where] for g in goals]
        print(
            format_table(["goal", "wanted", "worst", "", "where"], lines, right_align=False),
            end="\n\n",
        )
    large = _large(options.seed, with_peer=not options.no_peer) if options.large else None
    if options.json:
        head = {
            "machine": about,
            "seed": options.seed,
            "goals": [asdict(goal) for goal in goals],
            "large": large,
        }
        _write(options.json, _as_json(head, figures.as_json()))
    if options.plot:
        _write(options.plot, draw(figures))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.solver")
    shapes = ", ".join(f"{letter}: {name}" for letter, name in NAMES.items())
    parser.add_argument("--shapes", nargs="+", choices=NAMES, default=list(NAMES), help=shapes)
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    parser.add_argument("--loads", nargs="+", type=float, default=list(LOADS))
    parser.add_argument("--machines", nargs="+", type=int, default=list(MACHINES))
    parser.add_argument("--rounds", type=int, default=20, help="of churn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", metavar="FILE", help="also write the figures to a file")
    parser.add_argument("--plot", metavar="FILE", help="draw them as SVG")
    parser.add_argument("--large", action="store_true", help="also 100,000 machines of c, pinned")
    parser.add_argument("--no-peer", action="store_true", help="time ours alone, nothing else")
    parser.add_argument("--profile-rounds", action="store_true", help="print a line per round")
    return parser


def _run(cases: Sequence[Case], options: argparse.Namespace) -> list[Series]:
    found: list[Series] = []
    rounds = options.rounds + 2
    with tqdm(total=len(cases) * rounds, disable=None, leave=False, unit="round") as bar:
        for case in cases:
            bar.set_description(str(case))

            def after_round(done: Round, case: Case = case) -> None:
                bar.update()
                if options.profile_rounds:
                    tqdm.write(_line(case, done))

            found.append(
                run(
                    case,
                    rounds=options.rounds,
                    seed=options.seed,
                    with_peer=not options.no_peer,
                    after_round=after_round,
                )
            )
    return found


def _line(case: Case, done: Round) -> str:
    parts = [
        f"{case}, round {done.number:2}: {done.arcs:,} arcs, {done.arcs_changed:,} changed, ours "
        f"{done.apply_seconds * 1000:.2f} + {done.solve_seconds * 1000:.2f} ms"
    ]
    for name, seconds in (("OR-Tools", done.peer_seconds), ("by hand", done.by_hand_seconds)):
        if seconds is not None:
            parts.append(f"{name} {seconds * 1000:.1f} ms, {seconds / done.seconds:.1f} times")
    return ", ".join(parts)


def _memory(cases: Sequence[Case], seed: int) -> dict[Case, MemoryRun]:
    """For the largest size only: small networks need less memory than the process itself."""
    largest = [case for case in cases if case.machines == max(c.machines for c in cases)]
    return {
        case: measure(case, seed)
        for case in tqdm(largest, desc="memory", disable=None, leave=False)
    }


def _large(seed: int, *, with_peer: bool) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, of_peer in [("ours", False), *([("OR-Tools", True)] if with_peer else [])]:
        used = measure(LARGE, seed, of_peer=of_peer)
        found[name] = asdict(used)
        rounds = ", ".join(f"{seconds:.3f}" for seconds in used.seconds[1:])
        print(
            f"{used.machines:,} machines, {used.tasks:,} tasks, {used.arcs:,} arcs, {name}: "
            f"cold {used.seconds[0]:.2f} s, {used.peak_bytes / 2**20:,.0f} MiB, "
            f"{used.bytes_per_arc:.0f} bytes per arc" + (f", then {rounds} s" if rounds else "")
        )
    return found


def _machine() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    model = models[0] if models else platform.machine()
    return (
        f"{model}, {max(1, len(models))} cores, Python {platform.python_version()}, "
        f"OR-Tools {importlib.metadata.version('ortools')}"
    )


def _met(met: bool) -> str:
    return "met" if met else "NOT MET"


def _as_json(head: Mapping[str, object], cases: Sequence[object]) -> str:
    """One object, with a line for each case: its rounds are long lists of short numbers."""
    opening = json.dumps(head, indent=1).removesuffix("\n}")
    return opening + ',\n "cases": [\n  ' + ",\n  ".join(map(json.dumps, cases)) + "\n ]\n}\n"


def _write(name: str, text: str) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
