"""afflux simulate: a workload under one or more schedulers, on a virtual clock."""

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from run_afflux import Afflux, swf

from afflux.sim.replay import replay

SMALL = "synthetic:mixed,machines=10,tasks=60,hours=2"
SCHEDULERS = ["cpu-memory", "load-spreading", "pod-by-pod", "cpu-memory@fcfs"]

# Two processors: job 2 waits for job 1, which takes both.
LOG = swf([(1, 0, 100, 2), (2, 10, 50, 1), (3, 20, 30, 1)], processors=2)
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,8000,16384,2,T4\nn2,8000,16384,0,\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n"
    "p1,4000,1024,1,600,,0,100\n"
    "p2,4000,1024,1,600,T4,0,100\n"
    "p3,4000,1024,1,600,,0,100\n"
    "p4,1000,1024,0,0,,5,50\n"
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.swf"
    path.write_text(LOG)
    return path


@pytest.fixture
def openb(tmp_path: Path) -> tuple[Path, Path]:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text(NODES)
    pods.write_text(PODS)
    return nodes, pods


def starts(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


# --- Workloads


def test_a_log_is_replayed(afflux: Afflux, log: Path) -> None:
    (metrics,) = afflux("simulate", log, "--json").json
    assert metrics["workload"] == "log"
    assert (metrics["machines"], metrics["groups"], metrics["tasks"]) == (2, 3, 4)
    # Job 1 runs until 100; then both others start at once.
    assert metrics["wait_seconds"]["max"] == 90
    assert metrics["wait_seconds"]["mean"] == pytest.approx((0 + 90 + 80) / 3)
    assert metrics["makespan_seconds"] == 150


def test_the_size_of_the_machine_can_be_set(afflux: Afflux, log: Path) -> None:
    (metrics,) = afflux("simulate", log, "--machines", "4", "--json").json
    assert metrics["machines"] == 4
    assert metrics["wait_seconds"]["max"] == 0


def test_node_and_pod_lists_are_replayed_in_any_order(
    afflux: Afflux, openb: tuple[Path, Path]
) -> None:
    nodes, pods = openb
    (one,), (other,) = (
        afflux("simulate", *files, "--json").json for files in ((nodes, pods), (pods, nodes))
    )
    # 600 thousandths of a device each: two devices hold two of the three, sums do not count.
    assert one["wait_seconds"]["max"] == 100
    assert one["unplaced"] == 0
    for metrics in (one, other):
        del metrics["cycle_seconds"]
    assert one == other


def test_synthetic_workloads_need_no_data(afflux: Afflux) -> None:
    (metrics,) = afflux("simulate", SMALL, "--json").json
    assert metrics["workload"] == SMALL
    assert (metrics["machines"], metrics["tasks"]) == (10, 60)


# --- JSON


def test_json_is_one_object_per_scheduler_with_the_documented_figures(afflux: Afflux) -> None:
    answer = afflux("simulate", SMALL, "--compare", *SCHEDULERS, "--json").json
    assert [metrics["scheduler"] for metrics in answer] == SCHEDULERS
    for metrics in answer:
        assert metrics["version"] == 1
        assert {"mean", "p95", "max"} <= metrics["wait_seconds"].keys()
        assert {"mean", "p95"} <= metrics["bounded_slowdown"].keys()
        assert {"p50", "p99"} <= metrics["cycle_seconds"].keys()
        assert {"utilisation", "makespan_seconds"} <= metrics.keys()
        assert {"unplaced", "preemptions", "migrations"} <= metrics.keys()


def test_the_json_of_one_scheduler_is_an_array(afflux: Afflux, log: Path) -> None:
    answer = afflux("simulate", log, "--json").json
    assert isinstance(answer, list)
    assert len(answer) == 1


def test_a_workload_in_which_nothing_can_start_has_figures(afflux: Afflux, tmp_path: Path) -> None:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,1,1,0,\n")
    pods.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np1,5,5,0,0\n")
    answer = afflux("simulate", nodes, pods, "--compare", *SCHEDULERS, "--json")
    for metrics in answer.json:
        assert metrics["unplaced"] == 1
        assert metrics["wait_seconds"]["mean"] is None
    table = afflux("simulate", nodes, pods)
    assert table.code == 0
    assert "nan" not in table.out


def test_the_same_command_gives_the_same_figures(afflux: Afflux) -> None:
    def figures() -> Any:
        answer = afflux("simulate", SMALL, "--compare", *SCHEDULERS, "--json").json
        for metrics in answer:
            del metrics["cycle_seconds"]
        return answer

    assert figures() == figures()


# --- Schedulers


def test_by_default_one_scheduler_runs(afflux: Afflux, log: Path) -> None:
    (metrics,) = afflux("simulate", log, "--json").json
    assert metrics["scheduler"] == "cpu-memory@flow"


@pytest.mark.parametrize(
    ("flags", "scheduler"),
    [
        (["--policy", "load-spreading"], "load-spreading@flow"),
        (["--strategy", "fcfs"], "cpu-memory@fcfs"),
        (["--policy", "cpu-memory+load-spreading"], "cpu-memory+load-spreading@flow"),
        (["--policy", "load-spreading@fcfs"], "load-spreading@fcfs"),
        (["--policy", "pod-by-pod"], "pod-by-pod"),
        (["--compare", "load-spreading"], "load-spreading"),
        (["--compare", "load-spreading", "--strategy", "fcfs"], "load-spreading@fcfs"),
        (["--compare", "pod-by-pod", "--strategy", "fcfs"], "pod-by-pod"),
    ],
)
def test_policy_and_strategy_select_the_scheduler(
    afflux: Afflux, log: Path, flags: list[str], scheduler: str
) -> None:
    (metrics,) = afflux("simulate", log, "--json", *flags).json
    assert metrics["scheduler"] == scheduler


def test_the_strategy_decides_which_groups_start(afflux: Afflux, tmp_path: Path) -> None:
    # Job 2 needs the whole machine; job 3 would fit beside job 1.
    path = tmp_path / "log.swf"
    path.write_text(swf([(1, 0, 100, 1), (2, 1, 10, 2), (3, 2, 10, 1)], processors=2))
    answer = afflux("simulate", path, "--json", "--compare", "cpu-memory", "cpu-memory@fcfs").json
    assert [m["wait_seconds"]["max"] for m in answer] == [99, 108]


def test_a_configuration_file_selects_the_scheduler(
    afflux: Afflux, log: Path, tmp_path: Path
) -> None:
    config = tmp_path / "afflux.yaml"
    config.write_text(
        "apiVersion: afflux.dev/v1alpha1\nkind: AffluxConfiguration\nstrategy: fcfs\n"
        "policies: [{name: load-spreading, args: {per_task: 7}}]\n"
    )
    (metrics,) = afflux("simulate", log, "--json", "--config", config).json
    assert metrics["scheduler"] == "load-spreading@fcfs"


def test_with_an_interval_the_scheduler_runs_at_its_multiples(
    afflux: Afflux, log: Path, tmp_path: Path
) -> None:
    out = tmp_path / "starts.csv"
    assert afflux("simulate", log, "--interval", "60", "--starts", out).code == 0
    assert [row["start"] for row in starts(out)] == ["0", "0", "120", "120"]


# --- Starts


def test_starts_are_a_csv_file_with_one_line_per_task(
    afflux: Afflux, log: Path, tmp_path: Path
) -> None:
    out = tmp_path / "starts.csv"
    assert afflux("simulate", log, "--starts", out).code == 0
    lines = out.read_text().splitlines()
    assert lines[0] == "task,group,submit,start,end,machine"
    assert [line.rsplit(",", 1)[0] for line in lines[1:]] == [
        "1.0,1,0,0,100",
        "1.1,1,0,0,100",
        "2.0,2,10,100,150",
        "3.0,3,20,100,130",
    ]
    assert {line.rsplit(",", 1)[1] for line in lines[1:]} == {"processor-0", "processor-1"}


def test_each_compared_scheduler_has_its_own_starts(
    afflux: Afflux, log: Path, tmp_path: Path
) -> None:
    out = tmp_path / "starts.csv"
    assert afflux("simulate", log, "--starts", out, "--compare", *SCHEDULERS).code == 0
    files = [tmp_path / f"starts.{scheduler}.csv" for scheduler in SCHEDULERS]
    assert all(len(starts(file)) == 4 for file in files)
    assert not out.exists()


def test_starts_replace_an_existing_file(afflux: Afflux, log: Path, tmp_path: Path) -> None:
    out = tmp_path / "starts.csv"
    out.write_text("old " * 10_000)
    assert afflux("simulate", log, "--starts", out).code == 0
    assert len(starts(out)) == 4


# --- Tables and reports


def test_the_table_has_a_column_per_scheduler(afflux: Afflux, log: Path) -> None:
    answer = afflux("simulate", log, "--compare", "cpu-memory", "pod-by-pod")
    title, blank, header, *rows = answer.out.splitlines()
    assert (title, blank) == ("log: 4 tasks, 2 machines", "")
    assert header.split() == ["cpu-memory", "pod-by-pod"]
    assert {len(line) for line in rows} == {len(header)}, "figures are aligned to the right"
    labels = [row[:22].strip() for row in rows]
    assert labels[0] == "mean wait"
    assert {"utilisation", "makespan", "tasks not placed", "cycle, p99"} <= set(labels)
    assert answer.err == "", "no progress bar in a pipe"


def test_the_table_has_backfilled_groups_and_the_causes_of_broken_reservations(
    afflux: Afflux,
) -> None:
    log = Path(__file__).parents[2] / "docs" / "examples" / "eight-jobs.swf"
    schedulers = [f"cpu-memory@{name}" for name in ("fcfs", "easy", "conservative-rebuild")]
    lines = afflux("simulate", log, "--compare", *schedulers).out.splitlines()
    rows = {line[:22].strip(): line[22:].split() for line in lines if line}
    assert rows["backfilled"] == ["0.0", "%", "25.0", "%", "12.5", "%"]
    assert rows["reservations"] == ["0", "4", "6"]
    assert rows["reservations broken"] == ["0", "0", "1"]
    assert rows["- strategy"] == ["-", "-", "1"]
    answer = afflux("simulate", log, "--compare", *schedulers, "--json").json
    assert [metrics["backfilled"] for metrics in answer] == [0, 0.25, 0.125]


def test_a_report_is_written_and_its_path_printed(
    afflux: Afflux, log: Path, tmp_path: Path
) -> None:
    out = tmp_path / "report.html"
    answer = afflux("simulate", log, "--report", out, "--compare", "cpu-memory", "pod-by-pod")
    assert answer.out.endswith(f"\n\nreport: {out}\n")
    page = out.read_text()
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert "pod-by-pod" in page


def test_json_and_files_can_be_combined(afflux: Afflux, log: Path, tmp_path: Path) -> None:
    out, report = tmp_path / "starts.csv", tmp_path / "report.html"
    answer = afflux("simulate", log, "--json", "--starts", out, "--report", report)
    assert json.loads(answer.out)
    assert out.exists()
    assert report.exists()


# --- Errors are found before the simulation, and leave no files


@pytest.fixture
def no_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    import afflux.cli.simulate

    def refuse(*_: object) -> None:
        raise AssertionError("a simulation was started")

    assert afflux.cli.simulate.replay is replay
    monkeypatch.setattr(sys.modules["afflux.cli.simulate"], "replay", refuse)


@pytest.mark.usefixtures("no_simulation")
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--policy", "fastest"], ["'fastest'", "cpu-memory", "load-spreading"]),
        (["--policy", ""], ["''", "cpu-memory"]),
        (["--strategy", "luck"], ["'luck'", "flow", "fcfs"]),
        (["--policy", "cpu-memory@"], ["strategy ''", "flow"]),
        (["--policy", "cpu-memory@fcfs", "--strategy", "flow"], ["--strategy", "'flow'"]),
        (["--policy", "cpu-memory+cpu-memory"], ["'cpu-memory'", "twice"]),
        (["--policy", "cpu-memory+pod-by-pod"], ["pod-by-pod", "alone"]),
        (["--policy", "pod-by-pod", "--strategy", "fcfs"], ["pod-by-pod", "without a strategy"]),
        (["--compare", "cpu-memory", "fastest"], ["'fastest'", "load-spreading"]),
        (["--compare", "cpu-memory", "cpu-memory"], ["--compare", "'cpu-memory'", "twice"]),
        (["--compare", "cpu-memory", "--policy", "cpu-memory"], ["--policy", "--compare"]),
        (["--compare", "cpu-memory", "--config", "x"], ["--config", "'x'", "--compare"]),
        (["--config", "x", "--policy", "cpu-memory"], ["--policy", "--config"]),
        (["--config", "no-such-file"], ["'no-such-file'", "No such file"]),
        (["--machines", "0"], ["--machines", "'0'", "1 to"]),
        (["--machines", "-3"], ["--machines"]),
        (["--machines", "1e3"], ["--machines", "'1e3'", "integer"]),
        (["--machines", "9" * 5000], ["--machines", "1 to"]),
        (["--interval", "-1"], ["--interval", "'-1'", "seconds"]),
        (["--interval", "nan"], ["--interval", "'nan'", "seconds"]),
        (["--interval", "inf"], ["--interval", "'inf'"]),
        (["--mashines", "3"], ["--mashines"]),
        (["--mach", "3"], ["--mach"]),
    ],
)
def test_wrong_arguments_are_refused(
    afflux: Afflux, log: Path, flags: list[str], words: list[str]
) -> None:
    complaint = afflux("simulate", log, *flags).complaint
    assert complaint.startswith("afflux")
    for word in words:
        assert word in complaint


@pytest.mark.usefixtures("no_simulation")
@pytest.mark.parametrize("flag", ["--starts", "--report"])
def test_an_unwritable_output_is_found_before_the_simulation(
    afflux: Afflux, log: Path, tmp_path: Path, flag: str
) -> None:
    (tmp_path / "file").write_text("")
    for path in (
        tmp_path / "no" / "such" / "folder.csv",
        tmp_path,
        f"{tmp_path}/new/",
        tmp_path / "file" / "below",
        tmp_path / ("x" * 300),
        Path("/proc/no-new-files-here"),
        "",
    ):
        complaint = afflux("simulate", log, flag, path).complaint
        assert "cannot be written" in complaint
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "log.swf"]


@pytest.mark.usefixtures("no_simulation")
def test_two_outputs_need_two_files(afflux: Afflux, log: Path, tmp_path: Path) -> None:
    out, link = tmp_path / "out", tmp_path / "link"
    link.symlink_to(out)
    assert "two outputs" in afflux("simulate", log, "--starts", out, "--report", link).complaint


@pytest.mark.usefixtures("no_simulation")
def test_an_input_is_never_overwritten(afflux: Afflux, log: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(log)
    assert "also an input" in afflux("simulate", log, "--starts", link).complaint
    assert log.read_text() == LOG


def test_bad_input_leaves_old_and_new_outputs_alone(afflux: Afflux, tmp_path: Path) -> None:
    log, old, new = (tmp_path / name for name in ("log.swf", "old.csv", "new.html"))
    log.write_text(LOG + "7 1 2 3\n")
    old.write_text("what was there")
    complaint = afflux("simulate", log, "--starts", old, "--report", new).complaint
    assert complaint.startswith(f"afflux simulate: {log}, line 5: 4 fields; expected 18")
    assert old.read_text() == "what was there"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.swf", "old.csv"]
