"""python -m bench.kube: afflux and kube-scheduler on a real API server, in turn, as a table."""

import argparse
import json
import platform
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Never

from testbed import ApiError, BuildError, StartError, build, build_helm, build_load
from testbed.building import KUBERNETES_VERSION
from tqdm import tqdm

from afflux.cli.text_table import format_table
from bench.kube import docs_section, report
from bench.kube.load_driver import LoadError, Progress
from bench.kube.measurement import measure
from bench.kube.plans import Plan
from bench.kube.plot import draw
from bench.kube.results import MODES, STREAM, Run, as_dict, from_dict, medians
from bench.kube.run_order import ALL_WORKLOADS, DEFAULT_PODS, Selection, planned_runs
from bench.kube.schedulers import SCHEDULERS
from bench.kube.workloads import WORKLOADS

NODES = (1_000, 5_000)
PAGE = Path("docs/benchmarks.md")
# A smoke test of two minutes; its figures are not meaningful.
QUICK = Selection(
    (200,), ("plain", "burst"), ("afflux", "kube-scheduler", "null"), (STREAM,), 1_500
)


def main() -> int:
    """Runs the benchmark and prints its tables."""
    options = _parser().parse_args()
    if options.write_docs:
        about, runs = _read(options.write_docs)
        text = docs_section.rewritten(PAGE.read_text(encoding="utf-8"), about, runs)
        PAGE.write_text(text, encoding="utf-8")
        if options.plot:
            _write(options.plot, draw(medians(runs)))
        return 0
    all_planned = planned_runs(QUICK if options.quick else _chosen(options))
    try:
        plans = _plans(all_planned, options.seed)
        for part in (build, build_load, build_helm):
            part()
    except (ValueError, BuildError) as error:
        print(error, file=sys.stderr)
        return 1
    about = _machine()
    print(about, file=sys.stderr)
    runs = _run(all_planned, plans, options.seed, options.json, about)
    found = report.ordered(medians(runs))
    print(format_table(report.HEADER, report.rows(found)))
    print(f"\n{report.EXPLAINED}\n")
    if lines := report.share_rows(found):
        print("Relative to the null binder:")
        print(format_table(report.SHARES_HEADER, lines), end="\n\n")
    if goals := report.goals(found):
        print(format_table(report.GOALS_HEADER, report.goal_rows(goals)), end="\n\n")
    for nodes, p50, p99 in report.idle_delays(found):
        print(
            f"{nodes:,} nodes, at a trickle: {report.milliseconds(p50)} ms longer than the null "
            f"binder, at the 99th percentile {report.milliseconds(p99)} ms"
        )
    wrong = report.wrong(found)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    if options.plot:
        _write(options.plot, draw(found))
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.kube", description=__doc__)
    parser.add_argument("--nodes", nargs="+", type=int, default=list(NODES))
    about = "; ".join(f"{each.name}: {each.about}" for each in ALL_WORKLOADS.values())
    parser.add_argument(
        "--workloads", nargs="+", choices=ALL_WORKLOADS, default=list(WORKLOADS), help=about
    )
    parser.add_argument("--schedulers", nargs="+", choices=SCHEDULERS, default=list(SCHEDULERS))
    parser.add_argument("--modes", nargs="+", choices=MODES, help="default: those of each workload")
    parser.add_argument(
        "--pods",
        type=int,
        default=DEFAULT_PODS,
        help=f"pods of the plain workload ({DEFAULT_PODS:,}); the others scale in proportion",
    )
    parser.add_argument(
        "--repeats", type=int, default=1, help="runs of each case; the median counts"
    )
    parser.add_argument("--quick", action="store_true", help="a smoke test of two minutes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", metavar="FILE", help="write the figures of each run")
    parser.add_argument("--plot", metavar="FILE", help="draw the figures as SVG")
    parser.add_argument(
        "--write-docs",
        metavar="FILE",
        help=f"measure nothing: write the figures of FILE into {PAGE}",
    )
    return parser


def _chosen(options: argparse.Namespace) -> Selection:
    return Selection(
        options.nodes,
        options.workloads,
        options.schedulers,
        options.modes,
        options.pods,
        options.repeats,
    )


def _plans(all_planned: Sequence[Run], seed: int) -> dict[tuple[int, str], Plan]:
    """The plans of all sizes and workloads, made before the first run: some are impossible."""
    return {
        (nodes, workload): ALL_WORKLOADS[workload].plan(nodes, pods, Random(seed))
        for nodes, workload, pods in {(run.nodes, run.workload, run.pods) for run in all_planned}
    }


def _run(
    all_planned: Sequence[Run],
    plans: Mapping[tuple[int, str], Plan],
    seed: int,
    keep: str | None,
    about: str,
) -> list[Run]:
    done: list[Run] = []
    began = time.monotonic()
    for number, planned in enumerate(all_planned, start=1):
        name = f"{planned.nodes:,} nodes, {planned.workload}, {planned.mode}, {planned.scheduler}"
        bar = tqdm(total=planned.pods, desc=name, disable=None, leave=False, unit="pod")

        def progress(_: int, bound: int, bar: "tqdm[Never]" = bar) -> None:
            bar.update(bound - bar.n)

        with bar:
            run = _one(planned, plans[planned.nodes, planned.workload], progress)
        done.append(run)
        minutes = (time.monotonic() - began) / 60
        print(
            f"[{number}/{len(all_planned)}, {minutes:.1f} min] {name}: {_line(run)}",
            file=sys.stderr,
        )
        if keep:
            _write(keep, _as_json(about, seed, done))
    return done


def _one(planned: Run, plan: Plan, progress: Progress) -> Run:
    """Carries out one run. A failed run becomes a result with complaints."""
    try:
        return measure(planned, plan, SCHEDULERS[planned.scheduler], progress)
    except (LoadError, StartError, ApiError, RuntimeError, OSError) as error:
        return replace(planned, complaints=[f"{type(error).__name__}: {error}"])


def _line(run: Run) -> str:
    if run.complaints:
        return f"FAILED: {run.complaints[0]}"
    rate, cpu = report.number(run.pods_per_second), report.number(run.cpu_per_thousand, 2)
    others = (
        f", other processes used {run.stolen:.0%} of the machine"
        if (run.stolen or 0) > 0.05
        else ""
    )
    return f"{run.placed:,} placed, {rate} pods/s, {cpu} CPU s per 1,000{others}"


def _as_json(about: str, seed: int, runs: Sequence[Run]) -> str:
    """A JSON object with a line for each run and for each comparison with the null binder."""
    names = ("nodes", "workload", "mode", "scheduler")
    shares = [
        dict(zip(names, key, strict=True)) | parts
        for key, parts in report.shares(report.ordered(medians(runs))).items()
    ]
    head = json.dumps({"machine": about, "seed": seed}, indent=1).removesuffix("\n}")
    return f'{head},\n "runs": {_lines(map(as_dict, runs))},\n "of_null": {_lines(shares)}\n}}\n'


def _lines(objects: Iterable[object]) -> str:
    return "[\n  " + ",\n  ".join(map(json.dumps, objects)) + "\n ]"


def _read(name: str) -> tuple[str, list[Run]]:
    kept = json.loads(Path(name).read_text(encoding="utf-8"))
    return kept["machine"], [from_dict(each) for each in kept["runs"]]


def _machine() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    model = models[0] if models else platform.machine()
    return (
        f"{model}, {max(1, len(models))} cores, Python {platform.python_version()}, "
        f"Kubernetes {KUBERNETES_VERSION.removeprefix('v')}"
    )


def _write(name: str, text: str) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
