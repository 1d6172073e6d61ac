"""The newest report of each node that is still to be written. Pure.

A node has at most one report here: a newer one replaces it and keeps its place, so that under a
limited rate every node is written in turn, with what is newest at that moment. A report that is
older than one seen before, by its sequence or by the generation that it answers, is stale.
"""

from dataclasses import dataclass

from afflux.diskio.node_reports import NodeReport

# Far above the size of clusters; more nodes are refused.
MAX_NODES = 20_000


class FullError(Exception):
    """There are too many nodes."""


@dataclass(slots=True)
class _Seen:
    uid: str
    sequence: int
    generation: int


@dataclass(frozen=True, slots=True)
class QueuedReport:
    """A report that waits; urgent if it, or one that it replaced, is."""

    report: NodeReport
    is_urgent: bool


class ReportQueue:
    """The queue of an aggregator, for at most so many nodes."""

    def __init__(self, max_nodes: int = MAX_NODES) -> None:
        self._max_nodes = max_nodes
        self._seen: dict[str, _Seen] = {}
        self._heard_at: dict[str, float] = {}
        # In the order in which they are written: urgent ones first.
        self._urgent: dict[str, QueuedReport] = {}
        self._waiting: dict[str, QueuedReport] = {}
        # Nodes whose report is being written: their next one waits, so that none overtakes it.
        self._in_flight: set[str] = set()

    def put(self, report: NodeReport, now: float, *, is_urgent: bool = False) -> bool:
        """Takes a report; False if it is stale. Raises FullError for one node too many."""
        seen = self._seen.get(report.node)
        if seen is None and len(self._seen) >= self._max_nodes:
            raise FullError
        generation = report.observed_generation
        if seen is not None:
            if report.sequence <= seen.sequence:
                return False
            if report.uid == seen.uid and generation < seen.generation:
                # A driver that has begun again knows nothing yet: a sign of life all the same.
                if not report.is_unacknowledged:
                    return False
                generation = seen.generation
        self._seen[report.node] = _Seen(report.uid, report.sequence, generation)
        self._heard_at[report.node] = now
        self._queue(QueuedReport(report, is_urgent))
        return True

    def take(self) -> QueuedReport | None:
        """The next report to write; tell `done` when it is."""
        for queue in (self._urgent, self._waiting):
            node = next((node for node in queue if node not in self._in_flight), None)
            if node is not None:
                self._in_flight.add(node)
                return queue.pop(node)
        return None

    def done(self, queued: QueuedReport, *, is_written: bool) -> None:
        """It was written, or could not be: then it waits again, unless there is a newer one."""
        node = queued.report.node
        self._in_flight.discard(node)
        is_replaced = node in self._urgent or node in self._waiting or node not in self._seen
        if not is_written and not is_replaced:
            self._queue(queued)

    def forget(self, before: float) -> list[str]:
        """Forgets the nodes that were not heard of since then; returns them."""
        gone = [node for node, heard_at in self._heard_at.items() if heard_at < before]
        for node in gone:
            for table in (self._seen, self._heard_at, self._urgent, self._waiting):
                table.pop(node, None)
        return gone

    def __len__(self) -> int:
        return len(self._urgent) + len(self._waiting)

    @property
    def nodes(self) -> int:
        """The nodes that have reported."""
        return len(self._seen)

    def _queue(self, queued: QueuedReport) -> None:
        node = queued.report.node
        if queued.is_urgent or node in self._urgent:
            self._waiting.pop(node, None)
            self._urgent[node] = QueuedReport(queued.report, True)
        else:
            self._waiting[node] = queued
