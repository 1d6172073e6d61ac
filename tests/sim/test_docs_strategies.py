"""docs/strategies.md is correct: its table, its commands, its configuration, its example."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from afflux.admit.strategies import BUILT_IN
from afflux.app import simulated_schedulers
from afflux.cli.arguments import SimulateOptions, parse
from afflux.config import read_configuration
from afflux.cycle.reservations import DelayCause
from afflux.sim.metrics import measure
from afflux.sim.replay import replay
from afflux.sim.result import Result
from afflux.sim.starts_csv import write_starts
from afflux.sim.swf import read_swf
from afflux.sim.workload_loader import load_workload

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "strategies.md").read_text()
LOG = DOCS / "examples" / "eight-jobs.swf"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def simulate(*strategies: str) -> list[Result]:
    log = load_workload([str(LOG)], None)
    chosen = simulated_schedulers([f"cpu-memory@{name}" for name in strategies])
    return [replay(log, each) for each in chosen]


def starts(result: Result) -> dict[str, float | None]:
    return {run.group: run.start for run in result.runs}


def table(first: str) -> list[list[str]]:
    """The cells of the table whose first column has this name, its header included."""
    found = re.search(rf"^\| {first} \|.*?(?=\n\n)", PAGE, re.DOTALL | re.MULTILINE)
    assert found, first
    lines = [line for line in found[0].splitlines() if not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_starts_are_those_of_the_table():
    header, *rows = table("job")
    strategies = [name.strip("`") for name in header[3:]]
    for place, result in enumerate(simulate(*strategies)):
        expected = {row[0]: float(row[3 + place]) for row in rows}
        assert starts(result) == expected, strategies[place]


def test_jobs_of_the_table_are_those_of_the_log():
    _, *rows = table("job")
    groups = [s.group for s in load_workload([str(LOG)], None).submissions]
    assert [(g.name, len(g.tasks), g.ready_seconds) for g in groups] == [
        (name, int(processors), float(submit)) for name, processors, submit, *_ in rows
    ]


def test_the_strategy_on_the_page_breaks_one_reservation():
    easy, compress, rebuild = (
        measure(result)["promises"]
        for result in simulate("easy", "conservative-compress", "conservative-rebuild")
    )
    assert (easy["broken"], compress["broken"]) == (0, 0)
    assert rebuild["broken_by"] == {"strategy": 1}


def test_every_strategy_has_a_row():
    named = {name for row in table("strategy")[1:] for name in re.findall(r"`([^`]+)`", row[0])}
    assert named == set(BUILT_IN)


def test_every_cause_and_figure_of_reservations_is_explained():
    assert [row[0].strip("`") for row in table("cause")[1:]] == [str(cause) for cause in DelayCause]
    figures = measure(simulate("easy")[0])["promises"]
    assert [row[0].strip("`") for row in table("figure")[1:]] == list(figures)


def test_the_configuration_is_valid(tmp_path: Path):
    (example,) = blocks("yaml")
    path = tmp_path / "afflux.yaml"
    path.write_text(example)
    default, batch, planned = read_configuration(str(path)).settings.queue_rules()
    assert (default.strategy, batch.strategy, planned.strategy) == ("flow", "easy", "hybrid")
    assert (batch.depth, batch.default_run_seconds, batch.max_group_size) == (500, 7200.0, 256)
    assert (planned.max_reservations, planned.hold_for_endless) == (100, True)


@pytest.mark.parametrize(
    "command", re.findall(r"^afflux .+$|(?<=`)afflux simulate[^`]+", PAGE, re.MULTILINE)
)
def test_commands_are_valid(command: str):
    options = parse(shlex.split(command)[1:])
    assert isinstance(options, SimulateOptions)


def test_the_command_for_starts_prints_one_line_per_job(tmp_path: Path):
    (result,) = simulate("easy")
    write_starts(result, tmp_path / "starts.csv")
    (command,) = re.findall(r"^awk .+$", PAGE, re.MULTILINE)
    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert dict(line.split() for line in done.stdout.splitlines()) == {
        name: f"{start:g}" for name, start in starts(result).items()
    }


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example as an installed package."""
    (example,) = blocks("python")
    (declared,) = blocks("toml")
    name, module, function = re.search(
        r'^([\w-]+) = "([\w.]+):(\w+)"', declared, re.MULTILINE
    ).groups()
    path = tmp_path.joinpath(*module.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True)
    (path.parent / "__init__.py").touch()
    path.write_text(example)
    about = tmp_path / "my_package-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[afflux.strategies]\n{name} = {module}:{function}\n")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("shipped")
def test_the_strategy_of_the_example_can_be_installed_and_starts_the_shortest_first():
    # At 10 one of three processors is free; job 3 needs all of them, at 100.
    jobs = [(1, 0, 100, 2), (2, 0, 10, 1), (3, 1, 50, 3), (4, 2, 80, 1), (5, 3, 20, 1)]
    lines = [f"{n} {at} -1 {run} {size} -1 -1 -1 {run}" + " -1" * 9 for n, at, run, size in jobs]
    log = read_swf("\n".join(lines) + "\n", "five jobs", 3)
    easy, shortest = (
        replay(log, each)
        for each in simulated_schedulers(["cpu-memory@easy", "cpu-memory@shortest-first"])
    )
    assert starts(easy) == {"1": 0, "2": 0, "3": 100, "4": 10, "5": 150}
    assert starts(shortest) == {"1": 0, "2": 0, "3": 100, "4": 150, "5": 10}


@pytest.mark.usefixtures("shipped")
def test_the_strategy_of_the_example_breaks_no_reservation():
    (shortest,) = simulate("shortest-first")
    reservations = measure(shortest)["promises"]
    assert reservations["made"] > 0
    assert reservations["broken"] == 0
    assert all(run.start is not None for run in shortest.runs)


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", PAGE))
def test_links_have_targets(link: str):
    assert (DOCS / link).exists()
