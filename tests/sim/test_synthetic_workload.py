"""A spec with a seed gives the same workload every time, and the workload can be scheduled."""

import math
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afflux.cluster.task_room import choose_devices
from afflux.model.disks import DiskRequest
from afflux.model.errors import InputError
from afflux.model.machine import Machine
from afflux.model.resources import amount_of
from afflux.model.task import Shape
from afflux.sim.random_variables import bounded_pareto, daily_arrivals, log_normal, weighted_choice
from afflux.sim.synthetic_cluster import CPU_FLEET, GPU_FLEET, make_cluster
from afflux.sim.synthetic_disks import PROFILES
from afflux.sim.synthetic_workload import PRESETS, RANGES, Parameters, generate, parse
from afflux.sim.workload import Submission, Workload

DAY = 86_400.0

specs = st.builds(
    "synthetic:{},machines={},tasks={},seed={},load={},services={},gangs={}".format,
    st.sampled_from(sorted(PRESETS)),
    st.integers(1, 40),
    st.integers(1, 300),
    st.integers(0, 2**63 - 1),
    st.sampled_from([0.01, 0.5, 0.9, 1.5, 10]),
    st.sampled_from([0, 0.3, 0.5]),
    st.sampled_from([0, 0.2, 0.5]),
)


def kind(submission: Submission) -> str:
    return submission.group.name.split("-")[0]


def shapes_of(workload: Workload) -> set[Shape]:
    return {task.shape for s in workload.submissions for task in s.group.tasks}


def fits(shape: Shape, machine: Machine) -> bool:
    return (
        shape.affinity.matches(machine.name, machine.labels)
        and all(amount_of(machine.capacity, name) >= amount for name, amount in shape.requests)
        and (
            shape.devices is None
            or choose_devices(machine.free_devices(), shape.devices) is not None
        )
    )


def fits_at_once(shapes: tuple[Shape, ...], machines: tuple[Machine, ...]) -> bool:
    """First fit of a whole gang on the empty cluster, the largest members first."""
    free = [dict(machine.capacity) for machine in machines]
    devices = [list(machine.free_devices()) for machine in machines]
    order = sorted(shapes, key=lambda s: (s.devices is not None, s.requests), reverse=True)
    for shape in order:
        for index, machine in enumerate(machines):
            usable = [i for i, left in enumerate(devices[index]) if left >= wanted(shape)[1]]
            if (
                shape.affinity.matches(machine.name, machine.labels)
                and all(free[index].get(name, 0) >= amount for name, amount in shape.requests)
                and len(usable) >= wanted(shape)[0]
            ):
                for name, amount in shape.requests:
                    free[index][name] -= amount
                for device in usable[: wanted(shape)[0]]:
                    devices[index][device] -= wanted(shape)[1]
                break
        else:
            return False
    return True


def wanted(shape: Shape) -> tuple[int, int]:
    return (shape.devices.count, shape.devices.milli) if shape.devices else (0, 0)


def offered(workload: Workload, windows: int, span: float) -> float:
    """The requested share of the dominant resource in the busiest window, if no group waited."""

    def total(resource: str) -> float:
        return sum(amount_of(machine.capacity, resource) for machine in workload.machines)

    peak = 0.0
    width = span / windows
    for resource in ("cpu", "memory"):
        asked = [0.0] * windows
        for submission in workload.submissions:
            amount = sum(amount_of(t.shape.requests, resource) for t in submission.group.tasks)
            start = submission.group.ready_seconds
            end = start + (submission.run_seconds or math.inf)
            for window in range(windows):
                overlap = min(end, (window + 1) * width) - max(start, window * width)
                asked[window] += amount * max(overlap, 0.0) / width
        peak = max(peak, max(asked) / total(resource))
    return peak


class TestAnyWorkload:
    @given(spec=specs)
    @settings(max_examples=60)
    def test_can_be_scheduled_and_ends(self, spec: str) -> None:
        workload = generate(spec)
        parameters = parse(spec)
        groups = [submission.group for submission in workload.submissions]
        tasks = [task for group in groups for task in group.tasks]

        assert len(workload.machines) == parameters.machines
        assert len(tasks) == parameters.tasks
        assert len({task.id for task in tasks}) == len(tasks)
        assert len({group.name for group in groups}) == len(groups)
        assert len({machine.name for machine in workload.machines}) == parameters.machines
        for shape in shapes_of(workload):
            assert any(fits(shape, machine) for machine in workload.machines)
        for group in groups:
            assert len(group.tasks) == 1 or fits_at_once(
                tuple(task.shape for task in group.tasks), workload.machines
            )
        arrivals = [group.ready_seconds for group in groups]
        assert arrivals == sorted(arrivals)
        assert 0 <= arrivals[0] <= arrivals[-1] <= DAY
        for submission in workload.submissions:
            assert submission.run_seconds is not None
            assert 1 <= submission.run_seconds <= DAY

    @given(spec=specs)
    @settings(max_examples=20)
    def test_is_the_same_every_time(self, spec: str) -> None:
        assert generate(spec) == generate(spec)

    def test_is_the_same_in_another_process(self) -> None:
        program = (
            "from afflux.sim.synthetic_workload import generate; import hashlib;"
            "print(hashlib.sha256(repr(generate('synthetic:mixed')).encode()).hexdigest())"
        )
        command = [sys.executable, "-c", program]
        first, second = (
            subprocess.run(command, check=True, capture_output=True).stdout for _ in range(2)
        )
        assert first == second

    def test_another_seed_is_another_workload(self) -> None:
        assert generate("synthetic:mixed,seed=1") != generate("synthetic:mixed,seed=2")

    @pytest.mark.parametrize("preset", sorted(PRESETS))
    def test_tasks_of_one_size_share_one_shape(self, preset: str) -> None:
        workload = generate(f"synthetic:{preset}")
        identities = {id(t.shape) for s in workload.submissions for t in s.group.tasks}
        kinds = 1 + len(PROFILES) if workload.disks.reports else 1
        assert len(identities) == len(shapes_of(workload)) < 40 * kinds


class TestMixed:
    workload = generate("synthetic:mixed")

    def test_is_two_hundred_machines_and_two_thousand_tasks_of_three_kinds(self) -> None:
        assert len(self.workload.machines) == 200
        tasks: Counter[str] = Counter()
        for submission in self.workload.submissions:
            tasks[kind(submission)] += len(submission.group.tasks)
        assert tasks == {"service": 500, "gang": 400, "job": 1100}

    def test_has_machines_of_several_types(self) -> None:
        types = Counter(machine.labels["machine-type"] for machine in self.workload.machines)
        assert types == {"standard": 100, "compact": 40, "big": 40, "memory": 20}

    @pytest.mark.parametrize("spec", ["synthetic:mixed", "synthetic:batch,load=0.5"])
    def test_requests_the_load_in_the_busiest_third_of_the_day(self, spec: str) -> None:
        expected = parse(spec).load
        assert offered(generate(spec), 3, DAY) == pytest.approx(expected, rel=0.02)

    def test_requests_more_than_the_capacity_at_times(self) -> None:
        assert offered(self.workload, 24 * 4, DAY) > 1

    def test_has_few_priorities_services_first(self) -> None:
        priorities = {
            name: {s.group.priority for s in self.workload.submissions if kind(s) == name}
            for name in ("service", "gang", "job")
        }
        assert priorities == {"service": {100}, "gang": {0, 10}, "job": {0, 10}}

    def test_services_have_no_estimate(self) -> None:
        services = [s for s in self.workload.submissions if kind(s) == "service"]
        assert {s.group.run_seconds for s in services} == {None}
        assert all(s.group.ready_seconds + (s.run_seconds or 0) <= DAY + 1 for s in services)

    def test_overestimates_jobs_and_gangs_in_steps_of_five_minutes(self) -> None:
        jobs = [s for s in self.workload.submissions if kind(s) != "service"]
        ratios: list[float] = []
        for submission in jobs:
            estimate, actual = submission.group.run_seconds, submission.run_seconds
            assert estimate is not None
            assert actual is not None
            assert estimate >= actual
            assert estimate % 300 == 0
            ratios.append(estimate / actual)
        assert 1.3 < float(np.median(ratios)) < 4

    def test_has_gangs_of_two_to_thirty_two_members_of_up_to_three_shapes(self) -> None:
        gangs = [s.group for s in self.workload.submissions if kind(s) == "gang"]
        assert {2 <= len(gang.tasks) <= 32 for gang in gangs} == {True}
        assert {len({task.shape for task in gang.tasks}) for gang in gangs} == {1, 2, 3}
        assert gangs[0].tasks[0].name == f"{gangs[0].name}/0"

    def test_has_heavy_tailed_jobs_whose_tasks_are_groups_of_one(self) -> None:
        jobs = [s.group for s in self.workload.submissions if kind(s) == "job"]
        assert {len(group.tasks) for group in jobs} == {1}
        sizes = Counter(group.name.split("/")[0] for group in jobs).values()
        assert np.median(list(sizes)) <= 2
        assert max(sizes) > 50


class TestOtherPresets:
    def test_batch_services_and_gangs_are_pure(self) -> None:
        for preset, expected in (("batch", "job"), ("services", "service"), ("gangs", "gang")):
            kinds = {kind(s) for s in generate(f"synthetic:{preset}").submissions}
            assert kinds == {expected}

    def test_gpu_requests_shares_or_whole_devices_and_sometimes_a_model(self) -> None:
        workload = generate("synthetic:gpu")
        shapes = shapes_of(workload)
        devices = {shape.devices for shape in shapes if shape.devices}
        assert {(request.count, request.milli) for request in devices} == {
            (1, 250), (1, 500), (1, 1000), (2, 1000), (4, 1000), (8, 1000),
        }  # fmt: skip
        assert {machine.devices for machine in workload.machines} == {0, 4, 8}
        assert any(shape.affinity.required for shape in shapes)

    def test_gpu_is_a_share_of_the_tasks(self) -> None:
        tasks = [t for s in generate("synthetic:gpu,gangs=0").submissions for t in s.group.tasks]
        with_devices = sum(task.shape.devices is not None for task in tasks)
        assert with_devices / len(tasks) == pytest.approx(0.8, abs=0.1)

    def test_disks_are_used_by_a_share_of_the_jobs_the_same_by_all_tasks_of_one(self) -> None:
        workload = generate("synthetic:disk-io,tasks=4000")
        assert {report.machine for report in workload.disks.reports} == {
            machine.name for machine in workload.machines
        }
        requests: dict[str, set[DiskRequest | None]] = {}
        for submission in workload.submissions:
            job = submission.group.name.partition("/")[0]
            requests.setdefault(job, set()).update(t.shape.disks for t in submission.group.tasks)
        assert all(len(own) == 1 for own in requests.values())
        using = sum(own != {None} for own in requests.values())
        assert using / len(requests) == pytest.approx(0.8, abs=0.05)

    def test_disks_leave_everything_else_as_it_is(self) -> None:
        plain, with_disks = generate("synthetic:mixed"), generate("synthetic:mixed,disk=1")
        assert [_without_disks(each) for each in with_disks.submissions] == [*plain.submissions]

    def test_every_disk_has_room_for_every_profile(self) -> None:
        workload = generate("synthetic:disk-io")
        for disk in {disk for report in workload.disks.reports for disk in report.disks}:
            for profile, _ in PROFILES:
                taken = workload.disks.normalise(disk.model, profile)
                assert taken is not None
                assert taken.total == taken.read + taken.write <= disk.left.total
                assert taken.read <= disk.left.read
                assert taken.write <= disk.left.write


def _without_disks(submission: Submission) -> Submission:
    group = submission.group
    tasks = (replace(task, shape=replace(task.shape, disks=None)) for task in group.tasks)
    return replace(submission, group=replace(group, tasks=tuple(tasks)))


class TestSpecs:
    def test_a_preset_with_settings(self) -> None:
        spec = "synthetic:mixed,machines=500,tasks=10000,seed=7,load=0.8"
        assert parse(spec) == Parameters(machines=500, tasks=10_000, seed=7, load=0.8)

    def test_the_name_of_the_workload_is_its_spec(self) -> None:
        workload = generate("synthetic:batch,tasks=50", machines=7)
        assert workload.name == "synthetic:batch,tasks=50,machines=7"
        assert workload == generate(workload.name)

    def test_hours_set_the_span(self) -> None:
        workload = generate("synthetic:mixed,hours=2,tasks=300")
        assert workload.submissions[-1].group.ready_seconds <= 7200

    def test_too_few_tasks_for_the_load_are_no_error(self) -> None:
        assert offered(generate("synthetic:mixed,tasks=20,machines=500"), 3, DAY) < 0.1

    @pytest.mark.parametrize(
        ("spec", "message"),
        [
            ("synthetic:", "preset is ''; expected mixed, batch, services, gangs, gpu"),
            ("synthetic:web", "preset is 'web'; expected mixed, batch"),
            ("synthetic:mixed,size=3", "key is 'size'; expected machines, tasks, load, seed"),
            ("synthetic:mixed,", "key is ''; expected machines"),
            ("synthetic:mixed,seed", "seed is ''; expected a whole number from 0"),
            ("synthetic:mixed,seed=x", "seed is 'x'; expected a whole number from 0"),
            (
                "synthetic:mixed,tasks=1.5",
                "tasks is '1.5'; expected a whole number from 1 to 1000000",
            ),
            ("synthetic:mixed,tasks=0", "tasks is '0'; expected a whole number from 1 to 1000000"),
            ("synthetic:mixed,load=nan", "load is 'nan'; expected a number from 0.01 to 10"),
            ("synthetic:mixed,load=-1", "load is '-1'; expected a number from 0.01 to 10"),
            ("synthetic:mixed,seed=1,seed=1", "seed is given twice; expected it once"),
            ("synthetic:mixed,gangs=0.9", "services + gangs is 1.15; expected at most 1"),
        ],
    )
    def test_a_wrong_spec_names_key_value_and_what_was_expected(
        self, spec: str, message: str
    ) -> None:
        with pytest.raises(InputError) as error:
            parse(spec)
        assert str(error.value).startswith(f"{spec!r}: {message}")

    @given(text=st.text(max_size=30) | st.from_regex(r"mixed(,(seed|load|gpu)=[0-9.e-]{0,5})*"))
    def test_any_text_is_understood_or_refused_in_one_line(self, text: str) -> None:
        message = ""
        try:
            parse(f"synthetic:{text}")
        except InputError as error:
            message = str(error)
        assert len(message.splitlines()) <= 1

    def test_every_parameter_has_a_range_that_holds_its_defaults(self) -> None:
        assert list(RANGES) == list(Parameters.__slots__)
        for parameters in PRESETS.values():
            for key, (low, high) in RANGES.items():
                assert low <= getattr(parameters, key) <= high


class TestDistributions:
    def test_bounded_pareto_has_its_median_and_stays_within_its_bounds(self) -> None:
        rng = np.random.default_rng(1)
        values = [bounded_pareto(rng, 1.1, 1, 257) for _ in range(20_000)]
        assert min(values) >= 1
        assert max(values) <= 257
        median = (1 - 0.5 * (1 - 257**-1.1)) ** (-1 / 1.1)
        assert np.median(values) == pytest.approx(median, rel=0.03)

    def test_log_normal_has_its_median_and_spread(self) -> None:
        rng = np.random.default_rng(1)
        logs = np.log([log_normal(rng, 3600, 1.2) for _ in range(20_000)])
        assert logs.mean() == pytest.approx(math.log(3600), abs=0.05)
        assert logs.std() == pytest.approx(1.2, rel=0.03)

    def test_pick_follows_the_weights(self) -> None:
        rng = np.random.default_rng(1)
        counts = Counter(weighted_choice(rng, (("a", 1), ("b", 3))) for _ in range(20_000))
        assert counts["b"] / counts["a"] == pytest.approx(3, rel=0.1)

    def test_arrivals_are_most_in_the_afternoon_and_fewest_at_night(self) -> None:
        arrivals = daily_arrivals(np.random.default_rng(1), 50_000, DAY)
        counts, _ = np.histogram(arrivals, bins=24, range=(0, DAY))
        assert 12 <= int(counts.argmax()) <= 15
        assert int(counts.argmin()) in {0, 1, 2, 3, 4}

    def test_some_arrivals_come_in_bursts(self) -> None:
        rng = np.random.default_rng(1)
        busiest = np.histogram(daily_arrivals(rng, 400, DAY), bins=1440, range=(0, DAY))[0].max()
        evenly = np.histogram(rng.random(400) * DAY, bins=1440, range=(0, DAY))[0].max()
        assert busiest > evenly

    @given(machines=st.integers(1, 5000), fleet=st.sampled_from([CPU_FLEET, GPU_FLEET]))
    def test_machine_types_have_their_shares_within_one_machine(
        self, machines: int, fleet: tuple[tuple[Machine, float], ...]
    ) -> None:
        dealt = {machine.name: count for machine, count in make_cluster(fleet, machines).types}
        assert sum(dealt.values()) == machines
        for machine, share in fleet:
            assert abs(dealt.get(machine.name, 0) - machines * share) < 1
