"""Room for a whole gang: found exactly when it exists, and otherwise nothing is touched."""

from random import Random

import numpy as np
import pytest

from afflux.cluster.state import State
from afflux.model.task import Task
from afflux.model.waiting_group import WaitingGroup
from afflux.network.pricing import Pricing
from afflux.plan.book import Book, make_placements
from afflux.plan.waiting_demand import count_classes
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints
from oracles.builders import decide, group, machine, shape
from oracles.disks import MODELS, random_disks, report
from oracles.highs import Highs
from oracles.integer_programs import can_place_whole
from oracles.naive_model import World, admits, broken_rules, fits_by_trial
from oracles.random_clusters import Generator

BATCHES = 8
GANGS_PER_BATCH = 120


def random_cluster(
    rng: Random, largest: int, *, with_disks: bool = False
) -> tuple[World, Generator]:
    """Machines with a few running tasks; pods are plenty, so that sizes decide."""
    generator = Generator(rng, largest_machines=largest, with_disks=with_disks)
    world = World()
    for offered in generator.machines():
        world.set_machine(offered)
        if with_disks and rng.random() < 0.9:
            world.disks[offered.name] = random_disks(rng)
    names = list(world.machines)
    for number in range(rng.randint(0, len(names))):
        task = Task(f"r{number}", f"r{number}", rng.choice(generator.shapes))
        name = rng.choice(names)
        world.run(task, name)
        if task.shape.disks is not None and world.disks.get(name):
            ids = [disk.id for disk in world.disks[name]]
            world.on_disks[task.id] = tuple(rng.choice(ids) for _ in task.shape.disks.volumes)
    return world, generator


def planted_gang(rng: Random, world: World, generator: Generator, max_room: int) -> WaitingGroup:
    """Members that fill the machines to the brim, sometimes one more than there is room for."""
    rooms = world.rooms()
    shapes = []
    wanted = rng.randint(2, max_room)
    for _ in range(60):
        shape = rng.choice(generator.shapes)
        fitting = [r for r in rooms.values() if r.fits(shape) and admits(r.machine, shape)]
        if not fitting or len(shapes) >= wanted:
            continue
        room = rng.choice(fitting)
        usable = [
            i
            for i, waiting_count in enumerate(room.devices)
            if shape.devices and waiting_count >= shape.devices.milli
        ]
        shares = rng.sample(usable, shape.devices.count) if shape.devices else ()
        disks = rng.choice(room.disks.choices(shape.disks)) if shape.disks else ()
        room.take(shape, shares, disks)
        shapes.append(shape)
    while len(shapes) < 2 or (len(shapes) < max_room and rng.random() < 0.5):
        shapes.append(rng.choice(generator.shapes))
    tasks = tuple(Task(f"t{i}", f"t{i}", shape) for i, shape in enumerate(shapes))
    return WaitingGroup("gang", tasks)


def try_to_place(world: World, gang: WaitingGroup) -> bool:
    """What `place_gang` says, with its answer checked."""
    state = State(world.machines.values())
    state.set_normalisers(frozenset(MODELS), world.prices)
    for name, disks in world.disks.items():
        state.set_disks(report(name, *disks))
    for task, name, devices in world.running.values():
        state.place(task, name, devices, disks=world.on_disks.get(task.id, ()))
    pricing = Pricing(state, constraints(), [Weighted(CpuMemory())])
    numbers: dict = {}
    need = count_classes(gang, numbers, state.relations.class_of)
    book = Book(state, list(numbers), [pricing.prices(each.shape) for each in numbers])
    before = (book.packing.free(), [book.packing.rooms(i) for i in range(len(numbers))])
    found = book.place_gang(need)
    if found:
        assert not broken_rules(world, [gang], make_placements(book, state, [gang]))
        assert book.packing.placed().tolist() == [need[number] for number in range(len(numbers))]
    else:
        assert book.packing.units() == []
        assert np.array_equal(book.packing.free(), before[0])
        for number, room in enumerate(before[1]):
            assert np.array_equal(book.packing.rooms(number), room)
    return found


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_gang_is_placed_exactly_when_the_integer_program_says_so(batch: int, highs: Highs):
    outcomes = []
    for number in range(GANGS_PER_BATCH):
        rng = Random(f"gang {batch} {number}")
        world, generator = random_cluster(rng, largest=6)
        gang = planted_gang(rng, world, generator, max_room=10)
        expected = can_place_whole(highs, world.rooms(), gang)
        assert try_to_place(world, gang) == expected, (batch, number)
        outcomes.append(expected)
    assert 0.2 < sum(outcomes) / len(outcomes) < 0.8, "the examples must be hard both ways"


@pytest.mark.parametrize("batch", range(4))
def test_with_devices_a_gang_is_placed_exactly_when_trying_everything_finds_a_way(batch: int):
    outcomes = []
    for number in range(150):
        rng = Random(f"tiny {batch} {number}")
        world, generator = random_cluster(rng, largest=3)
        while not generator.with_devices:
            world, generator = random_cluster(rng, largest=3)
        gang = planted_gang(rng, world, generator, max_room=5)
        expected = fits_by_trial(world.rooms(), [task.shape for task in gang.tasks])
        assert try_to_place(world, gang) == expected, (batch, number)
        outcomes.append(expected)
    assert any(outcomes)
    assert not all(outcomes)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_with_disks_a_gang_is_placed_exactly_when_the_integer_program_says_so(
    batch: int, highs: Highs
):
    outcomes = []
    for number in range(GANGS_PER_BATCH):
        rng = Random(f"disks {batch} {number}")
        world, generator = random_cluster(rng, largest=4, with_disks=True)
        gang = planted_gang(rng, world, generator, max_room=8)
        expected = can_place_whole(highs, world.rooms(), gang)
        assert try_to_place(world, gang) == expected, (batch, number)
        outcomes.append(expected)
    assert 0.15 < sum(outcomes) / len(outcomes) < 0.8, "the examples must be hard both ways"


def test_the_cheapest_machines_may_be_the_wrong_ones():
    # One large and one small machine: the small member has to stay off the large one.
    state = State([machine("large", cpu=10), machine("small", cpu=3)])
    gang = group("gang", shape(cpu=3), shape(cpu=9))
    assert len(decide(state, gang).placements) == 2


def test_neither_of_the_greedy_ways_is_needed():
    # 7+3 and 5+5 fill both machines; largest first puts 5 beside 3, cheapest first spreads.
    state = State([machine("a", cpu=10), machine("b", cpu=10)])
    gang = group("gang", shape(cpu=5), shape(cpu=3), shape(cpu=5), shape(cpu=7))
    assert len(decide(state, gang).placements) == 4


def test_a_large_gang_of_many_shapes_finds_room_that_is_there():
    state = State([machine(f"m{i}", cpu=100, memory=1000) for i in range(16)])
    sizes = (20, 27, 34, 41, 48, 55, 62, 69)
    gang = group("gang", *(shape(cpu=s, memory=s) for s in sizes for _ in range(4)))
    assert len(decide(state, gang).placements) == 32


@pytest.mark.parametrize("shapes", [30, 70])
def test_a_gang_of_too_many_shapes_to_search_waits_and_costs_little(shapes: int):
    state = State([machine(f"m{i}", cpu=100, memory=1000) for i in range(shapes - 1)])
    gang = group("gang", *(shape(cpu=51 + i % 40, memory=1 + i) for i in range(shapes)))
    assert decide(state, gang).placements == ()
