"""The order of binding: each placement is admitted at its turn, whatever is bound meanwhile."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afflux.cluster.state import State
from afflux.cycle.events import GroupReady
from afflux.cycle.loop import Cycle
from afflux.model.placement import Placement
from afflux.model.relations import AffinityTerm, Relations, TaskLabels, TaskSelector
from afflux.model.resources import resources
from afflux.model.selectors import Requirement
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from afflux.plan.binding_order import BindingOrder, binding_order
from oracles.builders import machine, scheduler

ZONE, HOST = "zone", "host"


def selects(**own: str) -> TaskSelector:
    return TaskSelector(("d",), labels=tuple(Requirement(k, "In", (v,)) for k, v in own.items()))


def pod(name: str, *terms: tuple[TaskSelector, str], **own: str) -> Task:
    """A task with these labels and required affinity terms."""
    relations = Relations(affinity=tuple(AffinityTerm(*term) for term in terms))
    shape = Shape(resources({}), relations=relations)
    return Task(name, f"d/{name}", shape, labels=TaskLabels("d", tuple(sorted(own.items()))))


def two_zones() -> State:
    names = [("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")]
    return State([machine(name, labels={HOST: name, ZONE: zone}) for name, zone in names])


def order(state: State, *placed: tuple[Task, str], unconfirmed: Collection[str] = ()):
    found = binding_order(state, [Placement(task, on) for task, on in placed], unconfirmed)
    assert sorted(p.task.id for p in found.placements) == sorted(task.id for task, _ in placed)
    return found


# --- Examples


def test_placements_without_required_affinity_keep_their_order():
    placed = [(pod("x", app="db"), "b1"), (pod("y"), "a1")]
    found = order(two_zones(), *placed)
    assert found == BindingOrder(tuple(Placement(task, on) for task, on in placed))


def test_a_pod_rests_on_the_pod_of_the_same_round_that_it_requires():
    web, db = pod("web", (selects(app="db"), ZONE)), pod("db", app="db")
    found = order(two_zones(), (web, "a1"), (db, "a2"))
    assert [each.task.id for each in found.placements] == ["db", "web"]
    assert found.rests_on == {"web": ("db",)}
    assert found.circles == ()


def test_a_pod_rests_on_nothing_if_a_running_pod_is_enough():
    state = two_zones()
    state.place(pod("old", app="db"), "a1")
    web, db = pod("web", (selects(app="db"), ZONE)), pod("db", app="db")
    assert order(state, (web, "a1"), (db, "a2")).rests_on == {}


def test_a_pod_rests_on_an_earlier_placement_that_is_not_confirmed():
    state = two_zones()
    state.place(pod("old", app="db"), "a1")
    web = pod("web", (selects(app="db"), ZONE))
    assert order(state, (web, "a1"), unconfirmed=["old"]).rests_on == {"web": ("old",)}


def test_thousands_of_one_group_rest_on_the_first_of_them():
    state = two_zones()
    near = (selects(app="x"), ZONE)
    found = order(state, *((pod(f"x{n}", near, app="x"), f"a{1 + n % 2}") for n in range(5_000)))
    assert found.rests_on == {f"x{n}": ("x0",) for n in range(1, 5_000)}
    assert found.circles == ()


def test_pods_that_require_each_other_are_a_circle_and_others_rest_on_it():
    a = [pod(f"a{n}", (selects(app="b"), ZONE), app="a") for n in range(3)]
    b = pod("b", (selects(app="a"), ZONE), app="b")
    found = order(two_zones(), *((each, "a1") for each in a), (b, "a2"))
    assert found.circles == (frozenset({"a0", "b"}),)
    assert found.rests_on == {"a1": ("b",), "a2": ("b",)}


def test_a_circle_rests_as_a_whole_on_what_one_of_its_pods_requires():
    a = pod("a", (selects(app="b"), ZONE), app="a")
    b = pod("b", (selects(needed="yes"), ZONE), (selects(needed="yes"), HOST), app="b", needed="no")
    c = pod("c", (selects(app="a"), ZONE), app="c")
    d = pod("d", (selects(app="c"), ZONE), app="b")
    anchor = pod("anchor", needed="yes")
    found = order(two_zones(), (a, "a1"), (c, "a1"), (d, "a2"), (b, "a2"), (anchor, "a2"))
    # b is enough for a, so that nothing is a circle.
    assert found.circles == ()
    assert found.rests_on == {"b": ("anchor",), "a": ("b",), "c": ("a",), "d": ("c",)}


def test_a_pod_that_would_keep_the_first_of_a_group_out_is_bound_after_it():
    near = (selects(app="x"), ZONE)
    odd = pod("odd", (selects(app="y"), ZONE), app="x")
    first, second = pod("x0", near, app="x"), pod("x1", near, app="x")
    y = pod("y", (selects(app="y"), ZONE), app="y")
    found = order(two_zones(), (first, "a1"), (second, "a2"), (y, "b1"), (odd, "b2"))
    assert found.rests_on == {"x1": ("x0",), "odd": ("y", "x0")}


def test_a_group_whose_kind_is_elsewhere_too_begins_with_a_circle_of_two():
    near = (selects(app="x"), ZONE)
    members = [(pod(f"x{n}", near, app="x"), "a1") for n in range(4)]
    found = order(two_zones(), *members, (pod("odd", app="x"), "b1"))
    assert found.circles == (frozenset({"x0", "x1"}),)
    assert found.rests_on == {"x2": ("x0",), "x3": ("x0",)}


def test_a_long_chain_and_many_circles_take_no_recursion():
    state = State([machine("m", labels={HOST: "m"})])
    chain = [pod(f"c{n}", (selects(link=str(n + 1)), HOST), link=str(n)) for n in range(2_000)]
    pairs = [
        pod(f"p{n}.{side}", (selects(pair=f"{n}.{1 - side}"), HOST), pair=f"{n}.{side}")
        for n in range(500)
        for side in (0, 1)
    ]
    end = pod("end", link="2000")
    found = order(state, *((each, "m") for each in (*chain, *pairs, end)))
    assert len(found.circles) == 500
    assert found.rests_on["c0"] == ("c1",)
    assert found.rests_on["c1999"] == ("end",)


# --- Against the slow rule


@dataclass
class Slow:
    """kube-scheduler's rule for required affinity, pod by pod."""

    machines: dict[str, dict[str, str]]
    there: list[tuple[Task, str]] = field(default_factory=list)

    def admits(self, task: Task, on: str) -> bool:
        terms = task.shape.relations.affinity
        near = [other for other in self.there if self._matches(task, other[0])]
        pairs = {
            (term.topology_key, value)
            for _, machine in near
            for term in terms
            if (value := self.machines[machine].get(term.topology_key)) is not None
        }
        for term in terms:
            if term.topology_key not in self.machines[on]:
                return False
        own = {(term.topology_key, self.machines[on][term.topology_key]) for term in terms}
        return own <= pairs or (not pairs and self._matches(task, task))

    @staticmethod
    def _matches(task: Task, other: Task) -> bool:
        return all(t.selector.matches(other.labels, {}) for t in task.shape.relations.affinity)

    def without(self, task_id: str) -> "Slow":
        return Slow(self.machines, [each for each in self.there if each[0].id != task_id])

    def with_all(self, more: Iterable[tuple[Task, str]]) -> "Slow":
        return Slow(self.machines, [*self.there, *more])


class World:
    """A random cluster, and placements that are right when judged after the round."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.machines = {
            f"m{n}": {
                key: value
                for key, value in ((HOST, f"m{n}"), (ZONE, rng.choice("ab")), ("rack", "r"))
                if rng.random() < 0.85
            }
            for n in range(rng.randint(1, 6))
        }
        running = [(self.task(f"old{n}", 0.3), self.place()) for n in range(rng.randint(0, 5))]
        self.unconfirmed = [task.id for task, _ in running if rng.random() < 0.4]
        slow = Slow(self.machines, running)
        self.before = [each for each in running if each[0].id not in self.unconfirmed]
        self.running = running
        kinds = [self.task("kind", 0.8) for _ in range(rng.randint(1, 6))]
        placed: list[tuple[Task, str]] = []
        for n in range(rng.randint(1, 25)):
            kind = rng.choice(kinds)
            placed.append((Task(f"t{n}", f"d/t{n}", kind.shape, labels=kind.labels), self.place()))
        # What the rule refuses is not placed.
        while True:
            end = slow.with_all(placed)
            kept = [each for each in placed if end.without(each[0].id).admits(*each)]
            if len(kept) == len(placed):
                break
            placed.remove(rng.choice([each for each in placed if each not in kept]))
        self.placed = placed

    def place(self) -> str:
        return self.rng.choice(list(self.machines))

    def task(self, name: str, share: float) -> Task:
        rng = self.rng
        own = {key: rng.choice("xy") for key in ("app", "tier") if rng.random() < 0.8}
        terms: list[tuple[TaskSelector, str]] = []
        while rng.random() < share and len(terms) < 3:
            wanted = {rng.choice(("app", "app", "tier")): rng.choice("xy")}
            if own and rng.random() < 0.4:
                wanted = dict([rng.choice(list(own.items()))])
            terms.append((selects(**wanted), rng.choice((HOST, ZONE, ZONE, "rack"))))
            share /= 2
        return pod(name, *terms, **own)

    def order(self) -> BindingOrder:
        state = State([machine(name, labels=own) for name, own in self.machines.items()])
        for task, on in self.running:
            state.place(task, on)
        placed = [Placement(task, on) for task, on in self.placed]
        return binding_order(state, placed, self.unconfirmed)


def steps_of(found: BindingOrder, unconfirmed: Sequence[str]) -> list[tuple[str, ...]]:
    """Each circle, and each task alone, in the order that was found."""
    circle_of = {each: circle for circle in found.circles for each in circle}
    steps: list[tuple[str, ...]] = [(each,) for each in unconfirmed]
    for placement in found.placements:
        step = tuple(sorted(circle_of.get(placement.task.id, {placement.task.id})))
        if not steps or steps[-1] != step:
            steps.append(step)
    return steps


def is_bound_in(
    world: World, found: BindingOrder, steps: Sequence[tuple[str, ...]], failing: Collection[str]
) -> None:
    """Bind step by step; each is admitted at its turn unless something that it rests on failed."""
    on = {task.id: (task, where) for task, where in (*world.running, *world.placed)}
    slow, done, failed = Slow(world.machines, list(world.before)), set[str](), set[str]()
    for step in steps:
        needed = {each for one in step for each in found.rests_on.get(one, ())}
        assert needed <= done | failed, step
        if needed & failed or any(each in failing for each in step):
            failed.update(step)
            continue
        slow = slow.with_all(on[each] for each in step)
        done.update(step)
        if step[0] in world.unconfirmed:
            continue
        for each in step:
            assert slow.without(each).admits(*on[each]), each


@settings(max_examples=600)
@given(seed=st.integers(0, 2**40))
def test_every_placement_is_admitted_when_it_is_bound(seed: int) -> None:
    rng = Random(seed)
    world = World(rng)
    found = world.order()
    placed = [task.id for task, _ in world.placed]
    assert sorted(each.task.id for each in found.placements) == sorted(placed)
    steps = steps_of(found, world.unconfirmed)
    assert sorted(each for step in steps for each in step) == sorted([*placed, *world.unconfirmed])
    is_bound_in(world, found, steps, set())
    # Any other order that keeps what rests on others behind them, with failures.
    for _ in range(3):
        shuffled = shuffled_steps(rng, found, steps)
        bindings = sorted([*placed, *world.unconfirmed])
        failing = rng.sample(bindings, rng.randint(0, min(2, len(bindings))))
        is_bound_in(world, found, shuffled, set(failing))


def shuffled_steps(
    rng: Random, found: BindingOrder, steps: Sequence[tuple[str, ...]]
) -> list[tuple[str, ...]]:
    left, shuffled, done = list(steps), list[tuple[str, ...]](), set[str]()
    while left:
        free = [s for s in left if {a for x in s for a in found.rests_on.get(x, ())} <= done]
        step = rng.choice(free)
        left.remove(step)
        shuffled.append(step)
        done.update(step)
    return shuffled


@pytest.mark.parametrize("feature", ["rests", "circle", "rests on unconfirmed", "depth"])
def test_the_random_worlds_have_enough_of_everything(feature: str) -> None:
    count = 0
    for seed in range(400):
        world = World(Random(seed))
        found = world.order()
        rests = found.rests_on
        count += {
            "rests": bool(rests),
            "circle": bool(found.circles),
            "rests on unconfirmed": any(set(a) & set(world.unconfirmed) for a in rests.values()),
            "depth": any(each in rests for a in rests.values() for each in a),
        }[feature]
    assert count >= 20, count


# --- As the cycle decides it


def test_the_placements_of_a_cycle_come_in_an_order_in_which_they_can_be_bound():
    state = two_zones()
    cycle = Cycle(state, scheduler(state))
    a = pod("a", (selects(app="b"), ZONE), app="a")
    b = pod("b", (selects(app="a"), ZONE), app="b")
    near = [pod(f"near{n}", (selects(app="db"), ZONE)) for n in range(3)]
    waiting = [a, *near, b, pod("db", app="db")]
    outcome = cycle.run([GroupReady(WaitingGroup(each.name, (each,))) for each in waiting])
    assert outcome.circles == (frozenset({"a", "b"}),)
    assert outcome.rests_on == {f"near{n}": ("db",) for n in range(3)}
    turn = [each.task.id for each in outcome.placements]
    assert all(turn.index("db") < turn.index(each.id) for each in near)
    assert abs(turn.index("a") - turn.index("b")) == 1
    late = pod("late", (selects(app="db"), ZONE))
    outcome = cycle.run([GroupReady(WaitingGroup("late", (late,)))], unconfirmed={"db", "a"})
    assert outcome.rests_on == {"late": ("db",)}
