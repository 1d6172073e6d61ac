"""The reasons against each machine where pods have constraints between them, and the sentences."""

from collections import Counter
from random import Random

import pytest

from afflux.cluster.state import State
from afflux.model.waiting_group import WaitingGroup
from afflux.plan.explain import verdicts, why_waiting
from afflux.policies.registry import constraints
from oracles import kubernetes_filters as filters
from oracles.kubernetes_filters import Manifest, name_of
from oracles.pod_constraints import affinity, pod, spread
from oracles.related_pods import HOST, ZONE, RelatedPods, task_of, zoned_state

CLUSTERS = 400


@pytest.fixture
def state() -> State:
    return zoned_state()


def sentences(state: State, *waiting: Manifest) -> list[str]:
    groups = [WaitingGroup(name_of(each), (task_of(each),)) for each in waiting]
    return list(why_waiting(state, lambda _: constraints(), groups).values())


def test_random_pods_get_the_verdicts_of_the_filters_of_kubernetes_on_every_node():
    told = Counter[str]()
    for seed in range(CLUSTERS):
        random = RelatedPods(Random(f"explained {seed}"))
        cluster, state = random.cluster, random.state()
        tasks = [task_of(each) for each in random.pods()]
        state.relations.use(task.shape.relations for task in tasks)
        for each, task in zip(random.pods(), tasks, strict=True):
            expected = {
                name: filters.refusals(cluster, each, node) for name, node in cluster.nodes.items()
            }
            found = verdicts(state, lambda _: constraints(), state.relations.class_of(task))
            assert found == expected, f"seed {seed}: {name_of(each)}"
            told.update(why for reasons in expected.values() for why in reasons or ("fits",))
    asked = {filters.SPREAD, filters.SPREAD_LABEL, filters.AFFINITY, filters.ANTI_AFFINITY}
    assert min(told[why] for why in (*asked, filters.EXISTING, "fits")) > told.total() / 100


def test_the_reasons_are_counted_in_one_sentence(state: State):
    state.place(task_of(pod("lone", "db", **affinity("podAntiAffinity", "web", ZONE))), "a0")
    state.place(task_of(pod("twin", "web")), "b0")
    waiting = pod("late", "web", **spread("web", ZONE))
    (sentence,) = sentences(state, waiting)
    assert sentence == (
        "0/4 nodes are available: "
        "1 node(s) didn't match pod topology spread constraints, "
        "1 node(s) didn't match pod topology spread constraints (missing required label), "
        "2 node(s) didn't satisfy existing pods anti-affinity rules."
    )


def test_a_pod_that_misses_another_says_which_and_whether_it_waits(state: State):
    waiting = pod("late", "web", **affinity("podAffinity", "db", ZONE))
    refused = "0/4 nodes are available: 4 node(s) didn't match pod affinity rules."
    needs = f"{refused} It requires a pod that matches app=db in the same {ZONE}: none runs, "
    assert sentences(state, waiting) == [f"{needs}none waits."]
    assert sentences(state, waiting, pod("other", "db"))[0] == f"{needs}1 waits."
    state.place(task_of(pod("db", "db")), "none")
    # One runs, but not in a domain of the key.
    assert sentences(state, waiting) == [refused]


def test_two_that_require_each_other_say_it_of_each_other(state: State):
    pair = [
        pod("one", "db", **affinity("podAffinity", "web", ZONE)),
        pod("other", "web", **affinity("podAffinity", "db", ZONE)),
    ]
    one, other = sentences(state, *pair)
    assert "It requires a pod that matches app=web" in one
    assert "It requires a pod that matches app=db" in other
    assert one.endswith("none runs, 1 waits.")


def test_pods_of_one_shape_that_others_select_differently_get_their_own_reasons(state: State):
    state.place(task_of(pod("lone", "db", **affinity("podAntiAffinity", "web", HOST))), "a0")
    web, log = sentences(state, pod("web", "web"), pod("log", "log"))
    assert "3/4 nodes have room" in web
    assert "4/4 nodes have room" in log
