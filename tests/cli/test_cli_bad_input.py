"""Bad input: one line that names file, line or object, field, value and what was expected."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cluster_manifests import Manifest, listed, node, pod
from run_afflux import Afflux, swf

GOOD_LOG = swf([(1, 0, 100, 1)])
RECORD = "2 5 -1 10 1 -1 -1 1 10 -1 1 1 1 1 1 1 -1 -1"
NODES = "sn,cpu_milli,memory_mib,gpu,model\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"
CONFIG = "apiVersion: afflux.dev/v1alpha1\nkind: AffluxConfiguration\n"


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


Write = Callable[[str, str | bytes], Path]


def refused(afflux: Afflux, *arguments: str | Path) -> str:
    """The error line; no file must have been created."""
    folder = next(Path(a).parent for a in arguments if "/" in str(a))
    before = sorted(folder.iterdir())
    outputs = ["--starts", folder / "out.csv", "--report", folder / "out.html"]
    complaint = afflux(*arguments, *(outputs if arguments[0] == "simulate" else [])).complaint
    assert sorted(folder.iterdir()) == before
    return complaint


# --- Logs


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (RECORD.rsplit(" ", 5)[0], ["line 3", "13 fields", "expected 18"]),
        (RECORD + " 7", ["line 3", "19 fields", "expected 18"]),
        (RECORD.replace("10", "ten", 1), ["line 3", "field 4", "run time", "'ten'", "number"]),
        (RECORD.replace("10", "nan", 1), ["line 3", "run time", "'nan'"]),
        (RECORD.replace("10", "inf", 1), ["line 3", "run time", "'inf'"]),
        (RECORD.replace("10", "1e300", 1), ["line 3", "run time", "'1e300'", "1e+12"]),
        (RECORD.replace("10", "9" * 400, 1), ["line 3", "run time", "'9999"]),
        (RECORD.replace("5", "-5", 1), ["line 3", "field 2", "submit time", "'-5'"]),
        (RECORD.replace("2", "1", 1), ["line 3", "job number", "'1'", "no other job"]),
        (RECORD.replace("2", "2.5", 1), ["line 3", "job number", "'2.5'", "whole"]),
        ("\x1b[31m" + RECORD, ["line 3", "\\x1b[31m2"]),
    ],
)
def test_garbled_logs(afflux: Afflux, file: Write, line: str, words: list[str]) -> None:
    path = file("log.swf", GOOD_LOG + line + "\n")
    complaint = refused(afflux, "simulate", path)
    assert complaint.startswith(f"afflux simulate: {path}, ")
    for word in words:
        assert word in complaint


def test_a_log_without_a_machine_size(afflux: Afflux, file: Write) -> None:
    complaint = refused(afflux, "simulate", file("log.swf", RECORD + "\n"))
    assert "--machines" in complaint


# --- Node and pod lists


@pytest.mark.parametrize(
    ("nodes", "pods", "words"),
    [
        ("n1,-1,5,0,\n", "p,1,1,0,0\n", ["nodes.csv, line 2", "cpu_milli", "'-1'", "whole"]),
        ("n1,1,nan,0,\n", "p,1,1,0,0\n", ["nodes.csv, line 2", "memory_mib", "'nan'"]),
        ("n1,1,1" + "0" * 30 + ",0,\n", "p,1,1,0,0\n", ["line 2", "memory_mib", "between"]),
        ("n1,1,1,0,\nn1,1,1,0,\n", "p,1,1,0,0\n", ["line 3", "sn", "'n1'", "no other node"]),
        ("n1,1,1,0,\n", "p,1,1,0,0\np,1,1,0,0\n", ["pods.csv, line 3", "'p'", "no other pod"]),
        ("n1,1,1,0,\n", "p,1,1,1,1001\n", ["pods.csv, line 2", "gpu_milli", "'1001'", "1000"]),
        ("n1,1,1,0,\n", "p,1,1\n", ["pods.csv, line 2", "3 cells", "expected 5"]),
        ("n1,1,1,0,\n", "", ["pods.csv", "no pods"]),
        ("", "p,1,1,0,0\n", ["nodes.csv", "no nodes"]),
    ],
)
def test_garbled_lists(
    afflux: Afflux, file: Write, nodes: str, pods: str, words: list[str]
) -> None:
    paths = file("nodes.csv", NODES + nodes), file("pods.csv", PODS + pods)
    complaint = refused(afflux, "simulate", *paths)
    for word in words:
        assert word in complaint


def test_a_list_on_its_own(afflux: Afflux, file: Write) -> None:
    complaint = refused(afflux, "simulate", file("nodes.csv", NODES + "n1,1,1,0,\n"))
    assert "expected a pod list" in complaint


def test_more_machines_than_there_are(afflux: Afflux, file: Write) -> None:
    nodes, pods = file("nodes.csv", NODES + "n1,1,1,0,\n"), file("pods.csv", PODS + "p,1,1,0,0\n")
    assert "--machines is 5" in refused(afflux, "simulate", nodes, pods, "--machines", "5")


# --- Kubernetes objects


def with_field(manifest: Manifest, path: str, value: Any) -> Manifest:
    *steps, last = path.split(".")
    place: Any = manifest
    for step in steps:
        place = place[int(step)] if step.isdigit() else place.setdefault(step, {})
    place[last] = value
    return manifest


REQUESTS = "spec.containers.0.resources.requests"
OBJECTS = [
    (with_field(pod("p"), f"{REQUESTS}.cpu", "-1"), ["Pod shop/p", "cpu", "'-1'", "negative"]),
    (with_field(pod("p"), f"{REQUESTS}.cpu", "many"), ["Pod shop/p", "'many'", "quantity"]),
    (with_field(pod("p"), f"{REQUESTS}.cpu", "1e999"), ["Pod shop/p", "'1e999'", "at most"]),
    (with_field(pod("p"), f"{REQUESTS}.memory", "NaN"), ["Pod shop/p", "'NaN'", "quantity"]),
    (with_field(pod("p"), f"{REQUESTS}.cpu", "9" * 500), ["Pod shop/p", "500 characters"]),
    (with_field(pod("p"), f"{REQUESTS}.cpu", []), ["Pod shop/p", "cpu", "[]", "quantity"]),
    (with_field(node("n"), "status.allocatable.memory", "-8Gi"), ["Node n", "'-8Gi'"]),
    (with_field(pod("p"), "metadata.name", "a\n\x1b[2Jb"), ["metadata.name", "\\x1b[2J"]),
    (with_field(pod("p"), "metadata.name", None), ["metadata.name", "missing"]),
    (with_field(pod("p"), "spec.priority", "high"), ["Pod shop/p", "spec.priority", "'high'"]),
    (with_field(pod("p"), "spec", None), ["Pod shop/p", "spec"]),
    ({"kind": "Pod", "metadata": {"name": "p"}}, ["apiVersion", "missing"]),
    ({"apiVersion": "v1", "metadata": {"name": "p"}}, ["kind", "missing"]),
]


@pytest.mark.parametrize(("manifest", "words"), OBJECTS, ids=range(len(OBJECTS)))
def test_objects_that_cannot_be_used(
    afflux: Afflux, file: Write, manifest: Manifest, words: list[str]
) -> None:
    path = file("cluster.json", listed(node("other"), manifest))
    complaint = refused(afflux, "place", path)
    assert complaint.startswith(f"afflux place: {path}: items[1]: ")
    for word in words:
        assert word in complaint


def test_the_same_object_twice(afflux: Afflux, file: Write) -> None:
    path = file("cluster.json", listed(pod("p"), pod("p")))
    complaint = refused(afflux, "place", path)
    assert "items[1]: Pod shop/p: given twice" in complaint


def test_standard_input_twice(afflux: Afflux) -> None:
    assert "'-' is given twice" in afflux("place", "-", "-").complaint


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(12)
)
NOT_OBJECTS: dict[str, str | bytes] = {
    "empty": b"",
    "blank": b" \n\t\n",
    "comments": b"# nothing\n---\n",
    "zeros": bytes(10_000),
    "noise": random.Random(1).randbytes(10_000),
    "gzip": b"\x1f\x8b\x08\x00" + bytes(100),
    "one long line": b"x" * 5_000_000,
    "a long number": b"9" * 5_000_000,
    "cut JSON": listed(node("n"))[:-20].encode(),
    "deep JSON": b"[" * 100_000 + b"]" * 100_000,
    "deep JSON object": b'{"a":' * 100_000,
    "deep YAML": b"- " * 100_000,
    "deep flow YAML": b"a: " + b"[" * 100_000,
    "bomb": BOMB,
    "tags": b"!!python/object/apply:os.system ['true']\n",
    "number": b"5",
    "text": b"hello",
    "escapes": b"\x1b[31m: \x1b]0;title\x07",
    "NaN": b"NaN",
    "surrogate": b'{"kind": "\\ud800", "apiVersion": "\\ud800"}',
    "mixed lines": b"a: b\r\n\tc: d\r\n- e\r\n",
    "script": b"<script>alert(1)</script>",
}


@pytest.mark.parametrize("content", NOT_OBJECTS.values(), ids=NOT_OBJECTS)
@pytest.mark.parametrize("command", ["place", "simulate", "solve", "config"])
def test_files_of_another_kind(
    afflux: Afflux, file: Write, command: str, content: str | bytes
) -> None:
    path = file("input", content)
    if command == "config":
        cluster = file("cluster.json", listed(node("n")))
        complaint = refused(afflux, "place", cluster, "--config", path)
    else:
        complaint = refused(afflux, command, path)
    assert str(path) in complaint
    assert "Traceback" not in complaint


@pytest.mark.parametrize("command", ["place", "simulate", "solve", "config"])
def test_paths_that_are_not_files(afflux: Afflux, tmp_path: Path, command: str) -> None:
    for name, why in ((tmp_path, "Is a directory"), (tmp_path / "no\x1b[1m", "No such file")):
        arguments = ["place", "-", "--config", name] if command == "config" else [command, name]
        complaint = afflux(*arguments).complaint
        assert why in complaint
        assert "expected a file that can be read" in complaint
        assert "\\x1b[1m" in complaint or name is tmp_path


@pytest.mark.parametrize("command", ["place", "simulate", "solve"])
def test_standard_input_that_is_empty(
    afflux: Afflux, typed: Callable[[str], None], command: str
) -> None:
    typed("")
    assert "stdin" in afflux(command, "-").complaint


# --- Configuration


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("strategie: flow", ["strategie", "unknown field", "strategy"]),
        ("policies: [{name: cpu-memory, wieght: 2}]", ["policies[0].wieght", "weight"]),
        ("policies: [{name: cpu-memory, weight: -2}]", ["policies[0].weight", "-2", "0 to"]),
        ("policies: [{name: cpu-memory, weight: 1.5}]", ["policies[0].weight", "1.5", "whole"]),
        ("policies: [{name: cpu-memory, weight: .nan}]", ["column", "nan", "finite number"]),
        (f"policies: [{{name: cpu-memory, weight: {10**18}}}]", ["policies[0].weight", "0 to"]),
        ("policies: [{name: fastest}]", ["'fastest'", "cpu-memory"]),
        ("policies: [{weight: 2}]", ["policies[0].name", "missing"]),
        ("policies: []", ["policies", "at least one"]),
        ("policies: cpu-memory", ["policies", "'cpu-memory'", "a list"]),
        ("policies: [{name: cpu-memory}, {name: cpu-memory}]", ["'cpu-memory'", "twice"]),
        ("policies: [{name: cpu-memory, args: {alpha: 1}}]", ["'alpha'", "omega"]),
        ("policies: [{name: cpu-memory, args: {omega: -1}}]", ["args.omega", "-1"]),
        ("policies: [{name: cpu-memory, args: {omega: wide}}]", ["omega", "'wide'", "integer"]),
        (f"policies: [{{name: cpu-memory, args: {{omega: {10**18}}}}}]", ["args.omega", "0 to"]),
        ("strategy: luck", ["'luck'", "flow"]),
        ("strategy: 3", ["strategy", "3", "string"]),
        ("---\nkind: Again", ["2 documents", "expected one AffluxConfiguration"]),
        ("kind: AffluxConfiguration", ["kind", "line 3"]),
        ('"\\e[31m": 1', ["\\x1b[31m", "unknown field"]),
    ],
)
def test_configuration_that_cannot_be_used(
    afflux: Afflux, file: Write, content: str, words: list[str]
) -> None:
    path = file("afflux.yaml", CONFIG + content + "\n")
    log = file("log.swf", GOOD_LOG)
    complaint = refused(afflux, "simulate", log, "--config", path)
    assert complaint.startswith(f"afflux simulate: {path}: ")
    for word in words:
        assert word in complaint


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("kind: AffluxConfiguration", ["apiVersion", "missing"]),
        (CONFIG.replace("v1alpha1", "v9"), ["apiVersion", "v9", "afflux.dev/v1alpha1"]),
        (CONFIG.replace("Afflux", "Kube"), ["kind", "'KubeConfiguration'", "AffluxConfiguration"]),
        ("[]", ["[]", "a mapping"]),
    ],
)
def test_something_other_than_configuration(
    afflux: Afflux, file: Write, content: str, words: list[str]
) -> None:
    path = file("afflux.yaml", content)
    complaint = refused(afflux, "simulate", file("log.swf", GOOD_LOG), "--config", path)
    for word in words:
        assert word in complaint


# --- Names with control characters

EVIL = "\x1b[2J\x9b31m\u202e<script>\n"


def harmless(text: str) -> bool:
    return text.replace("\n", "").isprintable() and "\u202e" not in text


def test_tables_write_out_what_a_terminal_would_act_on(afflux: Afflux, file: Write) -> None:
    wants = pod("p", extended={f"example.com/{EVIL}": "1"})
    gated = pod("gated", schedulingGates=[{"name": EVIL}])
    selected = pod("selected", nodeSelector={EVIL: EVIL})
    odd = {"apiVersion": "v1", "kind": f"Odd{EVIL}", "metadata": {"name": "x"}}
    path = file("cluster.json", listed(node("n"), wants, gated, selected, odd))
    for flags in ([], ["--explain"], ["-o", "json"], ["-o", "json", "--explain"]):
        answer = afflux("place", path, *flags)
        assert answer.code == 0, answer.err
        assert harmless(answer.out)
        assert harmless(answer.err)
        assert len(answer.err.splitlines()) == 1, "a note is one line, whatever it names"


def test_json_says_the_names_as_they_are(afflux: Afflux, file: Write) -> None:
    resource = f"example.com/{EVIL}"
    path = file("cluster.json", listed(node("n"), pod("p", extended={resource: "1"})))
    answer = afflux("place", path, "-o", "json")
    assert answer.out.isascii()
    assert resource in answer.json["waiting"][0]["reason"]


def test_a_file_may_be_called_anything(afflux: Afflux, file: Write) -> None:
    path = file(EVIL.strip(), GOOD_LOG)
    report = path.with_name("report\x1b[1m.html")
    for flags in (["--report", report], ["--json"]):
        answer = afflux("simulate", path, *flags)
        assert answer.code == 0, answer.err
        assert harmless(answer.out)
    assert report.exists()
    assert "<script>" not in report.read_text().split("<body", 1)[1].split("<script", 1)[0]


def test_a_file_name_need_not_be_text(afflux: Afflux, tmp_path: Path) -> None:
    path = tmp_path / "log\udcff.swf"
    path.write_text(GOOD_LOG)
    assert afflux("simulate", path).code == 0
    path.write_text("nonsense")
    assert "log\\udcff.swf" in afflux("simulate", path).complaint


def test_json_is_ascii_whatever_the_names_are(afflux: Afflux, file: Write) -> None:
    answer = afflux("simulate", file("Größe-\U0001f600.swf", GOOD_LOG), "--json")
    assert answer.out.isascii()
    assert json.loads(answer.out)[0]["workload"] == "Größe-\U0001f600"


@pytest.mark.parametrize(
    "command", [("solve",), ("place",), ("simulate",), ("place", "x", "--config")]
)
def test_an_endless_file(afflux: Afflux, monkeypatch: pytest.MonkeyPatch, command) -> None:
    monkeypatch.setattr("afflux.bounded_read.MAX_FILE_BYTES", 1 << 22)
    assert "more than 4 MiB; expected a smaller file" in afflux(*command, "/dev/zero").complaint
