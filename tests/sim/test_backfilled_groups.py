"""A group is backfilled if it starts while a group ahead of it in its queue still waits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afflux.model.machine import Machine
from afflux.model.resources import resources
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from afflux.sim.backfilled_groups import backfilled
from afflux.sim.metrics import measure
from afflux.sim.result import Result, Run
from afflux.sim.result_columns import Groups, columns
from afflux.sim.workload import Submission, Workload


def groups(*lives: tuple[float, float | None], priority=(), queue=()) -> Groups:
    """Groups with their submission and their start; None: never started."""
    number = len(lives)
    start = np.array([np.nan if start is None else start for _, start in lives], dtype=np.float64)
    return Groups(
        names=tuple(f"g{i}" for i in range(number)),
        size=np.ones(number, dtype=np.int64),
        priority=np.array(priority or [0] * number, dtype=np.int64),
        queue=np.array(queue or [0] * number, dtype=np.int64),
        endless=np.zeros(number, dtype=np.bool_),
        submit=np.array([submit for submit, _ in lives], dtype=np.float64),
        start=start,
        end=start + 1,
    )


def test_a_group_that_starts_before_an_earlier_one_was_backfilled():
    assert backfilled(groups((0, 0), (1, 9), (2, 3))).tolist() == [False, False, True]


def test_a_group_that_starts_in_order_was_not_backfilled():
    assert not backfilled(groups((0, 0), (1, 5), (2, 5), (3, 8))).any()


def test_a_group_submitted_after_the_start_of_another_did_not_pass_it():
    assert not backfilled(groups((0, 4), (4, 4), (5, 5))).any()


def test_of_two_submitted_at_once_the_first_is_ahead():
    assert backfilled(groups((0, 7), (0, 3))).tolist() == [False, True]
    assert backfilled(groups((0, 3), (0, 7))).tolist() == [False, False]


def test_a_higher_priority_is_ahead_regardless_of_submission():
    lives = (0, 6), (3, 9)
    assert backfilled(groups(*lives, priority=[0, 10])).tolist() == [True, False]
    # The other one had already started when this one came.
    assert not backfilled(groups((0, 2), (3, 9), priority=[0, 10])).any()


def test_passing_a_lower_priority_is_not_backfilling():
    assert not backfilled(groups((0, 9), (1, 2), priority=[0, 10])).any()


def test_groups_of_other_queues_are_never_ahead():
    assert backfilled(groups((0, 9), (1, 2), (1, 3), queue=[0, 1, 0])).tolist() == [
        False,
        False,
        True,
    ]


def test_groups_that_never_started_are_neither_ahead_nor_backfilled():
    assert not backfilled(groups((0, None), (1, 1), (2, 2))).any()


def test_without_groups_none_is_backfilled():
    assert backfilled(groups()).tolist() == []


@given(
    st.lists(
        st.tuples(
            st.integers(0, 9),
            st.one_of(st.none(), st.integers(0, 9)),
            st.integers(0, 2),
            st.integers(0, 1),
        ),
        max_size=12,
    )
)
def test_backfilled_groups_are_those_of_a_comparison_of_all_pairs(
    drawn: list[tuple[int, int | None, int, int]],
):
    lives = [
        (submit, None if wait is None else submit + wait, priority, queue)
        for submit, wait, priority, queue in drawn
    ]

    def ahead(a: int, b: int) -> bool:
        one, other = lives[a], lives[b]
        same_queue = one[3] == other[3]
        return same_queue and (-one[2], one[0], a) < (-other[2], other[0], b)

    def passed(a: int, b: int) -> bool:
        """Whether b started while a still waited."""
        one, other = lives[a][1], lives[b][1]
        return one is not None and other is not None and lives[a][0] <= other < one

    places = range(len(lives))
    expected = [any(ahead(a, b) and passed(a, b) for a in places) for b in places]
    table = groups(
        *((submit, start) for submit, start, _, _ in lives),
        priority=[p for _, _, p, _ in lives],
        queue=[q for _, _, _, q in lives],
    )
    assert backfilled(table).tolist() == expected


def simulated(*lives: tuple[float, float | None], queues: tuple[str, ...] = ()) -> Result:
    named = queues or ("default",) * len(lives)
    tasks = [Task(f"t{i}", f"t{i}", Shape(resources({"cpu": 1}))) for i in range(len(lives))]
    submissions = tuple(
        Submission(WaitingGroup(f"g{i}", (task,), ready_seconds=submit, queue=queue), 1.0)
        for i, (task, (submit, _), queue) in enumerate(zip(tasks, lives, named, strict=True))
    )
    runs = tuple(
        Run(t, f"g{i}", submit, start, start, None if start is None else start + 1, "m")
        for i, (t, (submit, start)) in enumerate(zip(tasks, lives, strict=True))
    )
    hosts = (Machine("m", resources({"cpu": 9})),)
    return Result("toy", Workload("tiny", hosts, submissions), runs, (), 20.0)


@pytest.mark.parametrize(
    ("lives", "share"),
    [
        ([(0.0, 0.0), (1.0, 9.0), (2.0, 3.0), (2.0, 4.0)], 0.5),
        ([(0.0, 9.0), (1.0, 3.0), (2.0, None)], 0.5),
        ([(0.0, None)], None),
    ],
)
def test_the_metrics_have_the_share_of_those_that_started(lives, share):
    assert measure(simulated(*lives))["backfilled"] == share


def test_queues_are_those_of_the_workload():
    result = simulated((0.0, 9.0), (1.0, 2.0), (1.0, 3.0), queues=("a", "b", "a"))
    assert backfilled(columns(result).groups).tolist() == [False, False, True]
