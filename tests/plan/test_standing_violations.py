"""Running tasks whose requirements hold while they run, and do not hold any more."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from afflux.cluster.state import State
from afflux.model import reason
from afflux.model.machine import Machine
from afflux.model.relations import TaskLabels
from afflux.plan import standing_violations
from afflux.plan.standing_violations import StandingViolations, find_violations
from oracles import kubernetes_filters as filters
from oracles.builders import machine
from oracles.kubernetes_filters import Cluster, Manifest, bound, name_of, node_of, terms
from oracles.pod_constraints import affinity, pod, spread
from oracles.related_pods import HOST, ZONE, RelatedPods, task_of

CLUSTERS = 300


def zoned(name: str, zone: str | None) -> Machine:
    labels = {HOST: name} if zone is None else {HOST: name, ZONE: zone}
    return machine(name, labels=labels)


@pytest.fixture
def state() -> State:
    """Machines `a0` and `a1` in zone `a`, `b0` in zone `b`."""
    return State([zoned("a0", "a"), zoned("a1", "a"), zoned("b0", "b")])


def run(state: State, *pods: Manifest, required: bool = True) -> None:
    """The pods run on their nodes; their requirements hold while they run."""
    for each in pods:
        running = replace(task_of(each), required_during_execution=required)
        state.place(running, node_of(each))


def violations(state: State) -> dict[str, tuple[str, ...]]:
    return {each.task.name: each.reasons for each in find_violations(state)}


def test_a_machine_that_loses_a_label_violates_a_node_selector_until_it_has_it_again(state: State):
    run(state, pod("web", "web", "a0", nodeSelector={ZONE: "a"}), pod("other", "web", "a0"))
    assert violations(state) == {}
    state.set_machine(zoned("a0", None))
    (found,) = find_violations(state)
    assert (found.task.name, found.machine) == ("web", "a0")
    assert found.reasons == (reason.AFFINITY,)
    assert found.kinds == {"node-affinity"}
    state.set_machine(zoned("a0", "a"))
    assert violations(state) == {}


def test_required_affinity_is_violated_when_the_last_task_that_matches_has_left(state: State):
    run(state, pod("db", "db", "a1"))
    run(state, pod("web", "web", "a0", **affinity("podAffinity", "db", ZONE)))
    assert violations(state) == {}
    state.remove("db")
    assert violations(state) == {"web": (reason.POD_AFFINITY,)}
    run(state, pod("db", "db", "b0"))
    assert violations(state) == {"web": (reason.POD_AFFINITY,)}
    state.set_machine(zoned("b0", "a"))
    assert violations(state) == {}


def test_a_lone_task_meets_affinity_to_its_own_kind(state: State):
    mine = affinity("podAffinity", "db", ZONE)
    run(state, pod("db", "db", "a0", **mine))
    assert violations(state) == {}
    run(state, pod("apart", "db", "b0", **mine))
    assert violations(state) == {"db": (reason.POD_AFFINITY,), "apart": (reason.POD_AFFINITY,)}


def test_a_task_that_came_into_a_domain_violates_the_anti_affinity_of_the_one_that_states_it(
    state: State,
):
    run(state, pod("db", "db", "a0", **affinity("podAntiAffinity", "web", ZONE)))
    run(state, pod("web", "web", "a1"))
    # The requirement is that of `db`: `web` requires nothing.
    assert violations(state) == {"db": (reason.POD_ANTI_AFFINITY,)}


def test_a_skew_is_violated_while_a_domain_has_too_many(state: State):
    spreads = spread("db", ZONE)
    for name, node in (("p0", "a0"), ("p1", "a1"), ("p2", "b0")):
        run(state, pod(name, "db", node, **spreads))
    assert violations(state) == {}
    state.remove("p2")
    assert violations(state) == {"p0": (reason.SPREAD,), "p1": (reason.SPREAD,)}
    state.set_machine(zoned("a1", None))
    assert violations(state) == {"p1": (reason.SPREAD_KEY,)}


def test_several_requirements_may_be_violated_at_once(state: State):
    both = {**affinity("podAffinity", "db", ZONE), **spread("web", ZONE)}
    run(state, pod("web", "web", "a0", nodeSelector={ZONE: "a"}, **both))
    state.set_machine(zoned("a0", None))
    (found,) = find_violations(state)
    assert found.reasons == (reason.AFFINITY, reason.SPREAD_KEY, reason.POD_AFFINITY)
    assert found.kinds == {"node-affinity", "spread", "affinity"}


def test_preferences_and_tasks_that_do_not_ask_for_it_or_are_ending_are_not_judged(state: State):
    soft = spread("db", ZONE, whenUnsatisfiable="ScheduleAnyway")
    run(state, *(pod(f"p{i}", "db", "a0", **soft) for i in range(3)))
    hard = pod("plain", "web", "a0", **affinity("podAffinity", "cache", ZONE))
    run(state, hard, required=False)
    ending = pod("ending", "web", "a0", **affinity("podAffinity", "cache", ZONE))
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    run(state, ending)
    assert violations(state) == {}
    run(state, hard)
    assert violations(state) == {"plain": (reason.POD_AFFINITY,)}


def test_nothing_is_judged_while_nothing_changes(state: State, monkeypatch: pytest.MonkeyPatch):
    standing = StandingViolations(state)
    run(state, pod("other", "db", "a0"), required=False)
    assert not standing.is_stale
    run(state, pod("web", "web", "a0", **affinity("podAffinity", "db", ZONE)))
    assert standing.is_stale
    assert standing.current() == ()
    assert not standing.is_stale
    state.remove("other")
    assert standing.is_stale
    (found,) = standing.current()
    assert found.task.name == "web"
    with monkeypatch.context() as patched:
        patched.setattr(standing_violations, "find_violations", None)
        assert standing.current() == (found,)
    state.remove("web")
    assert standing.is_stale
    assert standing.current() == ()
    state.remove_machine("b0")
    assert not standing.is_stale


def test_the_labels_of_a_namespace_may_violate_and_repair(state: State):
    apart = affinity("podAntiAffinity", "web", ZONE)
    (term,) = terms({"spec": apart}, "podAntiAffinity")
    term["namespaceSelector"] = {"matchLabels": {"team": "x"}}
    standing = StandingViolations(state)
    web = pod("web", "web", "a1")
    web["metadata"]["namespace"] = "blue"
    run(state, web, pod("db", "db", "a0", **apart))
    assert standing.current() == ()
    state.relations.selected.set_namespace("blue", {"team": "x"})
    assert [each.task.name for each in standing.current()] == ["db"]
    state.relations.selected.set_namespace("blue", {})
    assert standing.current() == ()


def test_random_clusters_are_judged_as_the_filters_of_kubernetes_judge_them():
    verdicts = Counter[str]()
    for seed in range(CLUSTERS):
        rng = Random(f"standing {seed}")
        random = RelatedPods(rng)
        state = random.state()
        nodes = list(random.cluster.nodes)
        pods = [bound(each, rng.choice(nodes)) for each in random.pods()]
        for each in pods:
            if rng.random() < 0.1:
                each["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        run(state, *pods)
        after = random.cluster.with_pods(pods)
        expected = {
            name_of(each): broken
            for each in pods
            if not filters.is_ending(each) and (broken := _broken(after.without(each), each))
        }
        assert violations(state) == expected, f"seed {seed}"
        verdicts.update(why for reasons in expected.values() for why in reasons)
        verdicts["none"] += len(pods) - len(expected)
    told = {reason.SPREAD, reason.SPREAD_KEY, reason.POD_AFFINITY, reason.POD_ANTI_AFFINITY}
    assert set(verdicts) == {"none", reason.AFFINITY, *told}
    assert min(verdicts.values()) > sum(verdicts.values()) / 100


def test_what_is_known_follows_any_changes():
    for seed in range(40):
        rng = Random(f"standing changes {seed}")
        random = RelatedPods(rng)
        state = random.state()
        standing = StandingViolations(state)
        nodes = list(random.cluster.nodes)
        pods = random.pods()
        for _ in range(30):
            step = rng.choice(("run", "run", "end", "label", "namespace"))
            if step == "run":
                run(state, bound(rng.choice(pods), rng.choice(nodes)), required=rng.random() < 0.8)
            elif step == "end":
                state.remove(name_of(rng.choice(pods)))
            elif step == "label":
                row = state.rows[rng.choice(nodes)]
                before = state.machine(row)
                assert before is not None
                labels = {**before.labels, ZONE: rng.choice(("z0", "z1"))}
                state.set_machine(replace(before, labels=labels))
            else:
                name = rng.choice(list(random.cluster.namespaces))
                state.relations.selected.set_namespace(name, {"team": rng.choice(("x", "y"))})
            assert list(standing.current()) == find_violations(state), f"seed {seed}"


def test_tasks_that_are_reported_with_other_labels_are_judged_again(state: State):
    apart = pod("db", "db", "a0", **affinity("podAntiAffinity", "web", ZONE))
    run(state, apart)
    other = task_of(pod("other", "log", "a1"))
    state.place(other, "a1")
    standing = StandingViolations(state)
    assert standing.current() == ()
    state.place(replace(other, labels=TaskLabels("red", (("app", "web"),))), "a1")
    assert [each.task.name for each in standing.current()] == ["db"]


def _broken(others: Cluster, each: Manifest) -> tuple[str, ...]:
    """The own requirements of a pod that its node does not meet."""
    node = others.nodes[node_of(each)]
    found: list[str] = []
    if not filters.matches_node_affinity(each, node):
        found.append(reason.AFFINITY)
    constraints = filters.hard_constraints(each)
    found += filter(None, (filters.spread_refusal(others, each, node, one) for one in constraints))
    if not filters.meets_affinity(others, each, node):
        found.append(reason.POD_AFFINITY)
    found += [
        reason.POD_ANTI_AFFINITY
        for term in terms(each, "podAntiAffinity")
        if not filters.meets_anti_affinity(others, each, node, term)
    ]
    return tuple(dict.fromkeys(found))
