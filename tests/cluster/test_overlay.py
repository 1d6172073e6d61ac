"""An overlay changes as the state would, and the state stays as it is."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from afflux.cluster.state import State
from afflux.model.devices import DeviceRequest
from afflux.model.disks import Bandwidth, Disk, DiskReport, DiskRequest, VolumeIO
from afflux.model.relations import AffinityTerm, Relations, TaskLabels, TaskSelector
from afflux.model.selectors import Requirement
from afflux.model.task import Task
from afflux.network.pricing import Pricing
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints
from oracles.builders import machine, shape

APPS = ("web", "db", "cache")


def selects(app: str) -> TaskSelector:
    return TaskSelector(namespaces=("a",), labels=(Requirement("app", "In", (app,)),))


def random_task(rng: Random, name: str) -> Task:
    of = shape(cpu=rng.randint(1, 4), **rng.choice([{}, {"memory": 3}]))
    if rng.random() < 0.3:
        of = replace(of, devices=DeviceRequest(1, rng.choice((250, 500))))
    if rng.random() < 0.4:
        volumes = tuple(VolumeIO(rng.randint(0, 9), 2) for _ in range(rng.randint(1, 2)))
        of = replace(of, disks=DiskRequest(volumes, is_stated=rng.random() < 0.7))
    if rng.random() < 0.4:
        term = AffinityTerm(selects(rng.choice(APPS)), "zone")
        of = replace(of, relations=Relations(anti_affinity=(term,)))
    return Task(name, name, of, labels=TaskLabels("a", (("app", rng.choice(APPS)),)))


class Copies:
    """A state, and another one with the same history, which shares nothing with it."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        machines = [
            machine(f"m{n}", cpu=40, memory=40, devices=4, labels={"zone": f"z{n % 3}"})
            for n in range(6)
        ]
        self.states = [State(machines), State(machines)]
        self.names = 0
        for number in range(4):
            left = Bandwidth(40 + number, 30, 50)
            known = frozenset(f"t{n}" for n in range(number, 20, 3))
            report = DiskReport(f"m{number}", (Disk("d0", left), Disk("d1", left)), known)
            for state in self.states:
                state.set_disks(report)

    def change(self, *states: State) -> None:
        """The same random change to each of these states."""
        first = states[0]
        running = sorted(held.task.id for row in range(len(first)) for held in first.placed_on(row))
        if running and self.rng.random() < 0.4:
            gone = self.rng.choice(running)
            for state in states:
                state.remove(gone)
            return
        self.names += 1
        task, where = random_task(self.rng, f"t{self.names}"), f"m{self.rng.randrange(6)}"
        until = self.rng.choice((None, 10.0))
        for state in states:
            state.place(task, where, None, until)


def seen(state: State) -> object:
    """Everything that a planner may ask of a state."""
    for app in APPS:
        state.relations.use([Relations(affinity=(AffinityTerm(selects(app), "zone"),))])
    counted = [state.relations.selector_id(selects(app)) for app in APPS]
    placed = {
        held.task.id: (held.row, held.devices, held.until_seconds)
        for row in range(len(state))
        for held in state.placed_on(row)
    }
    return (
        placed,
        {name: state.view().used(name).tolist() for name in ("cpu", "memory", "pods")},
        list(state.view().free_devices),
        [column.tolist() for column in state.disks.columns(slice(None), len(state)).table],
        [column.tolist() for column in state.disks.capacity(len(state)).table],
        {name: state.disks.disks_of(name) for name in placed},
        state.view().running.tolist(),
        [dict(state.relations.rows_of(number)) for number in counted],
        [
            dict(rows)
            for term in sorted(state.relations.terms_selecting(counted), key=repr)
            if (rows := state.relations.rows_of(term))
        ],
    )


@pytest.mark.parametrize("seed", range(30))
def test_an_overlay_changes_as_the_state_would_and_leaves_it_alone(seed: int):
    copies = Copies(Random(seed))
    state, twin = copies.states
    for _ in range(20):
        copies.change(state, twin)
    before = seen(state), state.version
    overlay = state.overlay()
    for _ in range(15):
        copies.change(overlay, twin)
        assert seen(overlay) == seen(twin)
    above = overlay.overlay()
    kept = seen(overlay)
    for _ in range(10):
        copies.change(above, twin)
    assert seen(above) == seen(twin)
    assert seen(overlay) == kept
    assert (seen(state), state.version) == before


@pytest.mark.parametrize("seed", range(10))
def test_prices_on_an_overlay_are_those_of_a_state_with_the_same_tasks(seed: int):
    copies = Copies(Random(seed))
    state, twin = copies.states
    pricing = Pricing(state, constraints(), [Weighted(CpuMemory())])
    shapes = [shape(cpu=2), shape(cpu=9, memory=2)]
    for _ in range(10):
        copies.change(state, twin)
    before = [pricing.prices(of).room.tolist() for of in shapes]
    overlay = state.overlay()
    for _ in range(10):
        copies.change(overlay, twin)
        found = pricing.on(overlay).prices(shapes[0])
        expected = Pricing(twin, constraints(), [Weighted(CpuMemory())]).prices(shapes[0])
        assert np.array_equal(found.room, expected.room)
        assert np.array_equal(found.cost, expected.cost)
    assert [pricing.prices(of).room.tolist() for of in shapes] == before
