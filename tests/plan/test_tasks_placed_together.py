"""Examples of rounds in which tasks have room only together, or would take it from each other."""

from collections.abc import Mapping
from types import MappingProxyType

import pytest

from afflux.cluster.state import State
from afflux.model.waiting_group import WaitingGroup
from afflux.plan.check import check_plan
from oracles.builders import decide, machine
from oracles.kubernetes_filters import Manifest, name_of
from oracles.pod_constraints import affinity, pod, spread
from oracles.related_pods import HOST, ZONE, task_of


@pytest.fixture
def state() -> State:
    """Machines `a0`, `a1` and `b0`, `b1` in the zones `a` and `b`, each for two pods."""
    names = ("a0", "a1", "b0", "b1")
    return State(machine(name, pods=2, labels={ZONE: name[0], HOST: name}) for name in names)


def placed(
    state: State, *groups: list[Manifest], priorities: Mapping[int, int] = MappingProxyType({})
) -> dict[str, str]:
    """Where each pod of these groups goes in one round."""
    waiting = [
        WaitingGroup(f"g{number}", tuple(map(task_of, pods)), priorities.get(number, 0))
        for number, pods in enumerate(groups)
    ]
    decided = decide(state, *waiting)
    check_plan(state, decided.placed, decided.placements)
    assert decided.refused_tasks == 0
    return {each.task.name: each.machine for each in decided.placements}


def test_pods_that_require_each_other_in_a_ring_start_together(state: State):
    ring = [
        pod(f"p{i}", f"app{i}", **affinity("podAffinity", f"app{(i + 1) % 3}", ZONE))
        for i in range(3)
    ]
    found = placed(state, *([each] for each in ring))
    assert len({where[0] for where in found.values()}) == 1
    assert len(found) == 3


def test_of_pods_that_require_each_other_none_starts_if_one_cannot(state: State):
    mutual = [
        pod("one", "db", **affinity("podAffinity", "web", ZONE)),
        pod("other", "web", nodeSelector={ZONE: "c"}, **affinity("podAffinity", "db", ZONE)),
    ]
    assert placed(state, *([each] for each in mutual)) == {}


def test_a_group_whose_zone_is_full_goes_on_in_another_zone_by_two(state: State):
    for number in range(4):
        state.place(task_of(pod(f"old{number}", "db")), f"a{number % 2}")
    one, two = (pod(name, "db", **affinity("podAffinity", "db", ZONE)) for name in ("one", "two"))
    assert placed(state, [one]) == {}
    together = placed(state, [one], [two])
    assert {where[0] for where in together.values()} == {"b"}
    assert len(together) == 2


def test_a_gang_may_start_in_a_zone_where_none_of_its_kind_runs(state: State):
    for number in range(4):
        state.place(task_of(pod(f"old{number}", "db")), f"a{number % 2}")
    gang = [pod(f"p{i}", "db", **affinity("podAffinity", "db", ZONE)) for i in range(4)]
    found = placed(state, gang)
    assert {where[0] for where in found.values()} == {"b"}


def test_no_other_pod_takes_the_place_of_the_first_of_a_group(state: State):
    first = pod("first", "db", nodeSelector={ZONE: "a"}, **affinity("podAffinity", "db", ZONE))
    plain = pod("plain", "db", nodeSelector={ZONE: "b"})
    assert placed(state, [first], [plain], priorities={0: 1}) == {"first": "a0"}
    near = pod("near", "db", nodeSelector={ZONE: "a"})
    assert len(placed(state, [first], [near], [plain], priorities={0: 2, 1: 1})) == 3


def test_pods_without_a_constraint_leave_the_spread_of_others_as_it_is(state: State):
    anywhere = spread("web", ZONE, nodeAffinityPolicy="Ignore")
    spreading = pod("spread", "web", nodeSelector={ZONE: "a"}, **anywhere)
    plain = [pod(f"plain{i}", "web", nodeSelector={ZONE: "a"}) for i in range(3)]
    found = placed(state, [spreading], *([each] for each in plain), priorities={0: 1})
    assert set(found) == {"spread"}
    more = pod("more", "web", nodeSelector={ZONE: "b"})
    found = placed(state, [spreading], *([e] for e in plain), [more], priorities={0: 1})
    assert len(found) == 3
    assert {name_of(spreading), name_of(more)} < set(found)
