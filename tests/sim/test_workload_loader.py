"""Arguments of the command line become one workload, or one line with the error."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afflux.model.errors import InputError
from afflux.sim.workload_loader import load_workload

LOG = "; MaxProcs: 4\n1 0 -1 60 2 -1 -1 -1 90 -1 1 1 1 -1 -1 1 -1 -1\n"
NODES = "sn,cpu_milli,memory_mib,gpu,model\nnode-a,32000,262144,8,T4\nnode-b,32000,262144,0,\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\npod-1,12000,16384,1,1000\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {"log": LOG, "nodes": NODES, "pods": PODS}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def type_in(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


@pytest.mark.usefixtures("folder")
class TestAccepted:
    def test_a_log(self) -> None:
        workload = load_workload(["log"])
        assert (workload.name, len(workload.machines)) == ("log", 4)
        assert len(workload.submissions[0].group.tasks) == 2

    def test_a_log_without_a_header(self, folder: Path) -> None:
        (folder / "bare").write_text(LOG.split("\n")[1])
        assert len(load_workload(["bare"], machines=3).machines) == 3

    def test_a_log_known_by_its_ending(self, folder: Path) -> None:
        (folder / "broken.SWF").write_text("1 0 -1 x\n")
        with pytest.raises(InputError, match=r"^broken\.SWF, line 1: 4 fields; expected 18"):
            load_workload(["broken.SWF"])

    @pytest.mark.parametrize("sources", [["nodes", "pods"], ["pods", "nodes"]])
    def test_a_node_list_with_a_pod_list_in_any_order(self, sources: list[str]) -> None:
        workload = load_workload(sources)
        assert workload.name == "pods"
        assert [machine.name for machine in workload.machines] == ["node-a", "node-b"]
        assert [submission.group.name for submission in workload.submissions] == ["pod-1"]

    def test_a_synthetic_workload(self) -> None:
        assert load_workload(["synthetic:batch,machines=3,tasks=10"]).machines[2].name

    def test_machines_limits_or_sets_the_cluster_of_every_kind(self) -> None:
        for sources in (["log"], ["nodes", "pods"], ["synthetic:mixed,tasks=10"]):
            assert len(load_workload(sources, machines=1).machines) == 1

    def test_standard_input(self, monkeypatch: pytest.MonkeyPatch) -> None:
        type_in(monkeypatch, LOG)
        assert load_workload(["-"]).name == "stdin"
        type_in(monkeypatch, PODS)
        assert load_workload(["nodes", "-"]).name == "stdin"

    def test_text_with_a_byte_order_mark(self, folder: Path) -> None:
        (folder / "marked").write_bytes(b"\xef\xbb\xbf" + NODES.encode())
        assert load_workload(["marked", "pods"]).machines

    def test_a_list_without_a_column_is_still_recognised(self, folder: Path) -> None:
        (folder / "poor").write_text("sn,cpu_milli,memory_mib,gpu\nnode-a,1,1,0\n")
        with pytest.raises(
            InputError, match=r"^poor, line 1: no column 'model'; expected at least"
        ):
            load_workload(["poor", "pods"])


@pytest.mark.usefixtures("folder")
class TestRefused:
    @pytest.mark.parametrize(
        ("sources", "message"),
        [
            ([], "no workload; expected a log, a node list and a pod list, or synthetic:mixed"),
            (["nodes"], "nodes is a node list; expected a pod list with it (a CSV file with"),
            (["pods"], "pods is a pod list; expected a node list with it (a CSV file with"),
            (["log", "log"], "log: named twice; expected one workload per simulation"),
            (["log", "nodes", "pods"], "log (log), nodes (node list), pods (pod list): more than"),
            (["synthetic:mixed", "synthetic:gpu"], "synthetic:mixed, synthetic:gpu: 2 workloads"),
            (["log", "synthetic:mixed"], "log, synthetic:mixed: 2 workloads; expected one per"),
            (["missing"], "'missing': No such file or directory; expected a file that can be read"),
            (["."], "'.': Is a directory; expected a file that can be read"),
            (["a\0b"], r"'a\x00b': embedded null byte; expected a file that can be read"),
        ],
    )
    def test_arguments_that_are_not_one_workload_are_refused(
        self, sources: list[str], message: str
    ) -> None:
        with pytest.raises(InputError) as error:
            load_workload(sources)
        assert str(error.value).startswith(message)

    def test_two_logs_are_refused(self, folder: Path) -> None:
        (folder / "other").write_text(LOG)
        with pytest.raises(InputError, match="more than one workload; expected one log, or one"):
            load_workload(["log", "other"])

    def test_two_pod_lists_are_refused(self, folder: Path) -> None:
        (folder / "other").write_text(PODS)
        with pytest.raises(InputError, match="more than one workload; expected one log, or one"):
            load_workload(["nodes", "pods", "other"])

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "file: empty; expected a log, a node list or a pod list"),
            (b" \n\n", "file: empty; expected a log, a node list or a pod list"),
            (b"\x1f\x8b\x08junk", "file: compressed by gzip; expected plain text"),
            (b"ELF\0\0\0", "file: binary data; expected text"),
            (b"; \n\n\xff\xfe", "file, line 3: byte 0xff; expected text in UTF-8"),
            (b"hello, world\n", "file: the first line is 'hello, world'; expected a log (SWF"),
        ],
    )
    def test_files_that_are_not_a_workload_are_refused(
        self, folder: Path, content: bytes, message: str
    ) -> None:
        (folder / "file").write_bytes(content)
        with pytest.raises(InputError) as error:
            load_workload(["file"])
        assert str(error.value).startswith(message)

    @pytest.mark.parametrize("sources", [["log"], ["nodes", "pods"], ["synthetic:mixed"]])
    def test_a_cluster_without_machines_is_refused(self, sources: list[str]) -> None:
        with pytest.raises(InputError, match=r"machines is '?0'?; expected "):
            load_workload(sources, machines=0)

    def test_machines_given_twice_are_refused(self) -> None:
        with pytest.raises(InputError, match="machines is given twice; expected it once"):
            load_workload(["synthetic:mixed,machines=5"], machines=7)


@given(content=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        load_workload([str(path)])
    assert len(str(error.value).splitlines()) == 1
