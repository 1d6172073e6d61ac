"""python -m bench.conformance: Kubernetes' own scheduling specs, with two schedulers in turn."""

import argparse
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from testbed import BuildError, StartError, build, build_e2e, build_helm
from testbed.building import KUBERNETES_VERSION
from tqdm import tqdm

from afflux.cli.text_table import format_table
from bench.conformance import page
from bench.conformance.cluster import running_cluster
from bench.conformance.results import Record, SpecResult, complaints, passed
from bench.conformance.suite import NAME, Selection, SuiteError, run_suite
from bench.kube.schedulers import AFFLUX, PEER, afflux, kube_scheduler

SCHEDULERS = {PEER: kube_scheduler, AFFLUX: afflux}
VERSIONS = {PEER: KUBERNETES_VERSION.removeprefix("v"), AFFLUX: version("afflux")}
RECORD = Path("docs/conformance.json")
PAGE = Path("docs/conformance.md")
LOGS = Path("out/conformance")


def main() -> int:
    """Runs the suite with each scheduler, prints the table, and records a run that is no worse."""
    options = _parser().parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    selection = Selection(options.focus, options.skip)
    recorded = _recorded()
    record = Record(KUBERNETES_VERSION)
    try:
        build()
        build_helm()
        program = build_e2e()
        for scheduler in options.schedulers:
            found = _run(program, scheduler, selection)
            record = record.with_results(scheduler, VERSIONS[scheduler], found)
    except (BuildError, StartError, SuiteError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(format_table(["spec", "conformance", *record.results], page.rows(record)))
    for scheduler, found in record.results.items():
        print(f"{scheduler}: {passed(found)} of {len(found)} specs passed")
    if not selection.whole:
        return 0
    wrong = _wrong(record, recorded, options.at_least)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    if not wrong:
        _write(record, recorded)
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.conformance", description=__doc__)
    parser.add_argument(
        "--schedulers", nargs="+", choices=SCHEDULERS, default=list(SCHEDULERS), metavar="NAME"
    )
    parser.add_argument(
        "--at-least",
        type=_demand,
        nargs="+",
        default=[],
        metavar="NAME=SPECS",
        help="fail if fewer specs pass with a scheduler",
    )
    parser.add_argument(
        "--focus",
        nargs="+",
        default=[],
        metavar="PATTERN",
        help="run only the specs whose names match a regular expression, and record nothing",
    )
    parser.add_argument(
        "--skip", nargs="+", default=[], metavar="PATTERN", help="the specs that do not run"
    )
    return parser


def _demand(text: str) -> tuple[str, int]:
    scheduler, _, specs = text.partition("=")
    if scheduler not in SCHEDULERS or not specs.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}, want NAME=SPECS, such as {AFFLUX}=27")
    return scheduler, int(specs)


def _run(program: Path, scheduler: str, selection: Selection) -> list[SpecResult]:
    """Runs the suite on a fresh cluster. The logs stay in LOGS."""
    found: list[SpecResult] = []
    began = time.monotonic()
    with running_cluster() as plane, tqdm(desc=scheduler, disable=None, leave=False) as bar:

        def started(name: str, specs: int) -> None:
            bar.total = specs
            bar.set_postfix_str(name)

        def ended(result: SpecResult) -> None:
            found.append(result)
            bar.update()
            minutes = (time.monotonic() - began) / 60
            line = f"{result.state} after {result.seconds:.0f} s: {result.title}"
            tqdm.write(
                f"[{scheduler} {len(found)}/{bar.total}, {minutes:.1f} min] {line}", sys.stderr
            )

        try:
            with contextmanager(SCHEDULERS[scheduler])(plane):
                run_suite(program, plane, selection, started, ended)
        finally:
            LOGS.mkdir(parents=True, exist_ok=True)
            for log, kept in ((NAME, "suite"), (scheduler, "scheduler")):
                if plane.log(log).exists():
                    shutil.copy(plane.log(log), LOGS / f"{scheduler}-{kept}.log")
    return found


def _wrong(record: Record, recorded: Record, demands: Sequence[tuple[str, int]]) -> list[str]:
    at_least: Mapping[str, int] = dict(demands)
    return [
        complaint
        for scheduler, found in record.results.items()
        for complaint in complaints(
            scheduler, found, recorded.results.get(scheduler, ()), at_least.get(scheduler, 0)
        )
    ]


def _recorded() -> Record:
    """The recorded results; none of another version of the specs."""
    if RECORD.exists():
        record = Record.from_json(RECORD.read_text(encoding="utf-8"))
        if record.kubernetes == KUBERNETES_VERSION:
            return record
    return Record(KUBERNETES_VERSION)


def _write(record: Record, recorded: Record) -> None:
    """Records this run; a scheduler that did not run keeps its recorded results."""
    whole = recorded
    for scheduler, found in record.results.items():
        whole = whole.with_results(scheduler, record.versions[scheduler], found)
    RECORD.write_text(whole.as_json(), encoding="utf-8")
    text = page.rewritten(PAGE.read_text(encoding="utf-8"), whole)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
