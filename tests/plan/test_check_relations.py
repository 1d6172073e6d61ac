"""The checker on constraints between tasks: against the filters of Kubernetes, on random plans."""

from collections import Counter
from random import Random

import pytest

from afflux.cluster.state import State
from afflux.model import reason
from afflux.model.placement import Placement
from afflux.model.waiting_group import WaitingGroup
from afflux.plan.check import PlanError, check_plan
from afflux.plan.check_relations import TasksInPlace, find_refused
from oracles import kubernetes_filters as filters
from oracles.builders import shape, task
from oracles.kubernetes_filters import Cluster, Manifest, bound, name_of, node_of
from oracles.pod_constraints import affinity, pod, spread
from oracles.related_pods import HOST, ZONE, RelatedPods, task_of, zoned_state

CLUSTERS = 400


@pytest.fixture
def state() -> State:
    return zoned_state()


def refused(state: State, *pods: Manifest) -> tuple[str, str] | None:
    found = find_refused(state, [Placement(task_of(each), node_of(each)) for each in pods])
    return found and (found[0].task.name, found[1])


def test_two_pods_that_require_each_other_are_right_together_and_wrong_alone(state: State):
    one = pod("one", "db", "a0", **affinity("podAffinity", "web", ZONE))
    other = pod("other", "web", "a1", **affinity("podAffinity", "db", ZONE))
    elsewhere = bound(other, "b0")
    assert refused(state, one, other) is None
    assert refused(state, one) == ("one", reason.POD_AFFINITY)
    assert refused(state, one, elsewhere) == ("one", reason.POD_AFFINITY)


def test_the_first_of_a_self_affine_group_needs_the_label_and_the_next_its_domain(state: State):
    mine = affinity("podAffinity", "db", ZONE)
    assert refused(state, pod("first", "db", "none", **mine)) == ("first", reason.POD_AFFINITY)
    first = pod("first", "db", "a0", **mine)
    assert refused(state, first) is None
    assert refused(state, first, pod("next", "db", "a1", **mine)) is None
    assert refused(state, first, pod("next", "db", "b0", **mine)) is not None


def test_anti_affinity_repels_in_both_directions(state: State):
    lone = pod("lone", "db", "a0", **affinity("podAntiAffinity", "web", ZONE))
    web = pod("web", "web", "a1")
    assert refused(state, lone, web) == ("lone", reason.POD_ANTI_AFFINITY)
    assert refused(state, lone, bound(web, "b0")) is None
    state.place(task_of(lone), "a0")
    assert refused(state, web) == ("web", reason.EXISTING_ANTI_AFFINITY)
    assert refused(state, bound(web, "none")) is None


def test_the_skew_is_judged_with_everything_else_in_place(state: State):
    pods = [pod(f"p{i}", "db", node, **spread("db", ZONE)) for i, node in enumerate(("a0", "a1"))]
    assert refused(state, pods[0]) is None
    assert refused(state, *pods) == ("p0", reason.SPREAD)
    assert refused(state, *pods, pod("p2", "db", "b0")) is None
    without = pod("p3", "db", "none", **spread("db", ZONE))
    assert refused(state, without) == ("p3", reason.SPREAD_KEY)


def test_too_few_domains_count_as_an_empty_one(state: State):
    pods = [
        pod(f"p{i}", "db", node, **spread("db", ZONE, minDomains=3))
        for i, node in enumerate(("a0", "b0", "a1"))
    ]
    assert refused(state, *pods[:2]) is None
    assert refused(state, *pods) == ("p0", reason.SPREAD)


def test_a_plan_that_a_rule_refuses_is_an_error_that_names_task_machine_and_rule(state: State):
    lone = pod("lone", "db", "a0", **affinity("podAntiAffinity", "db", HOST))
    state.place(task_of(lone), "a0")
    late = task_of(pod("late", "db"))
    with pytest.raises(PlanError, match=r"late on a0: .* existing pods anti-affinity"):
        check_plan(state, [WaitingGroup("late", (late,))], [Placement(late, "a0")])


def test_a_running_task_is_judged_where_it_is(state: State):
    lone = task_of(pod("lone", "db", **affinity("podAntiAffinity", "web", ZONE)))
    state.place(lone, "a0")
    assert TasksInPlace(state).refusal(lone, state.rows["a0"]) is None
    state.place(task_of(pod("web", "web")), "a1")
    assert TasksInPlace(state).refusal(lone, state.rows["a0"]) == reason.POD_ANTI_AFFINITY


def test_nothing_is_counted_where_no_task_has_constraints(state: State, monkeypatch):
    one = task("one", shape())
    state.place(task("two", shape()), "a0")
    monkeypatch.setattr(State, "placed_on", None)
    assert find_refused(state, [Placement(one, "a0")]) is None


def test_random_plans_are_judged_as_the_filters_of_kubernetes_judge_them():
    verdicts = Counter[str | None]()
    for seed in range(CLUSTERS):
        rng = Random(f"checked {seed}")
        random = RelatedPods(rng)
        nodes = list(random.cluster.nodes)
        pods = [bound(each, rng.choice(nodes)) for each in random.pods()]
        in_place = TasksInPlace(random.state(), _placements(pods))
        rows = random.state().rows
        after = random.cluster.with_pods(pods)
        for each in pods:
            expected = _relation_refusal(after, each)
            verdicts[expected] += 1
            assert in_place.refusal(task_of(each), rows[node_of(each)]) == expected, (
                f"seed {seed}: {name_of(each)}"
            )
    told = {reason.SPREAD, reason.SPREAD_KEY, reason.POD_AFFINITY, reason.POD_ANTI_AFFINITY}
    assert set(verdicts) == {None, *told, reason.EXISTING_ANTI_AFFINITY}
    assert min(verdicts.values()) > sum(verdicts.values()) / 100


def _placements(pods: list[Manifest]) -> list[Placement]:
    return [Placement(task_of(each), node_of(each)) for each in pods]


def _relation_refusal(after: Cluster, pod: Manifest) -> str | None:
    found = filters.relation_refusals(after.without(pod), pod, after.nodes[node_of(pod)])
    return next(iter(found), None)
