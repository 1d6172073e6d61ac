"""NodeDisks: turns NodeDiskIOInfo objects into reports of disks, by the protocol of generations.

The scheduler writes spec.reservedPods, and each such write raises metadata.generation. The driver
answers with a status, whose observedGeneration is the generation of the list that it has taken into
account. So:

- A status of the current generation is accepted: what its disks have left is what the pods of the
  list leave of them. These pods are acknowledged, and are not deducted again.
- An older status is discarded, but it is a sign of life. The report that was accepted last stays
  valid: the pods reserved since then are not in it and are deducted.
- Until a first status has been accepted, as after a restart, an older one is used with no pod
  acknowledged: every pod is deducted once more. So nothing is ever promised twice.
- A pod is not acknowledged if it was reserved for other disks than it has now, or if it was not
  bound and waits again.

Pure: the caller passes the time. One object counts for a node: the oldest.
"""

import logging
import math
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from afflux.cycle.events import DisksGone, DisksReported, Event
from afflux.kube import objects
from afflux.kube.disks.disk_devices import RESERVED_DISKS, reserved_disks
from afflux.kube.disks.disk_reports import ReportedDisks, node_name, reported_disks, scaled
from afflux.kube.reader.object_store import ObjectStore, name_of
from afflux.model.disks import DiskReport
from afflux.model.placement import Placement
from afflux.web.rate_limited_log import RateLimitedLog

SILENT = "node(s) had a disk IO driver that went silent"
DEFAULT_SILENT_SECONDS = 60.0

SilenceAction = Literal["keep", "degrade", "exclude"]
StatusResult = Literal["accepted", "discarded", "ahead"]
# A node has several objects; a driver has gone silent, or reports again; figures make no sense; the
# driver claims to have observed a generation that does not exist.
NoticeKind = Literal["duplicate", "silent", "heard", "invalid", "ahead"]

# Many drivers may fail, or come back, at once: each of these is one line in a while.
_LOGGED: Mapping[NoticeKind, str] = {
    "duplicate": "node disk IO info %s is one too many: %s",
    "heard": "node disk IO info %s: %s",
    "invalid": "node disk IO info %s cannot be used as it is: %s",
    "ahead": "node disk IO info %s answers what was not asked: %s",
}
# So many names of nodes, or problems of one status, are told.
_MAX_TOLD = 5

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SilenceRules:
    """After how long without a status a driver is silent, and what its disks count for then: as
    reported last (keep), this share of it (degrade), nothing for pods that state what they do
    (exclude)."""

    after_seconds: float = DEFAULT_SILENT_SECONDS
    action: SilenceAction = "keep"
    degrade_to: float = 0.5


@dataclass(frozen=True, slots=True)
class DiskNotice:
    """Something to tell about an object, once."""

    info: objects.NodeDiskIOInfo
    kind: NoticeKind
    text: str


@dataclass(slots=True)
class _Known:
    """An object as it was last seen, and the report that was accepted last."""

    info: objects.NodeDiskIOInfo
    heard_seconds: float
    # By the newest status, and by the one that was accepted last.
    found: ReportedDisks | None = None
    reported: ReportedDisks | None = None
    # The pods of its list, by uid, with the disks that were noted for them then.
    acknowledged: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    # The pods of that list that do not have what is reserved for them, with the disks noted then.
    refuted: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    # The highest that was ever seen.
    generation: int = 0
    is_silent: bool = False
    told_problems: tuple[str, ...] = ()
    was_ahead: bool = False


@dataclass(slots=True)
class DiskStatistics:
    """Statuses by result, and the seconds between two statuses of a driver, since the statistics
    were last taken."""

    statuses: Counter[str] = field(default_factory=Counter[str])
    intervals_seconds: list[float] = field(default_factory=list[float])


class NodeDisks:
    """The disks of all nodes, by the objects of the store.

    `disks_of` returns the disks of a pod, by uid, that is on a node: empty if they are not known,
    None if it is not there.
    """

    def __init__(
        self,
        store: ObjectStore[objects.NodeDiskIOInfo],
        disks_of: Callable[[str, str], tuple[str, ...] | None],
        silence: SilenceRules,
    ) -> None:
        self._store = store
        self._log = RateLimitedLog(_log)
        self._disks_of = disks_of
        self._silence = silence
        self._known: dict[str, _Known] = {}
        # The names of the objects of each node, the one that counts first.
        self._objects: dict[str, list[str]] = {}
        # The reports as the cycle knows them.
        self._reports: dict[str, DiskReport] = {}
        self._next_silence_seconds = math.inf
        self._now_seconds = -math.inf
        self._told_duplicates: set[str] = set()
        self._notices: list[DiskNotice] = []
        self.statistics = DiskStatistics()

    # --- Changes

    def sync(self, names: Iterable[str], now_seconds: float) -> list[Event]:
        """These objects have changed, or are gone."""
        self._set_time(now_seconds)
        nodes: dict[str, None] = {}
        for name in names:
            info, known = self._store.get(name), self._known.get(name)
            before = None if known is None else known.info
            is_same = before is not None and info is not None and _is_same(before, info)
            if before is not None and not is_same:
                self._leave(name, node_name(before))
                nodes[node_name(before)] = None
            if info is not None:
                self._set(name, info, now_seconds)
                if not is_same:
                    self._join(name, node_name(info))
                nodes[node_name(info)] = None
        return self.report_again(nodes)

    def report_again(self, nodes: Iterable[str]) -> list[Event]:
        """The events for what has changed of the reports of these nodes."""
        events: list[Event] = []
        for node in nodes:
            report = self._report(node)
            if report == self._reports.get(node):
                continue
            if report is None:
                del self._reports[node]
                events.append(DisksGone(node))
            else:
                self._reports[node] = report
                events.append(DisksReported(report))
        return events

    def resync(self, node: str) -> list[Event]:
        """The cycle has forgotten this machine: its report, if there is one."""
        report = self._reports.get(node)
        return [] if report is None else [DisksReported(report)]

    def not_bound(self, node: str, uid: str) -> None:
        """A pod that was placed on this node waits again, and may get another disk: it does not
        count as acknowledged until it has the reserved one again."""
        known = self._counting(node)
        if known is not None and uid in known.acknowledged:
            known.refuted[uid] = known.acknowledged[uid]

    def check_silence(self, now_seconds: float) -> list[Event]:
        """The events for drivers that have gone silent since the last call."""
        self._set_time(now_seconds)
        if now_seconds < self._next_silence_seconds:
            return []
        changed: list[str] = []
        for node in self._objects:
            known = self._counting(node)
            silent_seconds = 0.0 if known is None else now_seconds - known.heard_seconds
            if known is None or known.is_silent or silent_seconds < self._silence.after_seconds:
                continue
            known.is_silent = True
            text = f"the IO driver has not reported for {silent_seconds:.0f} s"
            self._notices.append(DiskNotice(known.info, "silent", text))
            changed.append(node)
        if changed:
            names = ", ".join(sorted(changed)[:_MAX_TOLD])
            self._log.warning("%s IO drivers have gone silent, such as %s", len(changed), names)
        self._next_silence_seconds = self.next_silence_seconds()
        return self.report_again(changed)

    def next_silence_seconds(self) -> float:
        """When the next driver is silent if no status comes; infinite without drivers that are
        not."""
        counting = map(self._counting, self._objects)
        heard = (k.heard_seconds for k in counting if k is not None and not k.is_silent)
        return min(heard, default=math.inf) + self._silence.after_seconds

    def _set_time(self, now_seconds: float) -> None:
        """A clock that was set back must not keep silent drivers from being noticed."""
        if now_seconds < self._now_seconds:
            for known in self._known.values():
                known.heard_seconds = min(known.heard_seconds, now_seconds)
            self._next_silence_seconds = self.next_silence_seconds()
        self._now_seconds = now_seconds

    def _set(self, name: str, info: objects.NodeDiskIOInfo, now_seconds: float) -> None:
        known = self._known.get(name)
        if known is None:
            self._known[name] = known = _Known(info, now_seconds)
            due = now_seconds + self._silence.after_seconds
            self._next_silence_seconds = min(self._next_silence_seconds, due)
            heard = info.status is not None
        else:
            heard = _is_from_driver(known.info, info)
            if heard:
                self._hear(known, now_seconds)
        known.info = info
        if heard:
            known.found = reported_disks(info)
            self._tell_problems(known)
        self._take_status(known, is_new=heard)

    def _hear(self, known: _Known, now_seconds: float) -> None:
        self.statistics.intervals_seconds.append(now_seconds - known.heard_seconds)
        known.heard_seconds = now_seconds
        if known.is_silent:
            known.is_silent = False
            due = now_seconds + self._silence.after_seconds
            self._next_silence_seconds = min(self._next_silence_seconds, due)
            self._tell(known.info, "heard", "the IO driver reports again")

    def _take_status(self, known: _Known, *, is_new: bool) -> None:
        status = known.info.status
        if known.found is None or status is None:
            known.reported, known.acknowledged, known.refuted = None, {}, {}
            return
        observed = status.observed_generation or 0
        # A file that was written by hand may have none.
        current = known.info.metadata.generation or observed
        known.generation = max(known.generation, current)
        result: StatusResult = "discarded"
        if observed > known.generation:
            result = "ahead"
        elif observed == known.generation == current:
            result = "accepted"
            known.reported = known.found
            noted = reserved_disks(known.info.metadata.annotations)
            listed = known.info.spec.reserved_pods or ()
            known.acknowledged = {uid: noted.get(uid, ()) for uid in listed}
            known.refuted = {
                uid: disks
                for uid, disks in known.refuted.items()
                if known.acknowledged.get(uid) == disks
            }
        elif known.reported is None:
            known.reported = known.found
        if is_new:
            self.statistics.statuses[result] += 1
        if result == "ahead" and not known.was_ahead:
            text = f"status.observedGeneration: {observed}, expected at most {known.generation}"
            self._tell(known.info, "ahead", text)
        known.was_ahead = result == "ahead"

    def _tell_problems(self, known: _Known) -> None:
        problems = known.found.problems if known.found is not None else ()
        if problems != known.told_problems:
            known.told_problems = problems
            if problems:
                more = len(problems) - _MAX_TOLD
                told = [*problems[:_MAX_TOLD], *([f"and {more} more"] if more > 0 else [])]
                self._tell(known.info, "invalid", "; ".join(told))

    def _join(self, name: str, node: str) -> None:
        """One more object for this node: the oldest counts, of equal ones the first by name."""
        names = self._objects.setdefault(node, [])
        insort(names, name, key=lambda each: (self._created(each), each))
        # The one that counted before, or the new one; the others are told.
        other = name if name != names[0] else names[1] if len(names) > 1 else None
        if other is not None and other not in self._told_duplicates:
            self._told_duplicates.add(other)
            text = f"{names[0]} is older and counts for node {node}; this object is not used"
            self._tell(self._known[other].info, "duplicate", text)

    def _leave(self, name: str, node: str) -> None:
        """The object is gone, or is of another node now."""
        del self._known[name]
        self._told_duplicates.discard(name)
        self._objects[node].remove(name)
        if not self._objects[node]:
            del self._objects[node]

    def _created(self, name: str) -> str:
        # The timestamps of the API server have one format and one zone.
        return self._known[name].info.metadata.creation_timestamp or ""

    def _report(self, node: str) -> DiskReport | None:
        known = self._counting(node)
        if known is None or known.reported is None:
            return None
        reported = known.reported
        disks, refused = reported.disks, reported.refused
        if known.is_silent and self._silence.action == "degrade":
            disks = tuple(scaled(disk, self._silence.degrade_to) for disk in disks)
        elif known.is_silent and self._silence.action == "exclude":
            refused = refused or SILENT
        return DiskReport(node, disks, self._still_acknowledged(node, known), refused)

    def _still_acknowledged(self, node: str, known: _Known) -> frozenset[str]:
        """The acknowledged pods that have what is reserved for them, or had it until they ended."""
        for uid, noted in known.acknowledged.items():
            disks = self._disks_of(node, uid)
            if disks is None:
                continue
            if not disks or not noted or disks == noted:
                known.refuted.pop(uid, None)
            else:
                known.refuted[uid] = noted
        return frozenset(known.acknowledged.keys() - known.refuted.keys())

    def _counting(self, node: str) -> _Known | None:
        names = self._objects.get(node)
        return self._known[names[0]] if names else None

    def _tell(self, info: objects.NodeDiskIOInfo, kind: NoticeKind, text: str) -> None:
        self._notices.append(DiskNotice(info, kind, text))
        self._log.warning(_LOGGED[kind], name_of(info), text)

    # --- Questions

    def report(self, node: str) -> DiskReport | None:
        """The report of this node as the cycle knows it."""
        return self._reports.get(node)

    def info(self, node: str) -> objects.NodeDiskIOInfo | None:
        """The newest version of the object that counts for this node."""
        names = self._objects.get(node)
        return self._store.get(names[0]) if names else None

    def nodes(self) -> list[str]:
        """The nodes that have an object."""
        return list(self._objects)

    def silent_nodes(self) -> int:
        return sum(known.is_silent for known in self._known.values())

    def seconds_since_heard(self, node: str, now_seconds: float) -> float:
        known = self._counting(node)
        return math.nan if known is None else now_seconds - known.heard_seconds

    def disk_ids(self, placement: Placement) -> tuple[str, ...]:
        """The disks that a placement takes, in the order of the pod's volumes."""
        shape, report = placement.task.shape, self._reports.get(placement.machine)
        if shape.disks is None or report is None:
            return ()
        shares = shape.devices.count if shape.devices is not None else 0
        return tuple(report.disks[index].id for index in placement.devices[shares:])

    def noted_disks(self, node: str, uid: str) -> tuple[str, ...]:
        """The disks for which this pod is reserved, by the object; empty if they are not known."""
        info = self.info(node)
        return () if info is None else reserved_disks(info.metadata.annotations).get(uid, ())

    def take_statistics(self) -> DiskStatistics:
        """The statistics since the last call."""
        statistics, self.statistics = self.statistics, DiskStatistics()
        return statistics

    def take_notices(self) -> list[DiskNotice]:
        notices, self._notices = self._notices, []
        return notices


def _is_same(before: objects.NodeDiskIOInfo, now: objects.NodeDiskIOInfo) -> bool:
    """Whether these are versions of one object, for one node."""
    return before.metadata.uid == now.metadata.uid and node_name(before) == node_name(now)


def _is_from_driver(before: objects.NodeDiskIOInfo, now: objects.NodeDiskIOInfo) -> bool:
    """Whether a change comes from the driver, and not from a write of a scheduler."""
    if before.status != now.status:
        return True
    return _of_driver(before.metadata) != _of_driver(now.metadata)


def _of_driver(metadata: objects.Metadata) -> Mapping[str, str]:
    annotations = metadata.annotations or {}
    return {key: text for key, text in annotations.items() if key != RESERVED_DISKS}
