"""The tasks that selectors select, against a recount of all tasks."""

from collections import Counter
from random import Random

import pytest

from afflux.cluster import selected_tasks
from afflux.cluster.state import State
from afflux.model.relations import TaskLabels, TaskSelector
from afflux.model.selectors import Requirement
from afflux.model.task import Task
from oracles.builders import machine, shape

NAMESPACES = ("a", "b", "c")
TEAMS: tuple[dict[str, str], ...] = ({}, {"team": "x"}, {"team": "y", "rank": "7"})
EVERYWHERE: tuple[Requirement, ...] = ()


def labels(namespace: str, **own: str) -> TaskLabels:
    return TaskLabels(namespace, tuple(sorted(own.items())))


def labelled(name: str, of: TaskLabels) -> Task:
    return Task(name, name, shape(), labels=of)


def selects(*namespaces: str, **own: str) -> TaskSelector:
    requirements = (Requirement(key, "In", (value,)) for key, value in own.items())
    return TaskSelector(namespaces, labels=tuple(requirements))


class Generator:
    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def requirements(self, keys: tuple[str, ...]) -> tuple[Requirement, ...]:
        def requirement() -> Requirement:
            operator = self.rng.choice(("In", "In", "NotIn", "Exists", "DoesNotExist"))
            values = ("x", "y")[: self.rng.randint(1, 2)] if operator in {"In", "NotIn"} else ()
            return Requirement(self.rng.choice(keys), operator, values)

        return tuple(requirement() for _ in range(self.rng.randint(0, 2)))

    def selector(self) -> TaskSelector:
        rng = self.rng
        return TaskSelector(
            tuple(rng.sample(NAMESPACES, rng.randint(0, 2))),
            self.requirements(("team", "rank")) if rng.random() < 0.5 else None,
            self.requirements(("app", "tier")) if rng.random() < 0.9 else None,
        )

    def labels(self) -> TaskLabels:
        rng = self.rng
        own = {key: rng.choice("xyz") for key in ("app", "tier") if rng.random() < 0.7}
        return labels(rng.choice(NAMESPACES), **own)


class Recount:
    """Everything as plain lists."""

    def __init__(self) -> None:
        self.tasks: dict[str, tuple[TaskLabels, str]] = {}
        self.namespaces: dict[str, dict[str, str]] = {}
        self.registered: list[tuple[int, TaskSelector]] = []

    def selects(self, selector: TaskSelector, task: TaskLabels) -> bool:
        return selector.matches(task, self.namespaces.get(task.namespace, {}))

    def check(self, state: State, waiting: list[TaskLabels]) -> None:
        selected = state.relations.selected
        for number, selector in self.registered:
            on_rows = Counter(
                state.rows[name] for own, name in self.tasks.values() if self.selects(selector, own)
            )
            assert selected.on_rows(number) == on_rows
        for own in waiting:
            found = {number for number, each in self.registered if self.selects(each, own)}
            assert selected.selectors_of(own) == tuple(sorted(found))


@pytest.mark.parametrize("seed", range(80))
def test_counts_are_right_after_any_changes(seed: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(selected_tasks, "MAX_COUNTED", (0, 4, 10, 1_000)[seed % 4])
    monkeypatch.setattr(selected_tasks, "MAX_MATCHED", (20, 1_000)[seed // 4 % 2])
    rng = Random(f"task labels {seed}")
    generator = Generator(rng)
    state, recount = State(), Recount()
    for step in range(80):
        names = list(state.rows)
        kinds = ("place", "place", "place", "move", "relabel", "end", "machine", "gone")
        kind = rng.choice((*kinds, "register", "register", "release", "namespace"))
        if kind == "machine" or not names:
            fields = {"cpu": rng.randint(1, 9)}
            state.set_machine(machine(f"m{rng.randrange(5)}", **fields))
        elif kind == "place":
            own, name = generator.labels(), rng.choice(names)
            state.place(labelled(f"t{step}", own), name)
            recount.tasks[f"t{step}"] = own, name
        elif kind in {"move", "relabel"} and recount.tasks:
            task_id = rng.choice(list(recount.tasks))
            own, name = recount.tasks[task_id]
            own = generator.labels() if kind == "relabel" else own
            name = rng.choice(names) if kind == "move" else name
            state.place(labelled(task_id, own), name)
            recount.tasks[task_id] = own, name
        elif kind == "end" and recount.tasks:
            task_id = rng.choice(list(recount.tasks))
            state.remove(task_id)
            del recount.tasks[task_id]
        elif kind == "gone":
            for lost in state.remove_machine(rng.choice(names)):
                del recount.tasks[lost.id]
        elif kind == "register":
            known = [selector for _, selector in recount.registered]
            again = known and rng.random() < 0.3
            selector = rng.choice(known) if again else generator.selector()
            recount.registered.append((state.relations.selected.register(selector), selector))
        elif kind == "release" and recount.registered:
            # Often all of them, so that counting begins anew.
            most = rng.choice((1, 1, 1, len(recount.registered)))
            for _ in range(most):
                number, _ = recount.registered.pop(rng.randrange(len(recount.registered)))
                state.relations.selected.release(number)
        elif kind == "namespace":
            name, own = rng.choice(NAMESPACES), rng.choice(TEAMS)
            state.relations.selected.set_namespace(name, own)
            recount.namespaces[name] = own
        recount.check(state, [generator.labels() for _ in range(3)])


def test_equal_selectors_share_an_id_until_the_last_one_is_released():
    state = State([machine("m")])
    web = selects("a", app="web")
    first = state.relations.selected.register(web)
    assert state.relations.selected.register(selects("a", app="web")) == first
    state.relations.selected.release(first)
    assert state.relations.selected.selectors_of(labels("a", app="web")) == (first,)
    state.relations.selected.release(first)
    assert not state.relations.selected
    assert state.relations.selected.selectors_of(labels("a", app="web")) == ()
    assert state.relations.selected.register(web) != first


def test_tasks_that_ran_before_their_selector_was_registered_are_counted():
    state = State([machine("m"), machine("n")])
    state.place(labelled("t", labels("a", app="web")), "n")
    number = state.relations.selected.register(selects("a", app="web"))
    assert state.relations.selected.on_rows(number) == {1: 1}


def test_a_reused_row_has_no_tasks_of_the_removed_machine():
    state = State([machine("m")])
    number = state.relations.selected.register(selects("a"))
    state.place(labelled("t", labels("a")), "m")
    state.remove_machine("m")
    assert state.set_machine(machine("n")) == 0
    assert state.relations.selected.on_rows(number) == {}


def test_a_namespace_that_gets_a_label_is_selected_from_then_on():
    state = State([machine("m")])
    team = TaskSelector(namespace_labels=(Requirement("team", "In", ("x",)),))
    number = state.relations.selected.register(team)
    anywhere = state.relations.selected.register(TaskSelector(namespace_labels=EVERYWHERE))
    state.place(labelled("t", labels("a")), "m")
    assert state.relations.selected.on_rows(number) == {}
    assert state.relations.selected.on_rows(anywhere) == {0: 1}
    state.relations.selected.set_namespace("a", {"team": "x"})
    assert state.relations.selected.on_rows(number) == {0: 1}
    assert state.relations.selected.selectors_of(labels("a")) == (number, anywhere)
    state.relations.selected.set_namespace("a", {})
    assert state.relations.selected.on_rows(number) == {}


def test_a_running_task_with_new_labels_changes_its_machine():
    state = State([machine("m")])
    number = state.relations.selected.register(selects("a", app="web"))
    state.place(labelled("t", labels("a", app="db")), "m")
    before = state.version
    state.place(labelled("t", labels("a", app="db")), "m")
    assert state.version == before
    state.place(labelled("t", labels("a", app="web")), "m")
    assert state.version > before
    assert state.relations.selected.on_rows(number) == {0: 1}


def test_label_sets_without_tasks_do_not_accumulate(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(selected_tasks, "MAX_MATCHED", 100)
    state = State([machine("m")])
    number = state.relations.selected.register(selects("a", app="web"))
    state.place(labelled("t", labels("a", app="web")), "m")
    for index in range(1_000):
        state.relations.selected.selectors_of(labels("a", index=str(index)))
        state.relations.selected.selectors_of(labels(f"n{index}"))
    assert len(state.relations.selected._matched) <= 13
    assert state.relations.selected.on_rows(number) == {0: 1}


def test_machines_with_the_same_label_are_in_one_domain():
    zones = ("x", None, "y", "x")
    state = State(
        machine(f"m{row}", labels={"zone": zone} if zone else {}) for row, zone in enumerate(zones)
    )
    first, none, second, again = state.labels.domains("zone").tolist()
    assert first == again
    assert none == -1
    assert len({first, none, second}) == 3
    state.remove_machine("m2")
    assert state.labels.domains("zone")[2] == -1
    assert state.labels.domains("rack").tolist() == [-1] * 4
