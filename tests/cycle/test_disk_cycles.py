"""Disk bandwidth in cycles: what starts, what waits for it, and which news start a cycle."""

import pytest

from afflux.admit.strategies import easy
from afflux.cluster.state import State
from afflux.cycle.events import (
    DisksGone,
    DisksReported,
    Event,
    GroupReady,
    MachineGone,
    MachineSet,
    NormalisersChanged,
    TaskEnded,
    TaskRuns,
)
from afflux.cycle.loop import Cycle, Outcome
from afflux.cycle.reservations import DelayCause
from afflux.model.disks import Disk, DiskRequest
from afflux.model.task import Task
from afflux.model.waiting_group import WaitingGroup
from afflux.policies.disk_io import DiskIo
from oracles.builders import by_machine, group, machine, scheduler, shape
from oracles.disks import Prices, default_charge, disk, report, stated
from oracles.queued_cluster import Cluster, reserved_starts


def cycle_of(*machines: str, **kind: bool) -> Cycle:
    state = State([machine(name, cpu=100) for name in machines])
    return Cycle(state, scheduler(state), **kind)


def reading(name: str, *bytes_per_second: int) -> GroupReady:
    """A group of tasks that each read so much from one volume."""
    return GroupReady(group(name, *(shape(disks=stated((each, 0))) for each in bytes_per_second)))


def disks(name: str, *of: Disk, **fields: object) -> DisksReported:
    return DisksReported(report(name, *of, **fields))


def one(left: int, name: str = "m", **fields: object) -> DisksReported:
    """A machine with one disk that has so much left for reading."""
    return disks(name, disk("a", left, left), **fields)


def placed(outcome: Outcome) -> dict[str, list[str]]:
    return by_machine(outcome.placements)


def test_several_tasks_of_a_round_never_overcommit_a_disk():
    cycle = cycle_of("m", "n")
    events = [one(10), one(7, "n"), *(reading(f"g{number}", 3) for number in range(9))]
    outcome = cycle.run(events)
    assert {name: len(tasks) for name, tasks in placed(outcome).items()} == {"m": 3, "n": 2}
    assert len(cycle.queue) == 4


def test_the_disk_of_each_volume_comes_after_the_devices():
    state = State([machine("m", cpu=9, devices=2)])
    cycle = Cycle(state, scheduler(state))
    asked = shape(count=1, milli=500, disks=stated((4, 0), (3, 0)))
    outcome = cycle.run(
        [disks("m", disk("a", 3, 3), disk("b", 9, 9)), GroupReady(group("g", asked))]
    )
    assert [each.devices for each in outcome.placements] == [(0, 1, 0)]
    assert state.disks.disks_of("g.0") == ("b", "a")


def test_a_gang_starts_whole_or_not_at_all():
    cycle = cycle_of("m", "n")
    assert placed(cycle.run([one(10), one(5, "n"), reading("gang", 6, 6)])) == {}
    outcome = cycle.run([one(6, "n")])
    assert placed(outcome) == {"m": ["gang.0"], "n": ["gang.1"]}


def test_a_gang_whose_volumes_fit_only_in_one_way_is_placed():
    cycle = cycle_of("m")
    gang = group("g", shape(disks=stated((3, 0), (2, 0))), shape(disks=stated((5, 0))))
    outcome = cycle.run([disks("m", disk("a", 5, 5), disk("b", 5, 5)), GroupReady(gang)])
    assert len(outcome.placements) == 2


def test_a_task_that_states_nothing_is_charged_only_where_disks_are_known():
    cycle = cycle_of("m", "n")
    quiet = [
        GroupReady(group(f"g{i}", shape(cpu=40, disks=default_charge(5, 5)))) for i in range(4)
    ]
    outcome = cycle.run([one(7), *quiet])
    assert {name: len(tasks) for name, tasks in placed(outcome).items()} == {"m": 1, "n": 2}
    assert {each.machine: each.devices for each in outcome.placements} == {"m": (0,), "n": ()}


@pytest.mark.parametrize(
    "news",
    [
        [one(10)],
        [disks("m", disk("a", 5, 5), disk("b", 6, 6))],
        [TaskEnded("first.0")],
        [DisksReported(report("n", disk("a", 9, 9)))],
    ],
)
def test_more_bandwidth_starts_what_waits_for_it(news: list[Event]):
    cycle = cycle_of("m", "n")
    cycle.run([one(5), reading("first", 5)])
    assert placed(cycle.run([reading("second", 5)])) == {}
    assert list(placed(cycle.run(news)).values()) == [["second.0"]]


def test_a_new_normaliser_starts_what_waits_for_it():
    cycle = cycle_of("m")
    unknown = disks("m", disk("a", 9, 9, model="acme/slow"))
    assert placed(cycle.run([unknown, reading("g", 3)])) == {}
    models = frozenset({"acme/slow"})
    assert placed(cycle.run([NormalisersChanged(models, Prices(2))])) == {}
    assert placed(cycle.run([NormalisersChanged(models, Prices())])) == {"m": ["g.0"]}


@pytest.mark.parametrize("waiting", [[], [group("w", shape(cpu=101))]])
def test_news_of_disks_start_no_cycle_if_nothing_waits_for_them(waiting: list[WaitingGroup]):
    cycle = cycle_of("m")
    cycle.run([one(5), *(GroupReady(each) for each in waiting)])
    assert cycle.run([one(10)]).round is None
    assert cycle.run([DisksGone("m")]).round is None


def test_a_report_that_changes_nothing_and_one_with_less_start_no_cycle():
    cycle = cycle_of("m")
    cycle.run([one(5), reading("g", 9)])
    assert cycle.run([one(5)]).round is None
    assert cycle.run([one(4)]).round is None
    assert cycle.run([one(6)]).round is not None


def test_a_task_keeps_the_disk_that_its_pod_names_and_frees_it_when_it_ends():
    cycle = cycle_of("m")
    task = Task("t", "t", shape(disks=stated((4, 0))))
    cycle.run([disks("m", disk("a", 9, 9), disk("b", 9, 9)), TaskRuns(task, "m", None, ("b",))])
    assert cycle.state.disks.disks_of("t") == ("b",)
    version = cycle.state.version
    cycle.run([TaskRuns(task, "m", None, ("b",)), TaskRuns(task, "m")])
    assert cycle.state.version == version
    cycle.run([TaskRuns(task, "m", None, ("a",))])
    assert cycle.state.disks.disks_of("t") == ("a",)
    cycle.run([TaskEnded("t")])
    assert cycle.state.view().disks.left[0].tolist() == [[9, 9, 18], [9, 9, 18]]


def test_a_report_before_its_machine_is_used_once_the_machine_joins():
    cycle = cycle_of("other")
    assert placed(cycle.run([one(5), reading("g", 5)])) == {}
    assert placed(cycle.run([MachineSet(machine("m", cpu=1))])) == {"m": ["g.0"]}
    cycle.run([MachineGone("m"), DisksGone("m")])
    assert placed(cycle.run([MachineSet(machine("m", cpu=1)), reading("h", 5)])) == {}


def test_a_failed_report_takes_its_machine_out_until_it_is_reported_again():
    cycle = cycle_of("m", "n", isolates_faults=True)
    twice = disks("m", disk("a", 9, 9), disk("a", 9, 9))
    outcome = cycle.run([twice, one(9, "n"), reading("g", 9), reading("h", 9)])
    assert [(each.kind, each.name) for each in outcome.resync_requests] == [("machine", "m")]
    assert "m" not in cycle.state.rows
    assert placed(outcome) == {"n": ["g.0"]}
    outcome = cycle.run([MachineSet(machine("m", cpu=1)), one(9)])
    assert placed(outcome) == {"m": ["h.0"]}


def test_a_normaliser_that_fails_leaves_out_the_groups_that_need_it():
    def failing(model: str, volume: object):
        raise RuntimeError("defect")

    cycle = cycle_of("m", isolates_faults=True)
    events = [
        NormalisersChanged(frozenset({"acme/fast"}), failing),
        disks("m", disk("a", 9, 9, model="acme/fast")),
        reading("g", 1),
        GroupReady(group("other", shape(cpu=1))),
    ]
    outcome = cycle.run(events)
    assert placed(outcome) == {"m": ["other.0"]}
    assert set(outcome.quarantined) == {"g"}


def job(name: str, disks: DiskRequest, count: int = 1, **fields: float) -> GroupReady:
    of = group(name, *[shape(disks=disks)] * count)
    ready, run = fields.get("ready", 0.0), fields.get("run")
    return GroupReady(WaitingGroup(name, of.tasks, 0, ready, run))


def io_cluster(*events: Event) -> Cluster:
    cluster = Cluster(easy, machine("m", cpu=100), machine("n", cpu=100))
    cluster.run(*events)
    return cluster


@pytest.mark.parametrize(
    "volumes", [((10, 0),), ((5, 0), (5, 0))], ids=["one volume", "two volumes"]
)
def test_a_group_gets_a_reservation_for_when_bandwidth_will_be_free(volumes):
    cluster = io_cluster(one(10), job("running", stated((4, 0)), run=10))
    head = job("head", stated(*volumes), run=10, ready=1)
    assert reserved_starts(cluster.run(head, now=1)) == {"head": 10}
    # What would still run then does not get its bandwidth; what ends before does.
    assert cluster.starts(job("long", stated((3, 0)), run=50, ready=2), now=2) == []
    assert cluster.starts(job("short", stated((3, 0)), run=5, ready=3), now=3) == ["short"]
    assert cluster.starts(TaskEnded("running.0"), TaskEnded("short.0"), now=10) == ["head"]


def test_reserved_bandwidth_is_kept_from_groups_of_other_shapes():
    cluster = io_cluster(one(10), job("running", stated((4, 4)), run=10))
    head = job("head", stated((9, 0)), run=10, ready=1)
    assert reserved_starts(cluster.run(head, now=1)) == {"head": 10}
    assert cluster.starts(job("writer", stated((0, 6)), run=50, ready=2), now=2) == ["writer"]
    assert cluster.starts(job("reader", stated((2, 0), (1, 0)), run=50, ready=3), now=3) == []
    assert cluster.starts(TaskEnded("running.0"), now=10) == ["head"]


def test_lost_bandwidth_is_the_cause_of_a_broken_reservation():
    cluster = io_cluster(one(10), job("running", stated((4, 0)), run=10))
    head = job("head", stated((10, 0)), run=10, ready=1)
    assert reserved_starts(cluster.run(head, now=1)) == {"head": 10}
    cluster.run(one(9), now=5)
    assert cluster.starts(TaskEnded("running.0"), now=10) == []
    outcome = cluster.run(one(10), now=30)
    assert placed(outcome) == {"m": ["head.0"]}
    assert [(each.group, each.cause) for each in outcome.broken] == [("head", DelayCause.DISKS)]


def test_the_policy_packs_disks_or_spreads_tasks_over_them():
    for scoring, expected in (("MostAllocated", "full"), ("LeastAllocated", "empty")):
        state = State([machine("full", cpu=1), machine("empty", cpu=1)])
        cycle = Cycle(state, scheduler(state, easy, DiskIo(scoring)))
        outcome = cycle.run([one(10, "full"), one(100, "empty"), reading("g", 5)])
        assert placed(outcome) == {expected: ["g.0"]}
