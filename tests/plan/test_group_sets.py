"""Groups that need each other are one set, at the place of the last of them."""

from hypothesis import given
from hypothesis import strategies as st

from afflux.cluster.relation_index import RelationIndex, relations_of
from afflux.cluster.state import State
from afflux.plan.group_sets import MAX_GROUPS_OF_SET, sets_in_order
from oracles.builders import machine
from oracles.related_tasks import near, related_group, related_task


def alone(name: str, app: str, *needs: str):
    """A group of one task that requires tasks of one other application."""
    relations = near(needs[0]) if needs else None
    return related_group(name, related_task(name, app, relations))


def sets(*groups, running: tuple = ()) -> list[list[str]]:
    state = State([machine("m", cpu=100, labels={"zone": "a"})])
    for task in running:
        state.place(task, "m")
    state.relations.use(relations_of(groups))
    found = sets_in_order(groups, state.relations)
    return [[group.name for group in group_set] for group_set in found]


def test_groups_that_need_each_other_are_one_set_at_the_place_of_the_last():
    found = sets(alone("a", "web", "db"), alone("x", "x"), alone("b", "db", "web"))
    assert found == [["x"], ["a", "b"]]


def test_a_group_comes_after_the_one_that_it_needs():
    found = sets(alone("a", "web", "db"), alone("x", "x"), alone("b", "db"), alone("y", "x"))
    assert found == [["x"], ["b"], ["a"], ["y"]]


def test_a_circle_of_three_is_one_set():
    circle = [alone("a", "a", "b"), alone("b", "b", "c"), alone("c", "c", "a")]
    assert sets(*circle) == [["a", "b", "c"]]


def test_company_that_runs_leaves_every_group_in_its_place():
    groups = [alone("a", "web", "db"), alone("b", "db", "web")]
    running = (related_task("r", "db"), related_task("s", "web"))
    assert sets(*groups, running=running) == [["a"], ["b"]]


def test_a_group_that_meets_its_own_need_is_no_set_with_others():
    assert sets(alone("a", "web", "web"), alone("b", "web", "web")) == [["a"], ["b"]]


def test_needs_that_no_waiting_group_meets_move_nothing():
    assert sets(alone("a", "web", "db"), alone("b", "x")) == [["a"], ["b"]]


def test_a_very_large_circle_is_not_kept_together():
    count = MAX_GROUPS_OF_SET + 1
    circle = [alone(f"g{n}", f"app{n}", f"app{(n + 1) % count}") for n in range(count)]
    assert sets(*circle) == [[f"g{n}"] for n in range(count)]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(("", *"abcd"))), max_size=12))
def test_every_group_is_in_one_set_and_after_what_it_needs(kinds):
    groups = [alone(f"g{n}", app, *filter(None, [need])) for n, (app, need) in enumerate(kinds)]
    found = sets(*groups)
    names = [name for group_set in found for name in group_set]
    assert sorted(names) == sorted(group.name for group in groups)
    for number, (app, need) in enumerate(kinds):
        first = next((n for n, (other, _) in enumerate(kinds) if other == need), None)
        if need in ("", app) or first is None:
            continue
        own = next(n for n, group_set in enumerate(found) if f"g{number}" in group_set)
        assert own >= next(n for n, group_set in enumerate(found) if f"g{first}" in group_set)


def test_without_constraints_nothing_is_looked_at():
    groups = [alone("a", "web"), alone("b", "db")]
    assert sets_in_order(groups, RelationIndex(lambda: ())) == [(group,) for group in groups]
