"""The command as a process: streams, pipes, signals, terminals, imports."""

import contextlib
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cluster_manifests import listed, node, pod, write
from run_afflux import AFFLUX, process, shell, swf

pytestmark = pytest.mark.slow

# Long enough to be interrupted on any machine.
LONG = "synthetic:mixed,machines=1000,tasks=20000,load=1.5"


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    pods = [pod(f"p{number:03d}") for number in range(100)]
    return write(tmp_path / "cluster.json", node("n1"), *pods)


def read_all(terminal: int) -> bytes:
    """The output of a terminal until its last program has ended."""
    shown = b""
    with contextlib.suppress(OSError):  # Linux reports a closed terminal by EIO
        while piece := os.read(terminal, 65536):
            shown += piece
    os.close(terminal)
    return shown


# --- Exit codes


def test_exit_codes(tmp_path: Path, cluster: Path) -> None:
    assert process("place", cluster).code == 0
    assert process("place", tmp_path / "none").code == 2
    assert process("no-such-command").code == 2
    assert process("--help").code == 0
    assert process("--version").out.startswith("afflux ")
    assert process().out.startswith("usage: afflux")


def test_the_installed_command_is_the_module(cluster: Path) -> None:
    command = Path(sys.executable).with_name("afflux")
    assert command.exists(), "make setup installs it"
    done = subprocess.run([command, "place", cluster], capture_output=True, check=True)
    assert done.stdout.decode() == process("place", cluster).out


@pytest.mark.parametrize("command", ["serve", "simulate", "place", "solve", "diskio"])
def test_help_fits_on_a_screen(command: str) -> None:
    answer = process(command, "--help", env={"COLUMNS": "80"})
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert len(lines) < 50
    assert max(map(len, lines)) <= 80


# --- Pipes


def test_objects_can_be_piped_in() -> None:
    answer = process("place", "-", "-o", "json", stdin=listed(node("n1"), pod("p")).encode())
    assert answer.json["placements"] == [{"pod": "shop/p", "node": "n1"}]


def test_a_log_can_be_piped_in() -> None:
    answer = process("simulate", "-", "--json", stdin=swf([(1, 0, 10, 1)]).encode())
    assert answer.json[0]["tasks"] == 1


def test_starts_can_be_written_to_a_pipe() -> None:
    done = process("simulate", "synthetic:mixed,tasks=20,machines=5", "--starts", "/dev/stdout")
    assert done.code == 0
    assert done.out.startswith("task,group,submit,start,end,machine\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_pipe_is_no_error(cluster: Path, unbuffered: str) -> None:
    line = f"export PYTHONUNBUFFERED={unbuffered}; "
    answer = shell(line + '"$@" --explain | head -1', "place", cluster)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.split() == ["POD", "NODE"]
    # A pipe whose reader has read nothing.
    answer = shell(line + '"$@" --explain | true', "place", cluster)
    assert (answer.code, answer.err) == (0, "")
    assert shell(line + '"$@" | true', "--help").err == ""


def test_closed_streams_are_no_error(cluster: Path) -> None:
    answer = shell('"$@" >&-', "place", cluster)
    assert (answer.code, answer.err) == (0, "")
    for command in ("place", "simulate"):
        answer = shell('"$@" <&-', command, "-")
        assert answer.code == 2
        assert "stdin" in answer.err
        assert "empty" in answer.err


def test_notes_go_to_standard_error(tmp_path: Path) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    path = write(tmp_path / "c.json", node("n1"), secret)
    answer = shell('"$@" -o json 2>&-', "place", path)
    assert answer.json["placements"] == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_reported(cluster: Path) -> None:
    answer = shell('"$@" >/dev/full', "place", cluster)
    assert answer.code == 1
    assert answer.err == "afflux place: standard output: No space left on device\n"


def test_a_table_can_be_printed_on_an_ascii_terminal(tmp_path: Path) -> None:
    log = tmp_path / "Größe.swf"
    log.write_text(swf([(1, 0, 10, 1)]))
    answer = process("simulate", log, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("Gr\\xf6\\xdfe: 1 tasks")


# --- Ctrl-C


def test_an_interrupted_simulation_leaves_no_half_written_file(tmp_path: Path) -> None:
    old = tmp_path / "starts.csv"
    old.write_text("what was there")
    arguments = ["simulate", LONG, "--starts", old, "--report", tmp_path / "report.html"]
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*AFFLUX, *map(str, arguments)], stdout=subprocess.PIPE, stderr=theirs
    ) as running:
        os.close(theirs)
        while b"event" not in os.read(ours, 65536):
            pass
        running.send_signal(signal.SIGINT)
        shown = read_all(ours)
        out, _ = running.communicate(timeout=30)
    assert running.returncode == 130
    assert out == b""
    assert shown.endswith(b"afflux simulate: interrupted\r\n")
    assert b"Traceback" not in shown
    assert [path.name for path in tmp_path.iterdir()] == ["starts.csv"]
    assert old.read_text() == "what was there"


def test_an_interrupted_write_leaves_no_half_written_file(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\n"
        "import afflux.sim.starts_csv as starts\n"
        "number = starts._number\n"
        "def interrupting(value):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    return number(value)\n"
        "starts._number = interrupting\n"
        "from afflux.cli import main\n"
        f"sys.exit(main(['simulate', 'synthetic:mixed,machines=5,tasks=20', '--starts', "
        f"{str(tmp_path / 'starts.csv')!r}]))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (130, b"afflux simulate: interrupted\n")
    assert list(tmp_path.iterdir()) == []


# --- Terminals


def on_terminal(*arguments: str | Path) -> tuple[int, bytes, bytes]:
    """Exit code, standard output (a pipe) and what a terminal at standard error showed."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*AFFLUX, *map(str, arguments)], stdout=subprocess.PIPE, stderr=theirs
    ) as running:
        os.close(theirs)
        shown = read_all(ours)
        out, _ = running.communicate(timeout=30)
    return running.returncode, out, shown


def test_the_progress_bar_is_shown_on_terminals_only() -> None:
    arguments = ["simulate", "synthetic:mixed,machines=20,tasks=200,hours=6", "--json"]
    code, out, shown = on_terminal(*arguments)
    assert code == 0
    assert out.startswith(b"[{")
    assert b"cpu-memory@flow:" in shown
    assert b"event" in shown
    assert shown.endswith(b"\r"), "the bar is wiped away at the end"
    assert process(*arguments).err == ""


def test_errors_on_a_terminal_are_escaped(tmp_path: Path) -> None:
    code, out, shown = on_terminal("place", tmp_path / "no\x1b[31m\nfile")
    assert (code, out) == (2, b"")
    assert shown.count(b"\n") == 1
    assert b"\x1b" not in shown


# --- Imports


def test_the_command_line_is_imported_without_numpy() -> None:
    script = (
        "import sys; before = set(sys.modules); import afflux.cli; afflux.cli.main(['--version'])\n"
        "heavy = {'numpy', 'tqdm', 'msgspec', 'yaml', 'afflux._core'} & set(sys.modules)\n"
        "print(sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout.decode().splitlines()[1] == "[]"
