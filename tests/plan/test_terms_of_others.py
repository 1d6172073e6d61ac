"""However many terms of others concern a class, they are counted together for each topology key."""

from afflux.cluster.state import State
from afflux.model.relations import AffinityTerm, Relations, TaskLabels, TaskSelector
from afflux.model.selectors import Requirement
from afflux.model.task import Shape, Task
from afflux.plan.domain_rules import DomainRules
from afflux.plan.soft_terms import SoftTerms
from oracles.builders import machine

MACHINES, TERMS = 4, 100


def term(number: int) -> AffinityTerm:
    """A term about every task; each number has a selector of its own."""
    absent = Requirement(f"k{number}", "DoesNotExist")
    key = ("zone", "rack")[number % 2]
    return AffinityTerm(TaskSelector(namespace_labels=(), labels=(absent,)), key)


def state_with(relations: list[Relations]) -> State:
    """A state in which a task with each of these relations runs, on the machines in turn."""
    racks = [{"zone": f"z{i}", "rack": f"r{i}"} for i in range(MACHINES)]
    state = State(machine(f"m{i}", labels=labels) for i, labels in enumerate(racks))
    for number, each in enumerate(relations):
        task = Task(f"t{number}", f"t{number}", Shape((), relations=each))
        state.place(task, f"m{number % (MACHINES - 1)}")
    return state


def test_terms_that_repel_a_class_are_one_rule_for_each_key():
    state = state_with([Relations(anti_affinity=(term(number),)) for number in range(TERMS)])
    newcomer = Task("new", "new", Shape(()), labels=TaskLabels("other"))
    rules = DomainRules(state, [state.relations.class_of(newcomer)])
    assert len(rules.classes[0].rules) == len(rules.counters) == 2
    refused = rules.account().rule_refusals(0).any(axis=1).tolist()
    assert refused == [True] * (MACHINES - 1) + [False]


def test_preferred_terms_of_others_are_one_counter_for_each_key():
    state = state_with(
        [Relations(preferred=((-1 - number, term(number)),)) for number in range(TERMS)]
    )
    newcomer = Task("new", "new", Shape(()), labels=TaskLabels("other"))
    soft = SoftTerms(state, [state.relations.class_of(newcomer)])
    assert len(soft._terms[0].affinity) == 2
