"""The report of the conformance suite is followed while another process writes it."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # bench is not part of the package

from bench.conformance.results import SpecResult
from bench.conformance.suite import SuiteError, follow
from testbed.processes import ProcessReaper, Program, RunningProgram

# Writes each argument as it is, and says goodbye in its log.
WRITER = """
import sys
with open(sys.argv[1], "w") as report:
    for part in sys.argv[2:]:
        print(part, end="", file=report, flush=True)
print("goodbye")
"""


@pytest.fixture
def reaper(tmp_path: Path) -> Iterator[ProcessReaper]:
    own = tmp_path / "reaper"
    own.mkdir()
    found = ProcessReaper(own)
    yield found
    found.close()


def line(event: str, **fields: object) -> str:
    return json.dumps({"event": event, **fields}) + "\n"


def seen(
    parts: Sequence[str], reaper: ProcessReaper, directory: Path
) -> tuple[list[tuple[str, int]], list[SpecResult]]:
    report = directory / "report"
    command = [sys.executable, "-c", WRITER, str(report), *parts]
    running = RunningProgram(Program("writer", command, "", directory / "log"), reaper)
    begun: list[tuple[str, int]] = []
    done: list[SpecResult] = []
    try:
        follow(report, running, lambda name, specs: begun.append((name, specs)), done.append)
    finally:
        running.kill()
    return begun, done


def test_specs_are_told_as_they_begin_and_end(reaper: ProcessReaper, tmp_path: Path) -> None:
    whole = line("started", name="b") + line("ended", name="b", state="failed", failure="c != d")
    parts = [
        line("suite", specs=2),
        line("started", name="a"),
        line("ended", name="a", state="passed", conformance=True, seconds=2.5),
        *whole,  # character by character
    ]
    begun, done = seen(parts, reaper, tmp_path)
    assert begun == [("a", 2), ("b", 2)]
    assert done == [SpecResult("a", True, "passed"), SpecResult("b", False, "failed", "c != d")]
    assert done[0].seconds == 2.5


@pytest.mark.parametrize(
    "parts",
    [[], [line("suite", specs=1)], [line("suite", specs=1), line("started", name="a")]],
    ids=["before the specs are known", "before the first spec", "within a spec"],
)
def test_a_suite_that_ends_early_is_an_error_with_the_end_of_its_log(
    parts: Sequence[str], reaper: ProcessReaper, tmp_path: Path
) -> None:
    with pytest.raises(SuiteError, match="goodbye"):
        seen(parts, reaper, tmp_path)
