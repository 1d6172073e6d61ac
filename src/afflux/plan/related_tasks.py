"""Tasks with constraints between them: gangs, tasks that require each other, and what must wait.

A flow places single tasks whose requirements are met. What it cannot express is placed by a search
(`_core.Packing.place_gang`): gangs with constraints, all members or none, and one task of each
class of a set that require each other. Once these are there, others of their classes have room
like any task. Two tasks that each lack room may have it together, for instance in a domain where no
task runs that they require, because the domain of the others is full: such pairs come last.

At the end of a round every unit is judged with everything else in place. A unit that would be
refused where it is waits for another round. That is rare, because the account refuses a unit that
would break a rule of a placed one; but units that were placed and removed again may leave others
without the tasks that they require.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from afflux.plan.book import Book
from afflux.plan.waiting_demand import Demand, Gang, Level, Singles

# Sets of tasks that require each other: how many are tried in a round, how many tasks a set has.
MAX_SETS = 2_000
MAX_ITEMS_OF_SET = 16
# Searches of a round for sets without success, for each namespace: one takes up to 0.1 s on 5,000
# machines, and one tenant may have thousands of sets without room.
MAX_FAILED_SETS = 32

Item = Singles | Gang
# Units by class, in the order of the classes.
Need = tuple[tuple[int, int], ...]
ByCounter = Mapping[int, Sequence[Item]]


def place_related_gangs(book: Book, level: Level) -> None:
    """Place the gangs of a level that have constraints between tasks, in queue order."""
    for gang in level.waiting_gangs():
        if book.has_rules(gang.need):
            gang.placed = book.place_gang(gang.need)


def place_sets(book: Book, levels: Sequence[Level]) -> bool:
    """Place one task of each class, or the whole gang, of the sets that require each other.

    A set is decided at the lowest priority among its members: `levels` are those down to it.
    Returns whether a set was placed.
    """
    if not book.rules:
        return False
    found = False
    # Sets that have no room until another set is placed. They are not searched for again, although
    # every member leads to the same set.
    failed: set[Need] = set()
    waiting = _waiting_items(book, levels)
    counted = _by_counter(book, waiting)
    for item in waiting[:MAX_SETS]:
        namespace = _namespace_of(item)
        if _is_placed(item) or book.failed_sets[namespace] >= MAX_FAILED_SETS:
            continue
        if not _lacks_company(book, item):
            continue
        together = _complete(book, item, counted)
        if together is None or (need := _need_of(together)) in failed:
            continue
        book.searched_sets.add(need)
        if book.place_gang(dict(need)):
            for each in together:
                _mark_placed(each)
            failed.clear()
            found = True
        else:
            failed.add(need)
            book.failed_sets[namespace] += 1
    return found or _place_pair(book, waiting, counted)


def count_untried_sets(book: Book, levels: Sequence[Level]) -> int:
    """The waiting sets that the round has not searched for, because it had reached a limit of
    searches. At most MAX_SETS members of such sets are looked at."""
    if not book.rules:
        return 0
    waiting = _waiting_items(book, levels)
    behind = [
        item
        for number, item in enumerate(waiting)
        if number >= MAX_SETS or book.failed_sets[_namespace_of(item)] >= MAX_FAILED_SETS
    ]
    if not behind:
        return 0
    counted = _by_counter(book, waiting)
    lacking = islice((item for item in behind if _lacks_company(book, item)), MAX_SETS)
    sets = (_complete(book, item, counted) for item in lacking)
    return len({_need_of(each) for each in sets if each is not None} - book.searched_sets)


def _place_pair(book: Book, waiting: Sequence[Item], counted: ByCounter) -> bool:
    """Place two items that have no room alone, if they have it together."""
    pairs = ((item, other) for item in waiting for other in _helpful(book, item, counted))
    for pair in pairs:
        if not book.pair_searches_left:
            return False
        if book.place_gang(dict(_need_of(pair))):
            for each in pair:
                _mark_placed(each)
            return True
        book.pair_searches_left -= 1
    return False


def _helpful(book: Book, item: Item, counted: ByCounter) -> Iterator[Item]:
    """Items that wait and count for a rule of this one that more tasks help to meet. A single task
    may be helped by another of its class."""
    if _is_placed(item):
        return
    seen: set[int] = set()
    for number in _classes(item):
        for rule in book.rules.classes[number].rules:
            if rule.kind == "apart":
                continue
            for other in counted.get(rule.counters[0], ()):
                is_second = other is not item or (
                    isinstance(item, Singles) and item.waiting_count > 1
                )
                if is_second and not _is_placed(other) and id(other) not in seen:
                    seen.add(id(other))
                    yield other


def remove_refused(book: Book, demand: Demand) -> int:
    """Remove the units that would be refused where they are; their groups wait on.

    Returns how many tasks that concerns.
    """
    if not book.rules:
        return 0
    removed = 0
    while refused := book.packing.violations():
        for number, row in refused:
            # Removing one unit may have been enough for the next one.
            if not book.packing.meets_rules(number, row):
                book.remove(number, row, 1)
                removed += 1 + _note_removed(book, demand, number)
    return removed


def _waiting_items(book: Book, levels: Sequence[Level]) -> list[Item]:
    """What waits and has a requirement about other tasks, in queue order by priority."""
    found: list[Item] = []
    for level in levels:
        singles = [
            each
            for each in level.singles.values()
            if each.waiting_count and book.has_rules([each.class_index])
        ]
        gangs = [gang for gang in level.waiting_gangs() if book.has_rules(gang.need)]
        found += sorted((*singles, *gangs), key=_position)
    return found


def _by_counter(book: Book, waiting: Sequence[Item]) -> ByCounter:
    """The items that each counter counts."""
    found: dict[int, list[Item]] = {}
    for item in waiting:
        numbers = {c for n in _classes(item) for c in book.rules.classes[n].counted_by}
        for counter in numbers:
            found.setdefault(counter, []).append(item)
    return found


def _position(item: Item) -> int:
    return item.position if isinstance(item, Gang) else item.positions[item.placed_count]


def _namespace_of(item: Item) -> str:
    group = item.group if isinstance(item, Gang) else item.groups[0]
    return group.tasks[0].labels.namespace


def _is_placed(item: Item) -> bool:
    return item.placed if isinstance(item, Gang) else not item.waiting_count


def _mark_placed(item: Item) -> None:
    if isinstance(item, Gang):
        item.placed = True
    else:
        item.placed_count += 1


def _classes(item: Item) -> Iterable[int]:
    return item.need if isinstance(item, Gang) else (item.class_index,)


def _need_of(items: Iterable[Item]) -> Need:
    """The units of each class that the items need together."""
    need: dict[int, int] = {}
    for item in items:
        own = item.need if isinstance(item, Gang) else {item.class_index: 1}
        for number, count in own.items():
            need[number] = need.get(number, 0) + count
    return tuple(sorted(need.items()))


def _lacks_company(book: Book, item: Item) -> bool:
    return any(True for _ in _unmet(book, [item]))


def _unmet(book: Book, items: Sequence[Item]) -> Iterable[tuple[int, ...]]:
    """The counters of required affinity that count no task anywhere, of these items and of what
    is placed."""
    there = {c for item in items for n in _classes(item) for c in book.rules.classes[n].counted_by}
    for item in items:
        for number in _classes(item):
            for rule in book.rules.classes[number].rules:
                lacks = (
                    rule.kind == "near" and not rule.flag and not there.issuperset(rule.counters)
                )
                if lacks and not any(book.packing.counted_tasks(c) for c in rule.counters):
                    yield rule.counters


def _complete(book: Book, item: Item, counted: ByCounter) -> list[Item] | None:
    """The item and the others that it requires, directly or not; None if one does not wait."""
    together = [item]
    while (counters := next(iter(_unmet(book, together)), None)) is not None:
        wanted = set(counters)
        partner = next(
            (
                each
                for each in counted.get(counters[0], ())
                if not _is_placed(each)
                and not any(each is known for known in together)
                and any(wanted.issubset(book.rules.classes[n].counted_by) for n in _classes(each))
            ),
            None,
        )
        if partner is None or len(together) == MAX_ITEMS_OF_SET:
            return None
        together.append(partner)
    return together if len(together) > 1 else None


def _note_removed(book: Book, demand: Demand, number: int) -> int:
    """A unit of this class has been removed: a single task of the lowest priority waits again, or
    a gang. Returns how many other units of the gang were removed with it."""
    for level in reversed(demand.levels):
        singles = level.singles.get(number)
        if singles is not None and singles.placed_count:
            singles.placed_count -= 1
            return 0
    for level in reversed(demand.levels):
        for gang in reversed(level.gangs):
            if gang.placed and number in gang.need:
                gang.placed = False
                rest = gang.need | {number: gang.need[number] - 1}
                for own, count in rest.items():
                    book.remove_anywhere(own, count)
                return sum(rest.values())
    raise AssertionError(f"no task of class {number} was placed")
