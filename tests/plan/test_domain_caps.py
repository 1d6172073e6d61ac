"""The caps that constraints between tasks put on domains in the network of a round."""

from collections import Counter

from afflux.cluster.state import State
from afflux.model.relations import Relations, SpreadConstraint, TaskLabels, TaskSelector
from afflux.model.resources import resources
from afflux.model.selectors import Requirement
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from oracles.builders import decide, machine

WEB = TaskSelector(("default",), labels=(Requirement("app", "In", ("web",)),))
LABELS = TaskLabels("default", (("app", "web"),))


def spread_round(max_skew: int) -> Counter[str]:
    """How many of 60 tasks each of 30 machines in 3 zones gets."""
    state = State(machine(f"m{i}", cpu=1_000, labels={"zone": f"z{i % 3}"}) for i in range(30))
    spread = (SpreadConstraint(WEB, "zone", max_skew),)
    of = Shape(resources({"pods": 1, "cpu": 10}), relations=Relations(spread=spread))
    waiting = [
        WaitingGroup(f"t{i}", (Task(f"t{i}", f"t{i}", of, labels=LABELS),)) for i in range(60)
    ]
    return Counter(each.machine for each in decide(state, *waiting).placements)


def test_tasks_that_are_spread_over_zones_share_the_machines_of_each_zone():
    for max_skew in (1, 5):
        assert set(spread_round(max_skew).values()) == {2}
