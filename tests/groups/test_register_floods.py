"""Thousands of pods that name one group: what a further one costs all others, in work and in bytes.

Work is counted in calls, which do not depend on the machine.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from registered_queue import RULES, Queue, member, queue_with

from afflux.cycle.ledger_entries import LedgerBatch
from afflux.groups.group import MAX_ENDED_MEMBERS
from afflux.ledger.postgres import statements_of
from afflux.ledger.stored_members import StoredMembers

MEMBERS = 6_000


class CountedReasons(Mapping[str, str]):
    """The same reason for each of these keys; counts how often one is looked up."""

    def __init__(self, keys: list[str]) -> None:
        self._keys = dict.fromkeys(keys, "too large")
        self.lookups = 0

    def __getitem__(self, key: str) -> str:
        self.lookups += 1
        return self._keys[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


class LedgerBytes:
    """What is stored, and the bytes of each batch."""

    def __init__(self, queue: Queue) -> None:
        self._register = queue.register
        self.stored: dict[str, StoredMembers] = {}

    def write(self) -> int:
        groups, ended, events = self._register.changes.take(0.0)
        batch = LedgerBatch(tuple(ended), tuple(groups), None, tuple(events))
        steps, written = statements_of(batch, 1, self.stored)
        self.stored.update({key: each for key, each in written.items() if each is not None})
        return sum(len(parameters["rows"]) for _, parameters in steps)


def calls_of(work: Callable[[], object]) -> int:
    """How many functions of Python the work calls."""
    count = 0

    def note(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def flood(size: int, *, bound: bool = False, members: int = MEMBERS) -> Queue:
    return queue_with(*(member(f"p{n}", "g", size, second=n, bound=bound) for n in range(members)))


def test_a_further_pod_of_a_large_group_writes_little_to_the_ledger() -> None:
    for size, bound in ((1, False), (1, True), (10, False), (10, True), (9_000, False)):
        queue = flood(size, bound=bound)
        ledger = LedgerBytes(queue)
        ledger.write()
        queue.put(member("further", "g", size, second=MEMBERS))
        queue.take()
        assert ledger.write() < 10_000


def test_the_work_for_a_further_pod_is_linear_in_the_members() -> None:
    def calls(members: int) -> int:
        queue = flood(1, members=members)
        queue.put(member("further", "g", 1, second=members))
        return calls_of(queue.take)

    assert calls(2_000) < 2.5 * calls(1_000)


def test_the_reasons_of_late_members_are_looked_at_once() -> None:
    queue = flood(1)
    reasons = CountedReasons(list(queue.by_key))
    queue.register.set_reasons({}, reasons)
    assert reasons.lookups <= 3 * MEMBERS


def test_the_work_for_reasons_does_not_grow_with_the_running_members() -> None:
    def calls(running: int) -> int:
        queue = flood(1, bound=True, members=running)
        queue.put(*(member(f"w{n}", "g", 1, second=n) for n in range(100)))
        queue.take()
        reasons = {f"uid-w{n}": f"reason {n}" for n in range(100)}
        return calls_of(lambda: queue.register.set_reasons(reasons, {}))

    assert calls(1_000) < calls(500) + 600


def test_the_work_for_a_decision_does_not_grow_with_the_other_late_members() -> None:
    def calls(members: int) -> int:
        queue = flood(1, members=members)
        return calls_of(lambda: queue.send("p1", "p2"))

    assert calls(1_000) == calls(500)


def test_the_work_for_a_new_pod_does_not_grow_with_the_pods_that_are_being_deleted() -> None:
    def calls(members: int) -> int:
        queue = flood(1, bound=True, members=members)
        for n in range(members - 1):
            leaving = replace(member(f"p{n}", "g", 1, second=n, bound=True), leaving=True)
            queue.put(leaving)
        queue.take()
        return calls_of(lambda: queue.put(member("new", "g", 1, second=members)))

    assert calls(1_000) == calls(500)


def test_the_work_for_the_end_of_a_pod_does_not_grow_with_those_that_have_ended() -> None:
    def calls(ended: int) -> int:
        queue = flood(1, bound=True, members=3_000)
        queue.end(*(f"p{n}" for n in range(ended)))
        return calls_of(lambda: queue.end("p2999"))

    assert calls(2_000) < calls(100) + 20


def test_a_group_that_lives_long_keeps_its_last_ended_members_and_counts_the_others() -> None:
    queue = queue_with(member("stays", "g", 1, bound=True))
    ledger = LedgerBytes(queue)
    for n in range(MAX_ENDED_MEMBERS + 200):
        queue.put(member(f"p{n}", "g", 1, second=n, bound=True))
        queue.take()
        queue.register.ended(f"uid-p{n}", "failed" if n == 3 else "succeeded", float(n))
        if n % 100 == 0:
            ledger.write()
    ledger.write()
    (stored,) = ledger.stored.values()
    names = {each.name for chunk in stored.chunks for each in chunk.values()}
    assert len(names) == MAX_ENDED_MEMBERS + 1
    # Of each way to end one stays: the group has failed.
    assert {"default/stays", "default/p3", "default/p1199"} <= names
    assert not {"default/p0", "default/p4"} & names
    queue.register.ended("uid-stays", "succeeded", 5_000.0)
    ((found,),) = [queue.register.changes.take(0.0)[1]]
    assert (found.how, found.entry.unlisted) == ("failed", 201)
    assert len(found.members) == MAX_ENDED_MEMBERS


def test_groups_that_come_and_go_at_a_full_queue_take_no_memory() -> None:
    queue = queue_with(member("one", queue="narrow"), member("two", queue="narrow"), rules=RULES)
    waits, refused = (member("a", "g", 1, queue=name) for name in ("narrow", "unknown"))
    queue.take()
    for _ in range(3_000):
        queue.put(waits)
        queue.take()
        queue.put(refused)
        queue.take()
    (heap,) = queue.register._evaluator.room._heaps.values()
    assert len(heap) < 2_000


def test_late_members_that_are_the_same_are_not_made_again() -> None:
    queue = flood(1, members=100)
    late = [start for start in queue.by_key.values() if start.name != "default/g"]
    queue.put(member("further", "g", 1, second=100))
    assert queue.take() == 1
    assert len(late) == 99
    assert all(queue.register.waiting_group(start.key) is start for start in late)
