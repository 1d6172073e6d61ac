"""Announcements of held tasks: each kind of hold is told in its own way, once."""

from memory_adapter import MemoryNotices
from prometheus_client import generate_latest

from afflux.control.adapter import HeldTask, HoldKind
from afflux.control.announcements import Announcements
from afflux.web.scheduler_metrics import Metrics
from oracles.builders import group, shape, task


class Told:
    def __init__(self) -> None:
        self.notices, self.metrics, self.now = MemoryNotices(), Metrics(), 0.0
        waiting = {"g": group("g", shape(cpu=1))}
        self.announcements = Announcements(
            self.notices, self.metrics, waiting.get, clock=lambda: self.now
        )

    def hold(self, name: str, why: str, kind: HoldKind) -> None:
        self.announcements.held_back([HeldTask(task(name), why, kind)], machines=3)

    def pending(self) -> dict[str, float]:
        """How many tasks wait in each queue that has any."""
        self.now += 60.0
        self.announcements.count_pending()
        lines = generate_latest(self.metrics.registry).decode().splitlines()
        found = [line for line in lines if line.startswith("scheduler_pending_pods{")]
        counts = {line.split('"')[1]: float(line.split()[-1]) for line in found}
        return {queue: count for queue, count in counts.items() if count}


def test_a_hold_for_all_machines_is_told_with_their_number() -> None:
    told = Told()
    told.hold("t", "its group lacks a member", "incomplete")
    assert told.notices.statuses == {"t": "0/3 nodes are available: its group lacks a member."}
    assert told.pending() == {"incomplete": 1.0}


def test_a_refused_order_is_about_one_machine_and_no_lack_of_room() -> None:
    told = Told()
    told.hold("t", "m refused it", "order")
    assert told.notices.statuses == {"t": "m refused it"}
    assert told.notices.refused_orders == ["t"]
    assert told.pending() == {"backoff": 1.0}


def test_a_refused_group_has_an_event_of_its_own() -> None:
    told = Told()
    for _ in range(2):
        told.hold("t", "the size is no number", "refused")
    assert told.notices.events == [("t", "refused", "the size is no number")]
    assert told.pending() == {"unschedulable": 1.0}


def test_nothing_is_told_about_a_gated_task_until_it_is_released() -> None:
    told = Told()
    told.hold("t", "it is gated", "gated")
    assert not told.notices.events
    assert told.pending() == {"gated": 1.0}
    told.hold("t", "its group lacks a member", "incomplete")
    assert len(told.notices.events) == 1


def test_a_held_task_that_gets_ready_is_active() -> None:
    told = Told()
    waiting = group("g", shape(cpu=1))
    (member,) = waiting.tasks
    told.announcements.held_back([HeldTask(member, "gated", "gated")], machines=3)
    told.announcements.ready([waiting])
    assert told.pending() == {"active": 1.0}
