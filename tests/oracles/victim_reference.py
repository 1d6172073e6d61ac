"""The best victims of one level by integer programs, one for each thing that is settled in turn."""

from collections.abc import Sequence
from itertools import pairwise
from random import Random

from ortools.sat.python import cp_model

from afflux.evict.choice import NO_VICTIM, LevelProblem
from afflux.evict.sites import PRIORITY_SHIFT, Need, Site, Victim, Waiting, weight_of
from afflux.model.devices import DeviceRequest

# Tasks without a place, victims beyond budgets, the highest victim, the sum of their shifted
# priorities, and of their starts in milliseconds.
Figures = tuple[int, int, int, int, int]


def figures_of(problem: LevelProblem, waiting: int, victims: Sequence[Victim]) -> Figures:
    """What a choice is compared by, counted once more."""
    beyond = 0
    for name in {name for each in victims for name in each.budgets}:
        used = sum(each.budgets.count(name) for each in victims)
        beyond += max(0, used - problem.allowed.get(name, 0))
    shifted = sum(each.priority + PRIORITY_SHIFT for each in victims)
    weight = sum(each.weight for each in victims)
    started = (shifted << 64) - weight
    return waiting, beyond, max((v.priority for v in victims), default=NO_VICTIM), shifted, -started


def best_figures(problem: LevelProblem) -> Figures:
    """The figures of the best choice. Sites must have no devices."""
    model = cp_model.CpModel()
    classes, sites = range(len(problem.needs)), problem.sites
    starts = [model.new_bool_var("") for _ in problem.groups]
    totals = problem.totals()
    units = {
        (number, of): model.new_int_var(0, totals[of] if site.admits[of] else 0, "")
        for number, site in enumerate(sites)
        for of in classes
    }
    leaves = {victim.id: model.new_bool_var("") for site in sites for victim in site.victims}
    for of in classes:
        started = sum(
            group.counts[of] * start for group, start in zip(problem.groups, starts, strict=True)
        )
        model.add(sum(units[number, of] for number in range(len(sites))) == started)
    for number, site in enumerate(sites):
        for column in range(len(site.free)):
            asked = sum(units[number, of] * problem.needs[of].amounts[column] for of in classes)
            freed = sum(victim.use[column] * leaves[victim.id] for victim in site.victims)
            # An overcommitted machine still takes tasks that do not ask for what it lacks.
            if site.free[column] >= 0:
                model.add(asked <= site.free[column] + freed)
                continue
            asks = model.new_bool_var("")
            model.add(asked == 0).only_enforce_if(~asks)
            model.add(asked <= site.free[column] + freed).only_enforce_if(asks)
    for members in problem.whole.values():
        for (_, one), (_, other) in pairwise(members):
            model.add(leaves[one.id] == leaves[other.id])
    victims = [victim for site in sites for victim in site.victims]
    beyond = []
    for name in {name for each in victims for name in each.budgets}:
        over = model.new_int_var(0, len(victims), "")
        used = sum(leaves[each.id] for each in victims if name in each.budgets)
        model.add(over >= used - problem.allowed.get(name, 0))
        beyond.append(over)
    highest = model.new_int_var(NO_VICTIM, 1 << 40, "")
    for each in victims:
        model.add(highest >= each.priority).only_enforce_if(leaves[each.id])
    sizes = [group.size for group in problem.groups]
    waiting = sum(size * (1 - start) for size, start in zip(sizes, starts, strict=True))
    shifted = sum((each.priority + PRIORITY_SHIFT) * leaves[each.id] for each in victims)
    started = sum(_start_of(each) * leaves[each.id] for each in victims)
    found = []
    for figure in (waiting, sum(beyond), highest, shifted, -started):
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        model.minimize(figure)
        assert solver.solve(model) == cp_model.OPTIMAL
        found.append(round(solver.objective_value))
        model.add(figure == found[-1])
    return found[0], found[1], found[2], found[3], found[4]


def _start_of(victim: Victim) -> int:
    return ((victim.priority + PRIORITY_SHIFT) << 64) - victim.weight


def random_problem(
    rng: Random,
    *,
    most_sites: int = 4,
    most_victims: int = 4,
    most_groups: int = 5,
    with_devices: bool = False,
) -> LevelProblem:
    """Machines of different sizes with running tasks, and waiting tasks and gangs."""
    classes = rng.randint(1, 3)
    whole_devices = DeviceRequest(1, 1000) if with_devices else None
    needs = [
        Need((rng.randint(1, 8), rng.randint(1, 8)), whole_devices if rng.random() < 0.3 else None)
        for _ in range(classes)
    ]
    priorities = rng.sample([-5, 0, 1, 10, 1000], rng.randint(1, 3))
    budgets = ["a", "b"][: rng.randint(0, 2)]
    gangs = [f"g{n}" for n in range(rng.choice([0, 0, 1, 2]))]
    gang_priority = {name: rng.choice(priorities) for name in gangs}
    sites: list[Site] = []
    whole: dict[str, list[tuple[int, Victim]]] = {}
    for row in range(rng.randint(1, most_sites)):
        victims = []
        for number in range(rng.randint(0, most_victims)):
            gang = rng.choice(gangs) if gangs and rng.random() < 0.4 else ""
            priority = gang_priority[gang] if gang else rng.choice(priorities)
            victim = Victim(
                f"v{row}.{number}",
                (rng.randint(0, 5), rng.randint(0, 5)),
                (),
                0,
                priority,
                weight_of(priority, rng.randint(0, 50)),
                (rng.choice(budgets),) if budgets and rng.random() < 0.6 else (),
                gang,
            )
            victims.append(victim)
            if gang:
                whole.setdefault(gang, []).append((row, victim))
        victims.sort(key=lambda each: each.weight)
        free = (rng.randint(-1, 6), rng.randint(-1, 6))
        admits = tuple(rng.random() < 0.85 for _ in range(classes))
        sites.append(Site(row, free, (), tuple(victims), admits))
    groups = []
    for _ in range(rng.randint(1, most_groups)):
        size = rng.choice([1, 1, 1, 2, 3])
        counts = [0] * classes
        for _ in range(size):
            counts[rng.randrange(classes)] += 1
        groups.append(Waiting(tuple(counts)))
    allowed = {name: rng.randint(0, 2) for name in budgets}
    return LevelProblem(needs, groups, sites, allowed, whole)
