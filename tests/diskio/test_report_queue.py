"""The reports that an aggregator has still to write."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from afflux.diskio.node_reports import NodeReport
from afflux.diskio.report_queue import FullError, QueuedReport, ReportQueue


def report(node: str, sequence: int, generation: int = 1, uid: str = "u") -> NodeReport:
    return NodeReport(node, uid, sequence, generation, {}, {})


def test_a_newer_report_replaces_the_one_that_waits() -> None:
    queue = ReportQueue()
    assert queue.put(report("a", 1), 0.0)
    assert queue.put(report("b", 1), 0.0)
    assert queue.put(report("a", 2), 0.0)
    taken = [queue.take(), queue.take(), queue.take()]
    assert [each and (each.report.node, each.report.sequence) for each in taken] == [
        ("a", 2), ("b", 1), None,
    ]  # fmt: skip


def test_urgent_reports_come_first_and_stay_urgent() -> None:
    queue = ReportQueue()
    queue.put(report("a", 1), 0.0)
    queue.put(report("b", 1), 0.0, is_urgent=True)
    queue.put(report("b", 2), 0.0)
    first = queue.take()
    assert first == QueuedReport(report("b", 2), True)


def test_an_older_report_or_an_older_generation_is_stale() -> None:
    queue = ReportQueue()
    queue.put(report("a", 5, generation=3), 0.0)
    assert not queue.put(report("a", 5, generation=4), 0.0)
    assert not queue.put(report("a", 4, generation=4), 0.0)
    assert not queue.put(report("a", 6, generation=2), 0.0)
    assert queue.put(report("a", 7, generation=3), 0.0)
    # Another object begins at generation 1.
    assert queue.put(report("a", 8, generation=1, uid="v"), 0.0)
    assert queue.put(report("a", 9, generation=2, uid="v"), 0.0)


def test_a_driver_that_begins_again_gives_a_sign_of_life() -> None:
    queue = ReportQueue()
    queue.put(report("a", 1, generation=3), 0.0)
    begins = NodeReport("a", "u", 2, 0, {}, {}, is_unacknowledged=True)
    assert queue.put(begins, 0.0)
    assert not queue.put(report("a", 3, generation=2), 0.0)


def test_a_report_never_overtakes_the_one_before_it() -> None:
    queue = ReportQueue()
    queue.put(report("a", 1), 0.0)
    first = queue.take()
    assert first is not None
    queue.put(report("a", 2), 0.0)
    assert queue.take() is None
    queue.done(first, is_written=True)
    second = queue.take()
    assert second is not None
    assert second.report.sequence == 2


def test_what_could_not_be_written_waits_again_unless_there_is_a_newer_one() -> None:
    queue = ReportQueue()
    queue.put(report("a", 1), 0.0)
    first = queue.take()
    assert first is not None
    queue.done(first, is_written=False)
    again = queue.take()
    assert again == first
    queue.put(report("a", 2), 0.0)
    queue.done(first, is_written=False)
    assert queue.take() == QueuedReport(report("a", 2), False)


def test_one_node_too_many_is_refused_until_another_is_forgotten() -> None:
    queue = ReportQueue(max_nodes=1)
    queue.put(report("a", 1), 0.0)
    with pytest.raises(FullError):
        queue.put(report("b", 1), 50.0)
    assert queue.forget(before=10.0) == ["a"]
    assert queue.take() is None
    assert queue.put(report("b", 1), 50.0)
    assert queue.nodes == 1


class Aggregation(RuleBasedStateMachine):
    """Drivers report, writers write or fail, in any order."""

    nodes = st.sampled_from(["a", "b", "c"])

    def __init__(self) -> None:
        super().__init__()
        self.queue = ReportQueue()
        self.sequence = 0
        self.newest: dict[str, int] = {}
        self.written: dict[str, int] = {}
        self.writing: list[QueuedReport] = []

    @rule(node=nodes, is_urgent=st.booleans())
    def send(self, node: str, is_urgent: bool) -> None:
        self.sequence += 1
        assert self.queue.put(report(node, self.sequence), 0.0, is_urgent=is_urgent)
        self.newest[node] = self.sequence

    @rule()
    def begin(self) -> None:
        if (taken := self.queue.take()) is not None:
            assert taken.report.node not in {each.report.node for each in self.writing}
            self.writing.append(taken)

    @precondition(lambda self: self.writing)
    @rule(data=st.data(), is_written=st.booleans())
    def end(self, data: st.DataObject, is_written: bool) -> None:
        done = data.draw(st.sampled_from(self.writing))
        self.writing.remove(done)
        if is_written:
            assert done.report.sequence > self.written.get(done.report.node, 0)
            self.written[done.report.node] = done.report.sequence
        self.queue.done(done, is_written=is_written)

    @invariant()
    def at_most_one_report_waits_for_each_node(self) -> None:
        assert len(self.queue) <= self.queue.nodes == len(self.newest)

    def teardown(self) -> None:
        """In the end the newest report of every node is written."""
        while self.writing:
            self.end_all()
        while (taken := self.queue.take()) is not None:
            self.written[taken.report.node] = taken.report.sequence
            self.queue.done(taken, is_written=True)
        assert self.written == self.newest

    def end_all(self) -> None:
        for done in self.writing:
            self.written[done.report.node] = done.report.sequence
            self.queue.done(done, is_written=True)
        self.writing.clear()


TestAggregation = Aggregation.TestCase
