"""Records: what is known of every group from its first pod to its last, for a ledger.

The mirror and the groups know what matters for the next cycle. Here is what outlives it: who
belongs together, since when, where each pod went, how it ended. Only what has changed since the
last time is handed on.

Pure: no clock, no network. The API server is right: whatever a record says of a pod is what the
pod itself said last.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from afflux.cycle.entries import Ending, GoneGroup, GroupEntry, MemberEntry, State
from afflux.cycle.events import Event, GroupReady, GroupWithdrawn, TaskEnded, TaskRuns
from afflux.kube import objects
from afflux.kube.decoding import created_seconds, is_finished, started_seconds
from afflux.kube.grouping import SIZED_LABELS, PodGroups, claimed_group, queue_of
from afflux.kube.live.shelves import Shelf
from afflux.model.errors import InputError
from afflux.model.group import Group
from afflux.model.placement import Placement
from afflux.model.task import Task


@dataclass(slots=True)
class _Record:
    """One group. State and members of `entry` are as they were last looked at."""

    entry: GroupEntry
    members: dict[str, MemberEntry] = field(default_factory=dict[str, MemberEntry])
    # Whether the cycle knows it, and why it can never start, if so.
    is_ready: bool = False
    # Whether one of its pods may have left since it was last looked at.
    is_suspect: bool = False
    never: str = ""
    until: dict[str, float | None] = field(default_factory=dict[str, float | None])
    written: GroupEntry | None = None


class Records:
    """The groups of one cluster's pods that are ours."""

    def __init__(
        self,
        pods: Shelf[objects.Pod],
        pod_groups: Callable[[], PodGroups],
        is_ours: Callable[[objects.Pod], bool],
    ) -> None:
        self._pods = pods
        self._pod_groups = pod_groups
        self._is_ours = is_ours
        self._records: dict[str, _Record] = {}
        self._group_of: dict[str, str] = {}
        self._endings: dict[str, Ending] = {}
        self._taken_back: set[str] = set()
        # The groups that could not start even on the empty cluster, when last asked.
        self._never: set[str] = set()
        self._touched: OrderedDict[str, None] = OrderedDict()
        self._gone: list[GoneGroup] = []
        # Whether one of those that were handed on last had a place in the queue that is new.
        self.gave_places = False

    def restore(self, entries: Iterable[GroupEntry]) -> None:
        """What a ledger has kept; whether it is still so is found out with everything else."""
        for entry in entries:
            members = {member.uid: member for member in entry.members}
            self._records[entry.name] = _Record(entry, members, is_suspect=True, written=entry)
            self._touched[entry.name] = None
            self._group_of.update(dict.fromkeys(members, entry.name))

    def is_there(self, member: MemberEntry) -> bool:
        """Whether this very pod exists and has not ended."""
        pod = self._pods.get(member.name)
        return pod is not None and pod.metadata.uid == member.uid and not is_finished(pod)

    # --- What happens

    def observe(
        self, events: Iterable[Event], held: Iterable[tuple[Task, str]], now_seconds: float
    ) -> None:
        """What the cycle hears, and which pods it may not consider, with the reasons."""
        for event in events:
            match event:
                case GroupReady(group):
                    self._ready(group, now_seconds)
                case GroupWithdrawn(name) if name in self._records:
                    self._records[name].is_ready = False
                    self._suspect(name)
                case TaskRuns(task, machine, until):
                    self._runs(task, machine, until, now_seconds)
                case TaskEnded(uid) if uid in self._group_of:
                    self._suspect(self._group_of[uid])
                case _:
                    pass
        for task, why in held:
            self._held(task, why, now_seconds)

    def ended(self, pod: objects.Pod) -> None:
        """This is the last that was heard of a pod."""
        uid = pod.metadata.uid or ""
        if uid not in self._group_of:
            return
        self._suspect(self._group_of[uid])
        if pod.status is not None and pod.status.reason == "DeadlineExceeded":
            self._endings[uid] = "deadline"
        elif is_finished(pod) or not pod.metadata.deletion_timestamp:
            self._endings.setdefault(uid, "finished")
        else:
            self._endings.setdefault(uid, "deleted")

    def over_deadline(self, uids: Iterable[str]) -> None:
        """The time of these pods' group is over: that is how it will have ended, whoever has its
        name by now."""
        for uid in uids:
            if uid in self._group_of:
                self._endings[uid] = "deadline"

    def taken_back(self, uids: Iterable[str]) -> None:
        """These are being deleted because the rest of their group could not be bound. They will
        not count as having run: the group has not started."""
        self._taken_back.update(uid for uid in uids if uid in self._group_of)

    def intend(self, placements: Iterable[Placement]) -> None:
        """These are about to be bound."""
        for placement in placements:
            self._change(placement.task.id, sent_to=placement.machine)

    def bound(self, uid: str, machine: str) -> None:
        """A pod has its machine."""
        self._change(uid, machine=machine)

    def in_doubt(self, uid: str, why: str) -> None:
        """Nobody knows whether a pod was bound; it keeps its place until it has been read back."""
        name = self._group_of.get(uid)
        if name is not None:
            sent_to = self._records[name].members[uid].sent_to
            self._change(uid, sent_to=sent_to, doubt=why)

    def not_bound(self, uid: str, why: str = "") -> str | None:
        """A bind has come to nothing: the pod waits again, where it waited before. Its group."""
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
        self._touched[name] = None

    def explain(self, reasons: Mapping[str, str], never: Mapping[str, str]) -> None:
        """Why those wait, by task, who do, and which groups can never start."""
        for name in self._never | never.keys():
            record, why = self._records.get(name), never.get(name, "")
            if record is not None and record.never != why:
                record.never = why
                self._touched[name] = None
                record.entry = replace(record.entry, reason=why)
        self._never = set(never)
        for uid, why in reasons.items():
            name = self._group_of.get(uid)
            if name is None:
                continue
            record = self._records[name]
            if (
                not record.never
                and record.entry.reason != why
                and next(iter(record.members)) == uid
            ):
                self._touched[name] = None
                record.entry = replace(record.entry, reason=why)

    # --- What has changed

    def take(
        self, now_seconds: float, refused: Collection[str] = ()
    ) -> tuple[list[GroupEntry], list[GoneGroup]]:
        """Groups as they stand that have changed since the last time, and those that have left.

        `refused` are the pods that will not be considered unless somebody changes them.
        """
        changed: list[GroupEntry] = []
        self.gave_places = False
        while self._touched:
            name, _ = self._touched.popitem(last=False)
            record = self._records.get(name)
            if record is not None:
                changed += self._looked_at(name, record, now_seconds, refused)
        gone, self._gone = self._gone, []
        return changed, gone

    def _looked_at(
        self, name: str, record: _Record, now_seconds: float, refused: Collection[str]
    ) -> list[GroupEntry]:
        there: Collection[MemberEntry] = record.members.values()
        if record.is_suspect or not there:
            there = [member for member in there if self.is_there(member)]
            if not there:
                self._leave(name, record, now_seconds)
                return []
            # As long as some have ended and others not, there is a difference to be found.
            record.is_suspect = len(there) < len(record.members)
            self._drop_deserters(record, {member.uid for member in there})
        state = self._state(record, there, refused)
        started = record.entry.started_seconds
        if state == "running" and started is None:
            started = now_seconds
        record.entry = entry = replace(
            record.entry,
            state=state,
            reason="" if state == "running" else record.entry.reason,
            started_seconds=started,
            until_seconds=_until(record, started) if state == "running" else None,
            members=tuple(record.members.values()),
        )
        if entry == record.written:
            return []
        before = None if record.written is None else record.written.ready_seconds
        self.gave_places = self.gave_places or entry.ready_seconds != before
        record.written = entry
        return [entry]

    def _state(
        self, record: _Record, there: Collection[MemberEntry], refused: Collection[str]
    ) -> State:
        pending = [member for member in there if not member.machine]
        if not pending:
            return "running"
        if any(member.sent_to for member in pending):
            return "starting"
        has_place = record.entry.ready_seconds is not None
        if record.is_ready or (has_place and len(there) >= record.entry.size):
            return "unsatisfiable" if record.never else "waiting"
        return "refused" if all(member.uid in refused for member in pending) else "provisional"

    def _drop_deserters(self, record: _Record, there: Collection[str]) -> None:
        """Who leaves before it was started, or was taken back, was never a member; who ran stays in
        the record."""
        for uid, member in list(record.members.items()):
            if uid not in there and (not member.machine or uid in self._taken_back):
                self._forget_member(record, uid)

    def _leave(self, name: str, record: _Record, now_seconds: float) -> None:
        del self._records[name]
        members = tuple(record.members.values())
        entry = replace(record.entry, state="finished", members=members)
        self._gone.append(GoneGroup(entry, self._how(members), now_seconds))
        for uid in list(record.members):
            self._forget_member(record, uid)

    def _how(self, members: Iterable[MemberEntry]) -> Ending:
        endings = {self._endings.get(each.uid, "finished") for each in members if each.machine}
        if not endings or "deleted" in endings:
            return "deadline" if "deadline" in endings else "deleted"
        return "deadline" if "deadline" in endings else "finished"

    def _forget_member(self, record: _Record, uid: str) -> None:
        record.members.pop(uid, None)
        record.until.pop(uid, None)
        self._taken_back.discard(uid)
        if self._group_of.get(uid) == record.entry.name:
            del self._group_of[uid]
            self._endings.pop(uid, None)

    # --- Members

    def _ready(self, group: Group, now_seconds: float) -> None:
        record = self._record_for(group.name, (task.id for task in group.tasks), now_seconds)
        for task in group.tasks:
            self._join(record, task)
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

    def _held(self, task: Task, why: str, now_seconds: float) -> None:
        pod = self._pods.get(task.name)
        if pod is None or pod.metadata.uid != task.id:
            return
        name = claimed_group(pod) or task.name
        known = self._records.get(name)
        if known is not None and task.id not in known.members:
            running = sum(bool(member.machine) for member in known.members.values())
            if running >= known.entry.size and name != task.name:
                # The group is complete; a late pod starts on its own.
                name = task.name
        record = self._meet(name, task, pod, now_seconds)
        record.entry = replace(record.entry, reason=why)

    def _runs(self, task: Task, machine: str, until: float | None, now_seconds: float) -> None:
        pod = self._pods.get(task.name)
        if pod is None or pod.metadata.uid != task.id:
            return
        name = self._group_of.get(task.id)
        if name is None:
            if not self._is_ours(pod):
                return
            # It ran before there was a ledger.
            name = claimed_group(pod) or task.name
            self._meet(name, task, pod, now_seconds)
        record = self._records[name]
        known = record.members[task.id]
        if record.entry.started_seconds is None and not known.sent_to and not known.machine:
            # Bound by somebody else, or before our time: the pod knows better when that was.
            record.entry = replace(
                record.entry, started_seconds=started_seconds(pod) or now_seconds
            )
        if known.machine != machine or known.sent_to:
            self._change(task.id, machine=machine)
        if until != record.until.get(task.id):
            record.until[task.id] = until
            self._touched[name] = None

    def _meet(self, name: str, task: Task, pod: objects.Pod, now_seconds: float) -> _Record:
        """A pod of which the cycle has not said that its group is ready: it speaks for itself."""
        record = self._record_for(name, (task.id,), now_seconds)
        self._join(record, task)
        record.entry = replace(
            record.entry,
            queue=queue_of(pod),
            size=self._size(pod, record),
            priority=max(record.entry.priority, pod.spec.priority or 0),
            created_seconds=self._created(record),
        )
        return record

    def _record_for(self, name: str, uids: Iterable[str], now_seconds: float) -> _Record:
        """The group of this name; if all of it has ended and these are others, it is a new one."""
        self._touched[name] = None
        record = self._records.get(name)
        if record is not None and not (
            any(uid in record.members for uid in uids)
            or any(self.is_there(member) for member in record.members.values())
        ):
            self._leave(name, record, now_seconds)
            record = None
        if record is None:
            record = self._records[name] = _Record(GroupEntry(name))
        return record

    def _join(self, record: _Record, task: Task) -> None:
        name = record.entry.name
        before = self._group_of.get(task.id)
        if before not in (None, name):
            self._forget_member(self._records[before], task.id)
            self._suspect(before)
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
        # As the API server writes them, times can be compared as texts.
        first = min(found, key=lambda pod: pod.metadata.creation_timestamp or "", default=None)
        try:
            return created_seconds(first) if first is not None else 0.0
        except InputError:
            return 0.0

    def _size(self, pod: objects.Pod, record: _Record) -> int:
        """How many members the group has to have, as far as anybody says so."""
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

    def _suspect(self, name: str) -> None:
        self._records[name].is_suspect = True
        self._touched[name] = None


def _until(record: _Record, started: float | None) -> float | None:
    """When the last of those who run has to be over, None if one may go on for ever."""
    running = [member.uid for member in record.members.values() if member.machine]
    ends = [record.until.get(uid) for uid in running]
    bounded = [end for end in ends if end is not None]
    if running and len(bounded) == len(running):
        return max(bounded)
    if started is None or record.entry.run_seconds is None:
        return None
    return started + record.entry.run_seconds
