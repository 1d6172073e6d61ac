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

from afflux.cli.tables import table
from bench.kube import page, report
from bench.kube.cases import FULL, Chosen, blank_runs
from bench.kube.contestants import CONTESTANTS
from bench.kube.driving import LoadError, Progress
from bench.kube.figures import MODES, STREAM, Run, as_dict, from_dict, middles
from bench.kube.measuring import measure
from bench.kube.plans import Plan
from bench.kube.plot import draw
from bench.kube.workloads import WORKLOADS

NODES = (1_000, 5_000)
PAGE = Path("docs/benchmarks.md")
# A run of two minutes, to see that everything works: its figures mean little.
QUICK = Chosen((200,), ("plain", "burst"), ("afflux", "kube-scheduler", "null"), (STREAM,), 1_500)


def main() -> int:
    """Run what was asked for and print it."""
    options = _parser().parse_args()
    if options.write_docs:
        about, runs = _read(options.write_docs)
        PAGE.write_text(page.rewritten(PAGE.read_text(encoding="utf-8"), about, runs), "utf-8")
        if options.plot:
            _write(options.plot, draw(middles(runs)))
        return 0
    blanks = blank_runs(QUICK if options.quick else _chosen(options))
    try:
        plans = _plans(blanks, options.seed)
        for part in (build, build_load, build_helm):
            part()
    except (ValueError, BuildError) as error:
        print(error, file=sys.stderr)
        return 1
    about = _machine()
    print(about, file=sys.stderr)
    runs = _run(blanks, plans, options.seed, options.json, about)
    found = report.ordered(middles(runs))
    print(table(report.HEADER, report.rows(found)))
    print(f"\n{report.EXPLAINED}\n")
    if lines := report.share_rows(found):
        print("By the null binder's:")
        print(table(report.SHARES_HEADER, lines), end="\n\n")
    if goals := report.goals(found):
        print(table(report.GOALS_HEADER, report.goal_rows(goals)), end="\n\n")
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
    about = "; ".join(f"{each.name}: {each.about}" for each in WORKLOADS.values())
    parser.add_argument(
        "--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), help=about
    )
    parser.add_argument("--schedulers", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS))
    parser.add_argument("--modes", nargs="+", choices=MODES, help="otherwise by workload")
    parser.add_argument(
        "--pods", type=int, default=FULL, help=f"of the plain workload ({FULL:,}); others in step"
    )
    parser.add_argument("--repeats", type=int, default=1, help="of everything; the median counts")
    parser.add_argument("--quick", action="store_true", help="two minutes, to see that it works")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", metavar="FILE", help="keep the figures, run by run")
    parser.add_argument("--plot", metavar="FILE", help="draw them as SVG")
    parser.add_argument(
        "--write-docs", metavar="FILE", help=f"measure nothing: write kept figures into {PAGE}"
    )
    return parser


def _chosen(options: argparse.Namespace) -> Chosen:
    return Chosen(
        options.nodes,
        options.workloads,
        options.schedulers,
        options.modes,
        options.pods,
        options.repeats,
    )


def _plans(blanks: Sequence[Run], seed: int) -> dict[tuple[int, str], Plan]:
    """Of every size and workload, made before anything runs: some do not fit."""
    return {
        (nodes, workload): WORKLOADS[workload].plan(nodes, pods, Random(seed))
        for nodes, workload, pods in {(run.nodes, run.workload, run.pods) for run in blanks}
    }


def _run(
    blanks: Sequence[Run],
    plans: Mapping[tuple[int, str], Plan],
    seed: int,
    keep: str | None,
    about: str,
) -> list[Run]:
    done: list[Run] = []
    began = time.monotonic()
    for number, blank in enumerate(blanks, start=1):
        name = f"{blank.nodes:,} nodes, {blank.workload}, {blank.mode}, {blank.scheduler}"
        bar = tqdm(total=blank.pods, desc=name, disable=None, leave=False, unit="pod")

        def progress(_: int, bound: int, bar: "tqdm[Never]" = bar) -> None:
            bar.update(bound - bar.n)

        with bar:
            run = _one(blank, plans[blank.nodes, blank.workload], progress)
        done.append(run)
        minutes = (time.monotonic() - began) / 60
        print(f"[{number}/{len(blanks)}, {minutes:.1f} min] {name}: {_line(run)}", file=sys.stderr)
        if keep:
            _write(keep, _as_json(about, seed, done))
    return done


def _one(blank: Run, plan: Plan, progress: Progress) -> Run:
    """A run that fails is a result too: the others go on."""
    try:
        return measure(blank, plan, CONTESTANTS[blank.scheduler], progress)
    except (LoadError, StartError, ApiError, RuntimeError, OSError) as error:
        return replace(blank, complaints=[f"{type(error).__name__}: {error}"])


def _line(run: Run) -> str:
    if run.complaints:
        return f"FAILED: {run.complaints[0]}"
    rate, cpu = report.number(run.pods_per_second), report.number(run.cpu_per_thousand, 2)
    others = f", others took {run.stolen:.0%} of the machine" if (run.stolen or 0) > 0.05 else ""
    return f"{run.placed:,} placed, {rate} pods/s, {cpu} CPU s per 1,000{others}"


def _as_json(about: str, seed: int, runs: Sequence[Run]) -> str:
    """One object, with a line for each run, and one for each share of the null binder's figures."""
    names = ("nodes", "workload", "mode", "scheduler")
    shares = [
        dict(zip(names, key, strict=True)) | parts
        for key, parts in report.shares(report.ordered(middles(runs))).items()
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
