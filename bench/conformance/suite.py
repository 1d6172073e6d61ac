"""Runs the suite on a control plane and follows its report, spec by spec."""

import json
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed import ControlPlane
from testbed.processes import ProcessReaper, Program, RunningProgram, tail

from bench.conformance.cluster import NODES
from bench.conformance.results import SpecResult

NAME = "e2e"
POLL_SECONDS = 0.2
# The first lines of a message say what was expected; whole objects may follow.
FAILURE_LINES = 2

Started = Callable[[str, int], None]
"""Called with the name of a spec that begins, and the number of specs of the run."""
Ended = Callable[[SpecResult], None]


class SuiteError(Exception):
    """The suite did not run to its end; the message has the end of its log."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The specs whose names match one of `focus`, if there are any, and none of `skip`."""

    focus: Sequence[str] = ()
    skip: Sequence[str] = ()

    @property
    def whole(self) -> bool:
        """Whether all specs are selected."""
        return not self.focus and not self.skip


def run_suite(
    program: Path, plane: ControlPlane, selection: Selection, started: Started, ended: Ended
) -> None:
    """Runs the selected specs; raises SuiteError if the suite does not run to its end."""
    report = plane.directory / "specs.jsonl"
    command = [
        str(program),
        f"--spec-report={report}",
        f"--kubeconfig={plane.kubeconfig}",
        f"--e2e-output-dir={plane.directory}",
        # No cloud and no images: nothing outside the API server is looked at.
        "--provider=skeleton",
        f"--num-nodes={NODES}",
        # Do not wait for the DaemonSets of an installation: there are none.
        "--allowed-not-ready-nodes=-1",
        "--ginkgo.v",
        "--ginkgo.no-color",
        # The same order in every run.
        "--ginkgo.seed=1",
        "--ginkgo.timeout=6h",
        *(f"--ginkgo.focus={pattern}" for pattern in selection.focus),
        *(f"--ginkgo.skip={pattern}" for pattern in selection.skip),
    ]
    own = plane.directory / f"{NAME}-reaper"
    own.mkdir()
    reaper = ProcessReaper(own)
    running = RunningProgram(Program(NAME, command, "", plane.log(NAME)), reaper)
    try:
        follow(report, running, started, ended)
    finally:
        running.kill()
        reaper.close()


def follow(report: Path, running: RunningProgram, started: Started, ended: Ended) -> None:
    """Passes the lines of the report on while the suite runs; raises SuiteError."""
    specs: int | None = None
    seen = 0
    for line in _lines(report, running):
        match line.pop("event"):
            case "suite":
                specs = line["specs"]
            case "started":
                started(line["name"], specs or 0)
            case _:
                seen += 1
                ended(_result(line))
    if specs is None or seen != specs:
        raise SuiteError(
            f"the suite ended after {seen} of {specs or 'an unknown number of'} specs; the end of "
            f"its log:\n{tail(running.program.log)}"
        )


def _result(line: dict[str, Any]) -> SpecResult:
    return SpecResult(
        name=line["name"],
        conformance=line.get("conformance", False),
        state=line["state"],
        failure="\n".join(line.get("failure", "").splitlines()[:FAILURE_LINES]),
        seconds=line.get("seconds", 0.0),
    )


def _lines(report: Path, running: RunningProgram) -> Generator[dict[str, Any]]:
    """The lines of the report until the program has ended."""
    text = ""
    at = 0
    while True:
        alive = running.alive
        if report.exists():
            with report.open(encoding="utf-8") as file:
                file.seek(at)
                text += file.read()
                at = file.tell()
            *whole, text = text.split("\n")
            yield from map(json.loads, whole)
        if not alive:
            return
        time.sleep(POLL_SECONDS)
