"""Evaluation of one group: what may start now, in which place, and what holds the rest back."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from afflux.groups.group import Group
from afflux.groups.member import Hold
from afflux.groups.places import Places
from afflux.groups.queue_room import QueueRoom
from afflux.groups.quorum import (
    Candidate,
    Gathered,
    QuorumRule,
    Shortage,
    gather,
    run_seconds_of,
)
from afflux.model.task import Task
from afflux.model.waiting_group import WaitingGroup
from afflux.queue.rules import QueueRules

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Evaluation:
    """What waits in the queue, by key, and the members that are held back: the last of these says
    why the group waits if nothing of it is in the queue."""

    starts: dict[str, WaitingGroup] = field(default_factory=dict[str, WaitingGroup])
    held: list[tuple[Task, Hold]] = field(default_factory=list[tuple[Task, Hold]])


class Evaluator:
    """The rules of the queues, the room in them, and the places that were given."""

    def __init__(
        self,
        rules: Mapping[str, QueueRules],
        quorum_rules: Mapping[str, QuorumRule],
        shortage: Shortage | None,
    ) -> None:
        self.room = QueueRoom(rules)
        self._rules = rules
        self._quorum_rules = quorum_rules
        self._shortage = shortage
        self._places = Places()

    def evaluate(self, group: Group) -> Evaluation:
        """Updates the terms and the place of the group. An error keeps only its tasks waiting."""
        if _is_task_alone_that_runs(group):
            self.room.leave(group.key)
            group.complete_size = group.terms.size
            return Evaluation()
        try:
            found = self._gather(group)
            if found.terms is not None:
                group.terms = found.terms
            group.complete_size = group.terms.size if found.is_complete else 0
            group.is_whole = found.is_whole
            self._places.update(group, found)
            self._admit(group, found)
            return Evaluation(self._starts(group, found), found.held)
        except Exception as error:
            _log.exception("group %s could not be evaluated", group.id.shown)
            group.complete_size = 0
            self.room.leave(group.key)
            hold = Hold("waits", f"an error of the scheduler ({type(error).__name__}), see its log")
            tasks = [each.said.task for each in group.pending() if each.said is not None]
            return Evaluation(held=[(task, hold) for task in tasks])

    def _gather(self, group: Group) -> Gathered:
        candidates: list[Candidate] = []
        unusable: list[tuple[Task, Hold]] = []
        refused = 0
        for member, candidate in group.candidates():
            problem = member.said.claim.problem if member.said is not None else None
            if problem is None or member.is_running:
                candidates.append(candidate)
                continue
            blocked = candidate.task.blocked
            unusable.append((candidate.task, Hold("waits", blocked) if blocked else problem))
            refused += problem.kind == "refused"
        found = gather(
            group.id.shown,
            candidates,
            self._rules,
            self._quorum_rules,
            already_refused=refused,
            peak_running=group.peak_bound,
            shortage=self._shortage,
        )
        # What concerns the group as a whole comes last.
        found.held = [*unusable, *found.held]
        return found

    def _admit(self, group: Group, found: Gathered) -> None:
        """Let what may start into its queue, if there is room. The rest of a group that runs in
        part always has room."""
        starting = [*found.together, *found.alone]
        if not starting or group.place is None:
            self.room.leave(group.key)
            return
        self.room.note_changed(group.key)
        if group.has_begun:
            self.room.hold_place(group.key, group.terms.queue)
            return
        why = self.room.enter(group.key, group.terms.queue, group.place)
        if why is not None:
            found.hold((each.task for each in starting), why, refused=True)
            found.together = found.alone = ()

    def _starts(self, group: Group, found: Gathered) -> dict[str, WaitingGroup]:
        """The members that start together have the key of the group, late members keys of their
        own."""
        starts: dict[str, WaitingGroup] = {}
        queue = self._rules.get(group.terms.queue)
        if group.place is None or queue is None:
            return starts
        if found.together:
            together = _waiting(group.key, group.id.shown, found.together, group.place, queue)
            starts[group.key] = replace(together, begun=group.has_begun)
        missing = found.missing - len(found.together)
        places = self._places.of_late_members(group, found.alone, missing)
        for each in found.alone:
            member, place = group.members[each.task.id], places[each.task.id]
            known, start = member.own_start or (None, None)
            is_same = known is each and start is not None and start.ready_seconds == place
            if start is None or not is_same or start.queue != queue.name:
                key = f"{group.key}/{each.task.id}"
                start = _waiting(key, each.task.name, (each,), place, queue)
                member.own_start = each, start
            starts[start.key] = start
        return starts


def _waiting(
    key: str, name: str, members: Sequence[Candidate], place: float, queue: QueueRules
) -> WaitingGroup:
    return WaitingGroup(
        key,
        tuple(each.task for each in members),
        max(each.priority for each in members),
        place,
        run_seconds_of(members, queue),
        queue.name,
        name=name,
        may_preempt=all(each.may_preempt for each in members),
    )


def _is_task_alone_that_runs(group: Group) -> bool:
    """Whether there is nothing to decide: most reports are about tasks that name no group, and that
    have been sent to a machine or bound since they got their place."""
    if not group.id.alone:
        return False
    return all(
        each.is_running
        and each.said is not None
        and not each.said.leaving
        and each.said.claim.terms == group.terms == group.place_terms
        for each in group.members.values()
    )
