"""The answer of every command in every form (-o json, yaml, wide, table), and the exit codes."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster_manifests import node, pod, write
from hypothesis import given
from hypothesis import strategies as st
from run_afflux import Afflux, Answer
from served_inspection import Service

from afflux.cli.data_output import print_data, print_data_sharing, to_yaml
from afflux.cli.exit_codes import ExitCode
from afflux.cli.inspection_arguments import INSPECTIONS
from afflux.cli.output_option import OUTPUTS
from afflux.cli.quantity_format import bytes_text, cpu_text
from afflux.kube.yaml_reader import documents

PAGE_FOLDER = Path(__file__).parents[2] / "docs"
PAGE = (PAGE_FOLDER / "cli.md").read_text()
TABLE = PAGE_FOLDER / "examples" / "normaliser" / "coefficients.json"
SOLVABLE = "p min 2 1\nn 1 2\nn 2 -2\na 1 2 0 2 3\n"

# Commands, how their table begins, and what only the wide table shows.
COMMANDS = {
    "place cluster.json": ("POD ", ["CPU", "MEMORY", " 1500m ", "EXPECTED START"]),
    "place cluster.json --explain": ("POD ", ["CPU", "MEMORY", " 1500m ", "EXPECTED START"]),
    "place nodes.json --explain": ("No pending pods.", []),
    "simulate synthetic:mixed,machines=3,tasks=20": (
        "synthetic:mixed",
        ["median wait", "utilisation of cpu", "utilisation of memory", "all cycles"],
    ),
    "solve solvable.min": ("6\n", ["ARC  FROM  TO  FLOW  COST", "NODE  PRICE"]),
    "diskio try table.json --rbps 20M": ("BYTES/S ", ["block size: 32Ki", "KIND ", "DIGEST "]),
    "diskio verify table.json --entry entry.json --trusted-keys keys/acme.pub": (
        "MODEL ",
        ["DIGEST "],
    ),
    "diskio show disks.json": ("NODE ", ["NAMES", "/dev/sda"]),
    "queue": ("QUEUE ", ["PRIORITY", "RUN TIME", "WAITING SINCE", "STARTS AT"]),
    "group train": ("Name: ", ["MEMBER  ", "2027-01-15T07:54:48Z  Ready"]),
    "reservations": ("GROUP ", ["PRIORITY", "STARTS AT", "ENDS AT"]),
    "history": ("GROUP ", ["PRIORITY", "READY AT", "STARTED AT", "ENDED AT"]),
}
DISKIO = ("diskio keygen", "diskio verify", "diskio try", "diskio show")
Run = Callable[[str], Answer]


@pytest.fixture
def run(afflux: Afflux, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command in a folder with its inputs; AFFLUX_SERVICE is an inspection service."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AFFLUX_SERVICE", service.url)
    monkeypatch.setenv("KUBECONFIG", str(service.kubeconfig({"token": "good"})))
    # Names that readers of YAML may take for a boolean and a number.
    nodes = node("y"), node("1e3", cpu="0", pods="0")
    write(tmp_path / "nodes.json", *nodes)
    write(tmp_path / "cluster.json", *nodes, pod("web", cpu="1500m"), pod("big", cpu="64"))
    left = {"total": 1, "read": 1, "write": 1}
    status = {"allocatableBandwidth": {"1e3": {"name": "/dev/sda", "status": left}}}
    metadata = {"name": "y", "namespace": "disks"}
    kind = {"apiVersion": "ioi.intel.com/v1", "kind": "NodeDiskIOInfo"}
    write(tmp_path / "disks.json", {**kind, "metadata": metadata, "status": status})
    (tmp_path / "solvable.min").write_text(SOLVABLE)
    (tmp_path / "table.json").write_bytes(TABLE.read_bytes())
    (tmp_path / "other.json").write_text(TABLE.read_text().replace("52", "51"))
    afflux("diskio", "keygen", "--out", "keys", "--key-id", "acme")
    sign = "diskio sign table.json --vendor Acme --model NV100 --version 1 --key keys/acme.key"
    (tmp_path / "entry.json").write_text(afflux(*sign.split()).out)
    # A ledger was kept here, and its server does not start any more.
    (tmp_path / "broken" / "lock").mkdir(parents=True)
    (tmp_path / "broken" / "begun").touch()
    (tmp_path / "infeasible.min").write_text(SOLVABLE.replace("0 2 3", "0 1 3"))
    return lambda command: afflux(*command.split())


def without_real_time(answer: Any) -> Any:
    for metrics in answer if isinstance(answer, list) else []:
        assert metrics.pop("cycle_seconds")
    return answer


# --- Forms


@pytest.mark.parametrize("command", COMMANDS)
def test_yaml_has_the_data_of_json(run: Run, command: str) -> None:
    answers = [run(f"{command} {form}") for form in ("-o json", "--json", "-o yaml")]
    assert all(answer.code == 0 and answer.out.isascii() for answer in answers)
    by_option, by_alias, in_yaml = (answer.out for answer in answers)
    assert by_option.count("\n") == 1
    assert "{" not in re.sub(r"\{\}", "", in_yaml), "block style"
    expected = without_real_time(json.loads(by_option))
    assert expected
    found = [json.loads(by_alias), yaml.safe_load(in_yaml), *documents(in_yaml)]
    assert [without_real_time(each) for each in found] == [expected] * 3


@pytest.mark.parametrize(("command", "begin", "more"), [(c, *v) for c, v in COMMANDS.items()])
def test_the_table_is_the_default_and_the_wide_one_shows_more(
    run: Run, command: str, begin: str, more: list[str]
) -> None:
    default, wide = run(command), run(f"{command} -o wide")
    assert (default.code, wide.code) == (0, 0)
    assert default.out.startswith(begin)
    assert wide.out.startswith(begin)
    assert [text for text in more if text in default.out] == []
    assert [text for text in more if text not in wide.out] == []
    if not command.startswith("simulate"):
        assert run(f"{command} --output table").out == default.out


@pytest.mark.parametrize("command", COMMANDS)
def test_another_form_is_refused_with_the_forms_that_there_are(run: Run, command: str) -> None:
    assert "-o/--output: 'xml'; expected one of json, yaml, wide, table (see " in (
        run(f"{command} -o xml").complaint
    )
    assert "--json: not allowed with argument -o" in run(f"{command} -o yaml --json").complaint


def test_the_wide_answer_of_solve_counts_as_the_file_does(run: Run) -> None:
    blocks = run("solve solvable.min -o wide").out.split("\n\n")
    cost, (_, arc), (_, *prices) = (block.splitlines() for block in blocks)
    assert (cost, arc.split()) == (["6"], ["1", "1", "2", "2", "3"])
    assert [line.split()[0] for line in prices] == ["1", "2"]


# --- Encoding

TEXTS = st.text() | st.text("yYnNoOeExXbBaAfF0123456789+-._:~=<infINF", max_size=6)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(-1e15, 1e15)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda values: st.lists(values) | st.dictionaries(TEXTS, values),
)


@given(VALUES)
def test_every_reader_of_yaml_reads_what_was_written(value: Any) -> None:
    text = to_yaml(value)
    assert text.isascii()
    assert yaml.safe_load(text) == value
    assert list(documents(text)) == [value]


def test_long_lists_and_shared_values_are_whole(capsys: pytest.CaptureFixture[str]) -> None:
    numbers = {"numbers": list(range(2_500)), "none": [], "more": [{"n": [1]}] * 1_001}
    print_data(numbers, "yaml")
    assert yaml.safe_load(capsys.readouterr().out) == numbers
    once = {"n": 1}
    shared = {"a": once, "y": {}, "b" * 200: once, "c\nd": once}
    for values in (shared, {}):
        for form in ("json", "yaml"):
            print_data_sharing({"version": 1}, form, "values", values, dict)
            found = yaml.safe_load(capsys.readouterr().out)
            assert found == {"version": 1, "values": values}


def test_amounts_are_quantities() -> None:
    assert [cpu_text(milli) for milli in (0, 250, 1000, 1500)] == ["0", "250m", "1", "1500m"]
    amounts = (0, 1000, 1024, 1536 * 2**20, 2 * 2**30, 2**60)
    assert [bytes_text(each) for each in amounts] == ["0", "1000", "1Ki", "1536Mi", "2Gi", "1024Pi"]


# --- Exit codes

# Waiting pods, tasks without a place and empty lists are answers.
EXIT_CODES = {
    "place cluster.json": ExitCode.DONE,
    "queue --queue night": ExitCode.DONE,
    "history --queue night --request-timeout 0.000001s": ExitCode.NO_ANSWER,
    "queue --service https://127.0.0.1:1": ExitCode.NO_ANSWER,
    "history -A": ExitCode.NO_ANSWER,
    "queue --database broken": ExitCode.NO_ANSWER,
    "queue --database nodes.json": ExitCode.WRONG_USAGE,
    "group a%b": ExitCode.WRONG_USAGE,
    "group a%b --service= --database postgresql://u@127.0.0.1:1/x": ExitCode.WRONG_USAGE,
    "queue --queue a%b --service= --database postgresql://u@127.0.0.1:1/x": ExitCode.WRONG_USAGE,
    "place missing.json": ExitCode.WRONG_USAGE,
    "simulate missing.swf": ExitCode.WRONG_USAGE,
    "solve nodes.json": ExitCode.WRONG_USAGE,
    "solve infeasible.min": ExitCode.NO,
    "group missing": ExitCode.NO,
    "diskio try nodes.json": ExitCode.WRONG_USAGE,
    "diskio keygen --out keys --key-id acme": ExitCode.WRONG_USAGE,
    "diskio verify table.json --entry nodes.json --trusted-keys keys/acme.pub": (
        ExitCode.WRONG_USAGE
    ),
    "diskio verify other.json --entry entry.json --trusted-keys keys/acme.pub": ExitCode.NO,
}


@pytest.mark.parametrize("form", OUTPUTS)
@pytest.mark.parametrize(("command", "code"), EXIT_CODES.items())
def test_the_exit_code_is_the_same_in_every_form(
    run: Run, command: str, code: ExitCode, form: str
) -> None:
    answer = run(f"{command} -o {form}")
    assert answer.code == code
    if code != ExitCode.DONE:
        assert answer.out == ""
        name = command.split()[: 2 if command.startswith("diskio ") else 1]
        assert answer.err.startswith(f"afflux {' '.join(name)}: ")
        assert answer.err.count("\n") == 1


def test_the_documentation_has_every_exit_code_and_every_form() -> None:
    assert re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE) == [str(code.value) for code in ExitCode]
    for command in ("place", "simulate", "solve", *INSPECTIONS, *DISKIO):
        assert f"| `{command}` |" in PAGE
