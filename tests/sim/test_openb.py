"""A node list and a pod list become a cluster with GPUs and a workload."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afflux.model.devices import DeviceRequest
from afflux.model.errors import InputError
from afflux.model.task import Shape
from afflux.sim.openb import CsvFile, read_openb
from afflux.sim.workload import Submission, Workload

NODES = """\
sn,cpu_milli,memory_mib,gpu,model
node-a,32000,262144,0,
node-b,96000,786432,8,V100M32
node-c,64000,524288,2,T4
"""
POD_HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    "creation_time,deletion_time,scheduled_time"
)
PODS = f"""\
{POD_HEADER}
pod-1,12000,16384,1,1000,,LS,Running,100,900,150
pod-2,6000,12288,1,460,T4|V100M32,BE,Failed,50,80,60
pod-3,4000,8192,0,0,,LS,Pending,70,75,
"""


def read(pods: str = PODS, nodes: str = NODES, machines: int | None = None) -> Workload:
    return read_openb(CsvFile("nodes.csv", nodes), CsvFile("data/pods.csv", pods), machines)


def read_pod(line: str) -> Submission:
    return read(f"{POD_HEADER}\n{line}\n").submissions[0]


def shape_of(line: str) -> Shape:
    return read_pod(line).group.tasks[0].shape


class TestNodes:
    def test_a_node_offers_cpu_memory_and_devices(self) -> None:
        first, second, _ = read().machines
        assert dict(second.capacity) == {"cpu": 96000, "memory": 768 * 2**30, "pods": 1000}
        assert (first.devices, second.devices) == (0, 8)

    def test_the_gpu_model_is_a_label(self) -> None:
        first, second, _ = read().machines
        assert first.labels == {}
        assert second.labels == {"gpu-model": "V100M32"}

    def test_machines_takes_the_first_nodes(self) -> None:
        assert [machine.name for machine in read(machines=2).machines] == ["node-a", "node-b"]

    @pytest.mark.parametrize("machines", [0, -3, 4])
    def test_machines_cannot_exceed_the_list(self, machines: int) -> None:
        with pytest.raises(
            InputError, match=rf"--machines is {machines}; expected 1 to 3, the nod"
        ):
            read(machines=machines)


class TestPods:
    def test_a_pod_is_a_group_of_one(self) -> None:
        group = read_pod("pod-9,6000,12288,0,0,,LS,Running,0,10,0").group
        assert group.name == group.tasks[0].name == group.tasks[0].id == "pod-9"
        assert dict(group.tasks[0].shape.requests) == {"cpu": 6000, "memory": 12 * 2**30, "pods": 1}
        assert not group.is_gang

    @pytest.mark.parametrize(
        ("columns", "devices"),
        [
            ("0,0", None),
            ("1,460", DeviceRequest(1, 460)),  # a share of one device
            ("1,1000", DeviceRequest(1, 1000)),
            ("8,1000", DeviceRequest(8, 1000)),
            ("2,500", DeviceRequest(2, 500)),  # half of each of two
        ],
    )
    def test_gpus_are_devices(self, columns: str, devices: DeviceRequest | None) -> None:
        assert shape_of(f"p,1,1,{columns},,LS,Running,0,10,0").devices == devices

    def test_a_gpu_spec_limits_the_models(self) -> None:
        affinity = shape_of("p,1,1,1,500,T4|V100M32,LS,Running,0,10,0").affinity
        matching = [m.name for m in read().machines if affinity.matches(m.name, m.labels)]
        assert matching == ["node-b", "node-c"]

    def test_qos_makes_no_priority(self) -> None:
        assert {submission.group.priority for submission in read().submissions} == {0}

    def test_pods_come_by_creation_then_in_the_order_of_the_file(self) -> None:
        order = [submission.group.name for submission in read().submissions]
        assert order == ["pod-2", "pod-3", "pod-1"]
        assert not read().cycle_per_event

    def test_equal_pods_share_one_shape(self) -> None:
        lines = [
            "a,1,1,1,500,T4|P100,LS,Running,0,10,0",
            "b,1,1,1,500,P100|T4,BE,Failed,5,20,6",
            "c,1,1,1,501,T4|P100,LS,Running,0,10,0",
        ]
        tasks = {
            submission.group.name: submission.group.tasks[0]
            for submission in read("\n".join([POD_HEADER, *lines])).submissions
        }
        assert tasks["a"].shape is tasks["b"].shape
        assert tasks["a"].shape != tasks["c"].shape


class TestTimes:
    @pytest.mark.parametrize(
        ("creation", "deletion", "scheduled", "run"),
        [
            ("100", "900", "150", 750),  # from when it was scheduled
            ("100", "900", "", 800),  # never scheduled: from when it was created
            ("100", "100", "", 1),  # at least a second
            ("100", "140", "150", 1),
            ("0.5", "9.75", "1.5", 8.25),
            ("100", "", "150", None),  # never deleted
        ],
    )
    def test_run_times_come_from_the_times_of_the_pod(
        self, creation: str, deletion: str, scheduled: str, run: float | None
    ) -> None:
        pod = read_pod(f"p,1,1,0,0,,LS,Running,{creation},{deletion},{scheduled}")
        assert pod.group.ready_seconds == float(creation)
        assert pod.run_seconds == run
        assert pod.group.run_seconds == run  # the trace has no estimates

    def test_pods_without_times_arrive_at_once_and_stay(self) -> None:
        workload = read("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,0,0\nb,1,1,1,1000\n")
        assert [s.group.name for s in workload.submissions] == ["a", "b"]
        assert {s.group.ready_seconds for s in workload.submissions} == {0.0}
        assert {s.run_seconds for s in workload.submissions} == {None}


class TestErrors:
    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("pod-1,1,1,0,0,,,,0,1,0", "name is 'pod-1'; expected a name that no other pod has"),
            (",1,1,0,0,,,,0,1,0", "name is ''; expected a name"),
            ("p,x,1,0,0,,,,0,1,0", "cpu_milli is 'x'; expected a whole number between 0 and"),
            ("p,-1,1,0,0,,,,0,1,0", "cpu_milli is '-1'; expected a whole number between 0 and"),
            ("p,1,1.5,0,0,,,,0,1,0", "memory_mib is '1.5'; expected a whole number between 0 and"),
            ("p,1,99999999999,0,0,,,,0,1,0", "memory_mib is '99999999999'; expected a whole numbe"),
            ("p,1,1,99999,1000,,,,0,1,0", "num_gpu is '99999'; expected a whole number between"),
            ("p,1,1,1,1001,,,,0,1,0", "gpu_milli is '1001'; expected a whole number between 0 and"),
            ("p,1,1,1,0,,,,0,1,0", "gpu_milli is '0'; expected 1 to 1000, since num_gpu is 1"),
            ("p,1,1,0,500,,,,0,1,0", "gpu_milli is '500'; expected 0, since num_gpu is 0"),
            ("p,1,1,1,500,T4|,,,0,1,0", "gpu_spec is 'T4|'; expected models separated by |"),
            ("p,1,1,0,0,,,,,1,0", "creation_time is ''; expected seconds"),
            ("p,1,1,0,0,,,,nan,1,0", "creation_time is 'nan'; expected seconds between 0 and"),
            ("p,1,1,0,0,,,,9,8,9", "deletion_time is '8'; expected no less than creation_time, 9"),
            ("p,1,1,0,0,,,,0,1,-5", "scheduled_time is '-5'; expected seconds between 0 and"),
            ("p,1,1", "3 cells; expected 11 (a line cut short?)"),
            ("p,1,1,0,0,,,,0,1,0,,", "13 cells; expected 11"),
            ('"p,1,1', "unexpected end of data; expected comma-separated values"),
        ],
    )
    def test_a_wrong_pod_names_line_column_value_and_what_was_expected(
        self, line: str, message: str
    ) -> None:
        with pytest.raises(InputError) as error:
            read(PODS + line)
        assert str(error.value).startswith("data/pods.csv, line 5: " + message)

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("node-a,1,1,0,", "sn is 'node-a'; expected a name that no other node has"),
            ("n,1,1,-8,T4", "gpu is '-8'; expected a whole number between 0 and 1024"),
            ("n,1,1,8", "4 cells; expected 5 (a line cut short?)"),
        ],
    )
    def test_a_wrong_node_names_line_column_value_and_what_was_expected(
        self, line: str, message: str
    ) -> None:
        with pytest.raises(InputError) as error:
            read(nodes=NODES + line)
        assert str(error.value) == f"nodes.csv, line 5: {message}"

    def test_a_missing_column_is_named(self) -> None:
        with pytest.raises(InputError, match=r"nodes\.csv, line 1: no column 'gpu'; expected at"):
            read(nodes="sn,cpu_milli,memory_mib,model\n")
        with pytest.raises(InputError, match=r"pods\.csv, line 1: no column 'num_gpu'; expected"):
            read("name,cpu_milli,memory_mib,gpu_milli\n")

    def test_a_column_that_comes_twice_is_named(self) -> None:
        with pytest.raises(InputError, match="line 1: two columns 'gpu'; expected every name once"):
            read(nodes="sn,cpu_milli,memory_mib,gpu,model,gpu\n")

    def test_empty_lists_are_refused(self) -> None:
        with pytest.raises(InputError, match=r"nodes\.csv: empty; expected columns sn,"):
            read(nodes="")
        with pytest.raises(InputError, match=r"nodes\.csv: no nodes; expected at least one line"):
            read(nodes=NODES.splitlines()[0])
        with pytest.raises(InputError, match=r"pods\.csv: no pods; expected at least one line"):
            read(POD_HEADER)

    def test_extra_columns_and_windows_line_ends_are_fine(self) -> None:
        nodes = "rack,sn,cpu_milli,memory_mib,gpu,model\r\nr1,node-a,1000,1024,0,\r\n\r\n"
        assert [machine.name for machine in read(nodes=nodes).machines] == ["node-a"]

    @given(
        position=st.integers(0, len(NODES + PODS) - 1),
        length=st.integers(0, 30),
        insert=st.text(max_size=4) | st.sampled_from(['"', ",", "\n", "\r", "-", "9" * 20, "\0"]),
    )
    def test_damaged_text_is_read_or_refused_in_one_line(
        self, position: int, length: int, insert: str
    ) -> None:
        def damage(text: str, at: int) -> str:
            return text[:at] + insert + text[at + length :] if 0 <= at < len(text) else text

        try:
            workload = read(damage(PODS, position - len(NODES)), damage(NODES, position))
        except InputError as error:
            message = str(error)
        else:
            message = f"{len(workload.machines)} machines"
        assert len(message.splitlines()) == 1
