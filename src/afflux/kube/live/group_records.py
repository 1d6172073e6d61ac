"""The records of all groups for the ledger: members, state, times, machines and how they ended.

A record begins with the first pod of a group and ends with the last one. Only records that have
changed since the last call are handed to the ledger.

Pure: no clock, no network. The API server is authoritative: a record says of a pod what the pod's
last version says.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from afflux.cycle.events import Event, GroupReady, GroupWithdrawn, TaskEnded, TaskRuns
from afflux.cycle.group_states import GroupState
from afflux.cycle.ledger_entries import (
    EndedGroup,
    EndReason,
    EventEntry,
    GroupEntry,
    MemberEntry,
)
from afflux.kube import objects
from afflux.kube.group_claims import SIZED_LABELS, PodGroups, claimed_group, queue_of
from afflux.kube.live.object_store import ObjectStore
from afflux.kube.pods import created_seconds, is_finished, started_seconds
from afflux.model.errors import InputError
from afflux.model.group import Group
from afflux.model.placement import Placement
from afflux.model.task import Task
from afflux.plan.standing_violations import Violation


@dataclass(slots=True)
class _Record:
    """One group. State and members of `entry` are those of the last refresh."""

    entry: GroupEntry
    members: dict[str, MemberEntry] = field(default_factory=dict[str, MemberEntry])
    # Whether the group was reported to the cycle.
    is_ready: bool = False
    # Whether one of its pods may be gone since the last refresh.
    is_stale: bool = False
    # Why the group can never start on the cluster as it is, if so.
    unsatisfiable_reason: str = ""
    # Which running members do not meet their requirements, and why; empty if all do.
    violation: str = ""
    ends: dict[str, float | None] = field(default_factory=dict[str, float | None])
    written: GroupEntry | None = None


class GroupRecords:
    """The groups of the pods for which `is_ours` is true."""

    def __init__(
        self,
        pods: ObjectStore[objects.Pod],
        pod_groups: Callable[[], PodGroups],
        is_ours: Callable[[objects.Pod], bool],
    ) -> None:
        self._pods = pods
        self._pod_groups = pod_groups
        self._is_ours = is_ours
        self._records: dict[str, _Record] = {}
        self._group_of: dict[str, str] = {}
        self._endings: dict[str, EndReason] = {}
        self._rolled_back: set[str] = set()
        # The groups that cannot start even on the empty cluster.
        self._unsatisfiable: set[str] = set()
        # The groups with members that do not meet their requirements.
        self._violating: set[str] = set()
        self._changed: OrderedDict[str, None] = OrderedDict()
        self._gone: list[EndedGroup] = []
        # Whether a group returned by the last `take_changes` had a new position in the queue.
        self.changed_positions = False

    def restore(self, entries: Iterable[GroupEntry]) -> None:
        """Add the groups read from the ledger; all of them are checked at the next refresh."""
        for entry in entries:
            members = {member.uid: member for member in entry.members}
            self._records[entry.name] = _Record(entry, members, is_stale=True, written=entry)
            self._changed[entry.name] = None
            self._group_of.update(dict.fromkeys(members, entry.name))

    def is_live(self, member: MemberEntry) -> bool:
        """Whether the pod of this name and uid exists and has not ended."""
        pod = self._pods.get(member.name)
        return pod is not None and pod.metadata.uid == member.uid and not is_finished(pod)

    # --- What happens

    def observe(
        self, events: Iterable[Event], held: Iterable[tuple[Task, str]], now_seconds: float
    ) -> None:
        """The events for the cycle, and the pods held back from it with the reasons."""
        for event in events:
            match event:
                case GroupReady(group):
                    self._on_ready(group, now_seconds)
                case GroupWithdrawn(name) if name in self._records:
                    self._records[name].is_ready = False
                    self._mark_stale(name)
                case TaskRuns(task, machine, end):
                    self._on_running(task, machine, end, now_seconds)
                case TaskEnded(uid) if uid in self._group_of:
                    self._mark_stale(self._group_of[uid])
                case _:
                    pass
        for task, why in held:
            self._on_held_back(task, why, now_seconds)

    def record_gone(self, pod: objects.Pod) -> None:
        """A pod has ended or was deleted; this is its last version."""
        uid = pod.metadata.uid or ""
        if uid not in self._group_of:
            return
        self._mark_stale(self._group_of[uid])
        if pod.status is not None and pod.status.reason == "DeadlineExceeded":
            self._endings[uid] = "deadline"
        elif is_finished(pod) or not pod.metadata.deletion_timestamp:
            self._endings.setdefault(uid, "finished")
        else:
            self._endings.setdefault(uid, "deleted")

    def record_deadline(self, uids: Iterable[str]) -> None:
        """The deadline of these pods' group has passed: this is why they end."""
        for uid in uids:
            if uid in self._group_of:
                self._endings[uid] = "deadline"

    def record_rollback(self, uids: Iterable[str]) -> None:
        """These pods are deleted because the rest of their group could not be bound. They do not
        count as run: the group has not started."""
        self._rolled_back.update(uid for uid in uids if uid in self._group_of)

    def record_intents(self, placements: Iterable[Placement]) -> None:
        """These pods are about to be bound."""
        for placement in placements:
            self._change(placement.task.id, sent_to=placement.machine)

    def record_bound(self, uid: str, machine: str) -> None:
        self._change(uid, machine=machine)

    def record_unknown(self, uid: str, why: str) -> None:
        """It is unknown whether a pod was bound; its intent stays until the bind is confirmed."""
        name = self._group_of.get(uid)
        if name is not None:
            sent_to = self._records[name].members[uid].sent_to
            self._change(uid, sent_to=sent_to, doubt=why)

    def record_not_bound(self, uid: str, why: str = "") -> str | None:
        """A bind failed: the pod waits again, at its old position. Returns its group."""
        name = self._group_of.get(uid)
        if name is not None:
            self._change(uid)
            self._records[name].entry = replace(self._records[name].entry, reason=why)
        return name

    def _change(self, uid: str, machine: str = "", sent_to: str = "", doubt: str = "") -> None:
        name = self._group_of.get(uid)
        if name is None:
            return
        record = self._records[name]
        pod = record.members[uid].name
        record.members[uid] = MemberEntry(uid, pod, machine, sent_to, doubt)
        self._changed[name] = None

    def set_reasons(self, reasons: Mapping[str, str], unsatisfiable: Mapping[str, str]) -> None:
        """Why pods wait, by uid, and why groups can never start, by name."""
        for name in self._unsatisfiable | unsatisfiable.keys():
            record, why = self._records.get(name), unsatisfiable.get(name, "")
            if record is not None and record.unsatisfiable_reason != why:
                record.unsatisfiable_reason = why
                self._changed[name] = None
                record.entry = replace(record.entry, reason=why)
        self._unsatisfiable = set(unsatisfiable)
        for uid, why in reasons.items():
            name = self._group_of.get(uid)
            if name is None:
                continue
            record = self._records[name]
            is_known = record.unsatisfiable_reason or record.entry.reason == why
            if not is_known and next(iter(record.members)) == uid:
                self._changed[name] = None
                record.entry = replace(record.entry, reason=why)

    def set_violations(self, violations: Iterable[Violation]) -> list[EventEntry]:
        """The running pods that do not meet their requirements. Returns an event for every group in
        which this begins or ends."""
        by_group: dict[str, list[Violation]] = {}
        for each in violations:
            name = self._group_of.get(each.task.id)
            if name is not None:
                by_group.setdefault(name, []).append(each)
        events: list[EventEntry] = []
        for name in sorted(self._violating | by_group.keys()):
            record, why = self._records.get(name), _violation_text(by_group.get(name, ()))
            if record is None or record.violation == why:
                continue
            if not why:
                said = "all members meet their requirements again"
                events.append(EventEntry(name, "RequirementMet", said))
            elif not record.violation:
                events.append(EventEntry(name, "RequirementViolated", why))
            record.violation = why
            self._changed[name] = None
        self._violating = set(by_group)
        return events

    # --- What has changed

    def take_changes(
        self, now_seconds: float, refused: Collection[str] = ()
    ) -> tuple[list[GroupEntry], list[EndedGroup]]:
        """The groups that have changed since the last call, and those that have ended. `refused`
        are the pods that are not considered until the user changes them."""
        changed: list[GroupEntry] = []
        self.changed_positions = False
        while self._changed:
            name, _ = self._changed.popitem(last=False)
            record = self._records.get(name)
            if record is not None:
                changed += self._refresh(name, record, now_seconds, refused)
        gone, self._gone = self._gone, []
        return changed, gone

    def _refresh(
        self, name: str, record: _Record, now_seconds: float, refused: Collection[str]
    ) -> list[GroupEntry]:
        live: Collection[MemberEntry] = record.members.values()
        if record.is_stale or not live:
            live = [member for member in live if self.is_live(member)]
            if not live:
                self._finish(name, record, now_seconds)
                return []
            # While some members have ended and others have not, check again next time.
            record.is_stale = len(live) < len(record.members)
            self._drop_members_that_never_ran(record, {member.uid for member in live})
        state = self._state(record, live, refused)
        started = record.entry.started_seconds
        if state == "running" and started is None:
            started = now_seconds
        record.entry = entry = replace(
            record.entry,
            state=state,
            reason=record.violation if state == "running" else record.entry.reason,
            started_seconds=started,
            until_seconds=_expected_end(record, started) if state == "running" else None,
            members=tuple(record.members.values()),
        )
        if entry == record.written:
            return []
        before = None if record.written is None else record.written.ready_seconds
        self.changed_positions = self.changed_positions or entry.ready_seconds != before
        record.written = entry
        return [entry]

    def _state(
        self, record: _Record, live: Collection[MemberEntry], refused: Collection[str]
    ) -> GroupState:
        pending = [member for member in live if not member.machine]
        if not pending:
            return "running"
        if any(member.sent_to for member in pending):
            return "starting"
        has_place = record.entry.ready_seconds is not None
        if record.is_ready or (has_place and len(live) >= record.entry.size):
            return "unsatisfiable" if record.unsatisfiable_reason else "waiting"
        return "refused" if all(member.uid in refused for member in pending) else "provisional"

    def _drop_members_that_never_ran(self, record: _Record, live: Collection[str]) -> None:
        """Pods that ended before they were bound, or were rolled back, are dropped from the record;
        pods that ran stay in it."""
        for uid, member in list(record.members.items()):
            if uid not in live and (not member.machine or uid in self._rolled_back):
                self._forget_member(record, uid)

    def _finish(self, name: str, record: _Record, now_seconds: float) -> None:
        del self._records[name]
        members = tuple(record.members.values())
        reason = "" if record.violation else record.entry.reason
        entry = replace(record.entry, state="finished", members=members, reason=reason)
        self._gone.append(EndedGroup(entry, self._ending(members), now_seconds))
        for uid in list(record.members):
            self._forget_member(record, uid)

    def _ending(self, members: Iterable[MemberEntry]) -> EndReason:
        endings = {self._endings.get(each.uid, "finished") for each in members if each.machine}
        if not endings or "deleted" in endings:
            return "deadline" if "deadline" in endings else "deleted"
        return "deadline" if "deadline" in endings else "finished"

    def _forget_member(self, record: _Record, uid: str) -> None:
        record.members.pop(uid, None)
        record.ends.pop(uid, None)
        self._rolled_back.discard(uid)
        if self._group_of.get(uid) == record.entry.name:
            del self._group_of[uid]
            self._endings.pop(uid, None)

    # --- Members

    def _on_ready(self, group: Group, now_seconds: float) -> None:
        record = self._record_for(group.name, (task.id for task in group.tasks), now_seconds)
        for task in group.tasks:
            self._add_member(record, task)
        pod = self._pods.get(group.tasks[0].name)
        is_alone = group.name == group.tasks[0].name and len(group.tasks) == 1
        record.is_ready = True
        record.entry = replace(
            record.entry,
            queue=group.queue,
            size=len(group.tasks) if pod is None or is_alone else self._size(pod, record),
            priority=group.priority,
            ready_seconds=group.ready_seconds,
            run_seconds=group.run_seconds,
            reason=record.entry.reason if record.entry.state == "waiting" else "",
            created_seconds=self._created(record),
        )

    def _on_held_back(self, task: Task, why: str, now_seconds: float) -> None:
        pod = self._pods.get(task.name)
        if pod is None or pod.metadata.uid != task.id:
            return
        name = claimed_group(pod) or task.name
        known = self._records.get(name)
        if known is not None and task.id not in known.members:
            running = sum(bool(member.machine) for member in known.members.values())
            if running >= known.entry.size and name != task.name:
                # The group is complete; a later pod is scheduled by itself.
                name = task.name
        record = self._add_pod(name, task, pod, now_seconds)
        record.entry = replace(record.entry, reason=why)

    def _on_running(self, task: Task, machine: str, end: float | None, now_seconds: float) -> None:
        pod = self._pods.get(task.name)
        if pod is None or pod.metadata.uid != task.id:
            return
        name = self._group_of.get(task.id)
        if name is None:
            if not self._is_ours(pod):
                return
            # It ran before the ledger was used.
            name = claimed_group(pod) or task.name
            self._add_pod(name, task, pod, now_seconds)
        record = self._records[name]
        known = record.members[task.id]
        if record.entry.started_seconds is None and not known.sent_to and not known.machine:
            # Bound by another component or before this process started: use the pod's start time.
            started = started_seconds(pod) or now_seconds
            record.entry = replace(record.entry, started_seconds=started)
        if known.machine != machine or known.sent_to:
            self._change(task.id, machine=machine)
        if end != record.ends.get(task.id):
            record.ends[task.id] = end
            self._changed[name] = None

    def _add_pod(self, name: str, task: Task, pod: objects.Pod, now_seconds: float) -> _Record:
        """Record a pod whose group was not reported as ready, with what the pod itself says."""
        record = self._record_for(name, (task.id,), now_seconds)
        self._add_member(record, task)
        record.entry = replace(
            record.entry,
            queue=queue_of(pod),
            size=self._size(pod, record),
            priority=max(record.entry.priority, pod.spec.priority or 0),
            created_seconds=self._created(record),
        )
        return record

    def _record_for(self, name: str, uids: Iterable[str], now_seconds: float) -> _Record:
        """The record of this group; a new one if all pods of the old one have ended."""
        self._changed[name] = None
        record = self._records.get(name)
        if record is not None and not (
            any(uid in record.members for uid in uids)
            or any(self.is_live(member) for member in record.members.values())
        ):
            self._finish(name, record, now_seconds)
            record = None
        if record is None:
            record = self._records[name] = _Record(GroupEntry(name))
        return record

    def _add_member(self, record: _Record, task: Task) -> None:
        name = record.entry.name
        before = self._group_of.get(task.id)
        if before not in (None, name):
            self._forget_member(self._records[before], task.id)
            self._mark_stale(before)
        self._group_of[task.id] = name
        if task.id not in record.members:
            record.members[task.id] = MemberEntry(task.id, task.name)

    def _created(self, record: _Record) -> float:
        if record.entry.created_seconds:
            return record.entry.created_seconds
        found = [
            pod
            for member in record.members.values()
            if (pod := self._pods.get(member.name)) is not None
        ]
        # The API server's timestamps can be compared as text.
        first = min(found, key=lambda pod: pod.metadata.creation_timestamp or "", default=None)
        try:
            return created_seconds(first) if first is not None else 0.0
        except InputError:
            return 0.0

    def _size(self, pod: objects.Pod, record: _Record) -> int:
        """The size of the group by its labels or its PodGroup, else the number of its members."""
        labels = pod.metadata.labels or {}
        for name_label, size_label in SIZED_LABELS:
            written = labels.get(size_label, "")
            if name_label in labels and written.isascii() and written.isdigit():
                return min(int(written), 10**9)
        groups, name = self._pod_groups(), claimed_group(pod) or ""
        size: int | None = None
        if name in groups.coscheduling:
            size = groups.coscheduling[name].spec.min_member
        elif name in groups.native:
            gang = groups.native[name].spec.scheduling_policy.gang
            size = gang.min_count if gang is not None else None
        return size if size is not None and size > 0 else len(record.members)

    def _mark_stale(self, name: str) -> None:
        self._records[name].is_stale = True
        self._changed[name] = None


def _expected_end(record: _Record, started: float | None) -> float | None:
    """The latest expected end of the running members, None if one of them has none."""
    running = [member.uid for member in record.members.values() if member.machine]
    ends = [record.ends.get(uid) for uid in running]
    bounded = [end for end in ends if end is not None]
    if running and len(bounded) == len(running):
        return max(bounded)
    if started is None or record.entry.run_seconds is None:
        return None
    return started + record.entry.run_seconds


def _violation_text(violations: Sequence[Violation]) -> str:
    """The first of these pods with its machine and the reasons, and how many more there are."""
    if not violations:
        return ""
    first = min(violations, key=lambda each: each.task.name)
    others = len(violations) - 1
    more = f" (and {others:,} more)" if others else ""
    pod = first.task.name.rpartition("/")[2]
    return f"{first.machine} does not meet the requirements of {pod}: {first.why}{more}"
