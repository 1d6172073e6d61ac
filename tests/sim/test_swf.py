"""A log in the Standard Workload Format becomes gangs on machines of one processor."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afflux.model.errors import InputError
from afflux.sim.swf import FIELDS, MAX_PROCESSORS, read_swf
from afflux.sim.workload import Submission, Workload

LOG = """\
; Version: 2.2
; MaxNodes: 4
; MaxProcs: 8
; Note: anything may stand here, such as NaN

    1    0   10  100    2   99.50   -1    2   600   -1  1   1   1  -1 -1  1 -1 -1
    2   30    5   50    4      -1   -1    4    40   -1  1   1   1  -1 -1  1 -1 -1
"""


def record(
    number: object = 1,
    submit: object = 0,
    run: object = 60,
    processors: object = 1,
    requested: object = -1,
) -> str:
    return f"{number} {submit} -1 {run} {processors} -1 -1 -1 {requested} -1 1 1 1 -1 -1 1 -1 -1"


def read(*records: str, machines: int | None = 16) -> Workload:
    return read_swf("\n".join(records) + "\n", "my.swf", machines)


def one(**values: object) -> Submission:
    return read(record(**values)).submissions[0]


class TestJobs:
    def test_a_job_is_a_gang_of_single_processors(self) -> None:
        first, second = read_swf(LOG, "logs/my.swf").submissions
        assert first.group.name == "1"
        assert [task.name for task in first.group.tasks] == ["1.0", "1.1"]
        assert [task.id for task in second.group.tasks] == ["2.0", "2.1", "2.2", "2.3"]
        assert first.group.tasks[0].shape.requests == (("cpu", 1000), ("pods", 1))

    def test_all_tasks_share_one_shape(self) -> None:
        workload = read_swf(LOG, "my.swf")
        shapes = {id(t.shape) for s in workload.submissions for t in s.group.tasks}
        assert len(shapes) == 1

    def test_the_scheduler_runs_after_every_single_event(self) -> None:
        assert read_swf(LOG, "my.swf").cycle_per_event

    def test_the_workload_has_the_name_of_the_file(self) -> None:
        assert read_swf(LOG, "logs/my.swf").name == "my"

    def test_jobs_come_by_submit_time_then_in_the_order_of_the_file(self) -> None:
        workload = read(
            record(number=7, submit=5), record(number=3, submit=5), record(number=9, submit=4)
        )
        assert [s.group.name for s in workload.submissions] == ["9", "7", "3"]
        assert [s.group.ready_seconds for s in workload.submissions] == [4, 5, 5]


class TestConventions:
    @pytest.mark.parametrize(
        ("run", "requested", "expected_run", "expected_estimate"),
        [
            (100, 600, 100, 600),  # the estimate is what was requested
            (700, 600, 600, 700),  # killed at its limit; the estimate never falls below the record
            (100, -1, 100, 100),  # nothing requested: the scheduler knows the run time
            (100, 0, 100, 100),
            (0, 600, 1, 600),  # no run time: one second
            (-1, 600, 1, 600),
            (-1, -1, 1, 1),
            (0.25, -1, 1, 1),  # nothing is shorter than one second
            (0.25, 0.5, 1, 1),
            (552.21, 600, 552.21, 600),
        ],
    )
    def test_run_times_and_estimates_follow_the_conventions(
        self, run: float, requested: float, expected_run: float, expected_estimate: float
    ) -> None:
        job = one(run=run, requested=requested)
        assert job.run_seconds == expected_run
        assert job.group.run_seconds == expected_estimate

    @pytest.mark.parametrize("processors", [0, -1])
    def test_a_job_without_processors_is_one_second_on_one(self, processors: int) -> None:
        job = one(run=500, processors=processors, requested=600)
        assert len(job.group.tasks) == 1
        assert (job.run_seconds, job.group.run_seconds) == (1, 600)

    def test_the_allocated_processors_count_not_the_requested(self) -> None:
        line = "1 0 -1 60 3 -1 -1 5 -1 -1 1 1 1 -1 -1 1 -1 -1"
        assert len(read(line).submissions[0].group.tasks) == 3

    def test_a_job_larger_than_the_machine_is_cut_to_it(self) -> None:
        assert len(read(record(processors=1e12), machines=5).submissions[0].group.tasks) == 5

    @given(
        run=st.floats(-10, 1e6),
        requested=st.floats(-10, 1e6),
        processors=st.integers(-2, 40),
        submit=st.integers(0, 10**9),
    )
    def test_every_job_fits_and_its_estimate_is_at_least_its_run_time(
        self, run: float, requested: float, processors: int, submit: int
    ) -> None:
        job = one(run=run, requested=requested, processors=processors, submit=submit)
        assert 1 <= len(job.group.tasks) <= 16
        assert job.run_seconds is not None
        assert job.group.run_seconds is not None
        assert 1 <= job.run_seconds <= job.group.run_seconds
        assert job.group.ready_seconds == submit


class TestMachines:
    def test_processors_come_from_the_header(self) -> None:
        machines = read_swf(LOG, "my.swf").machines
        assert len({machine.name for machine in machines}) == 8
        assert {machine.capacity for machine in machines} == {(("cpu", 1000), ("pods", 1))}

    def test_the_argument_overrides_the_header(self) -> None:
        assert len(read_swf(LOG, "my.swf", machines=3).machines) == 3

    def test_nodes_count_where_the_header_has_no_processors(self) -> None:
        assert len(read("; MaxNodes: 4", record(), machines=None).machines) == 4
        assert len(read("; MaxProcs: -1", "; MaxNodes: 4", record(), machines=None).machines) == 4

    def test_a_log_without_a_size_is_refused_with_advice(self) -> None:
        with pytest.raises(InputError, match=r"no MaxProcs or MaxNodes.* expected --machines"):
            read(record(), machines=None)

    @pytest.mark.parametrize("machines", [0, -1, MAX_PROCESSORS + 1])
    def test_an_impossible_number_is_refused(self, machines: int) -> None:
        with pytest.raises(InputError, match=f"--machines is {machines}; expected 1 to"):
            read(record(), machines=machines)
        if machines != -1:  # in a log, -1 means unknown
            with pytest.raises(InputError, match=f"MaxProcs is {machines}; expected 1 to"):
                read(f"; MaxProcs: {machines}", record(), machines=None)


class TestErrors:
    @pytest.mark.parametrize(
        ("line", "message"),
        [
            (record(number="x"), "my.swf, line 2: field 1 (job number) is 'x'; expected a number"),
            (record(number=1.5), "field 1 (job number) is '1.5'; expected a whole number"),
            (
                record(number=-1),
                "field 1 (job number) is '-1'; expected a whole number of at least",
            ),
            (record(number=5), "field 1 (job number) is '5'; expected a number that no other job"),
            (record(submit=-1), "field 2 (submit time) is '-1'; expected seconds of at least 0"),
            (record(submit="1e13"), "field 2 (submit time) is '1e13'; expected a number between"),
            (record(run="nan"), "field 4 (run time) is 'nan'; expected a number between"),
            (record(run="inf"), "field 4 (run time) is 'inf'; expected a number between"),
            (record(run="1e400"), "field 4 (run time) is '1e400'; expected a number between"),
            (record(run="1_000"), "field 4 (run time) is '1_000'; expected a number between"),
            (record(run="--5"), "field 4 (run time) is '--5'; expected a number between"),
            (record(processors=2.5), "field 5 (allocated processors) is '2.5'; expected a whole"),
            (record() + " 7", "my.swf, line 2: 19 fields; expected 18"),
            ("3 0 -1 60 1 -1", "my.swf, line 2: 6 fields; expected 18 (a line cut short?)"),
        ],
    )
    def test_a_wrong_record_names_line_field_value_and_what_was_expected(
        self, line: str, message: str
    ) -> None:
        with pytest.raises(InputError) as error:
            read(record(number=5), line)
        assert message in str(error.value)

    @pytest.mark.parametrize("text", ["", "\n \n", "; MaxProcs: 8\n"])
    def test_a_log_without_jobs_is_refused(self, text: str) -> None:
        with pytest.raises(InputError, match=r"^my\.swf: no jobs; expected lines of 18 numbers"):
            read_swf(text, "my.swf")

    def test_a_log_that_would_fill_the_memory_is_refused(self) -> None:
        with pytest.raises(InputError, match="more than 5,000,000 tasks in all"):
            read(*(record(number=n, processors=10**6) for n in range(6)), machines=10**6)

    @given(
        position=st.integers(0, len(LOG) - 1),
        length=st.integers(0, 30),
        insert=st.text(max_size=4) | st.sampled_from(["\0", "\r\n", "-", "1e99", "nan", ";", " 7"]),
    )
    def test_damaged_text_is_read_or_refused_in_one_line(
        self, position: int, length: int, insert: str
    ) -> None:
        damaged = LOG[:position] + insert + LOG[position + length :]
        try:
            workload = read_swf(damaged, "my.swf", machines=8)
        except InputError as error:
            message = str(error)
        else:
            message = f"my.swf: {len(workload.submissions)} jobs"
        assert message.startswith("my.swf")
        assert len(message.splitlines()) == 1

    def test_there_are_eighteen_fields(self) -> None:
        assert len(FIELDS) == len(record().split()) == 18
