"""Observing: what happened is noticed, event by event.

A defect that one event brings to light is about one machine or one group, never about all: that
machine is not used, and whoever reports is asked to tell about it again from the beginning.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from afflux.cluster.state import State
from afflux.cycle.events import (
    Event,
    GroupReady,
    GroupWithdrawn,
    MachineGone,
    MachineSet,
    TaskEnded,
    TaskRuns,
)
from afflux.cycle.promises import Cause, Promises
from afflux.model.machine import Machine
from afflux.model.task import Shape
from afflux.queue.waiting import Queue

# Pods start seconds after they were bound, and end as much later: nobody has to plan anew for that.
SLIP_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Unheard:
    """About this machine or group something could not be noticed; everything has to be told again.

    Until then nothing of it is known.
    """

    what: Literal["machine", "group"]
    name: str
    error: Exception


class Observing:
    """Keeps the cluster and the queue up to date."""

    def __init__(self, state: State, queue: Queue, promises: Promises) -> None:
        self._state = state
        self._queue = queue
        self._promises = promises
        # Whether anything has happened that may help somebody who waits, since this was last unset.
        self.news = False

    def observe_all(self, events: Iterable[Event], now_seconds: float) -> list[Unheard]:
        """Notice all of them; those of which nobody could make sense."""
        unheard: dict[tuple[str, str], Unheard] = {}
        for event in events:
            machine = self._machine_of(event)
            if machine is not None and ("machine", machine) in unheard:
                # Half of what happened there would be worse than nothing.
                continue
            try:
                self.observe(event, now_seconds)
            except Exception as error:
                found = self._give_up(event, machine, error)
                if found is not None:
                    unheard[found.what, found.name] = found
        return list(unheard.values())

    def observe(self, event: Event, now_seconds: float) -> None:
        """Take notice. News is what may help somebody who waits: a group, room, one ahead gone."""
        match event:
            case MachineSet(machine):
                self._set_machine(machine)
            case MachineGone(name) if name in self._state.rows:
                self._state.remove_machine(name)
                self._lost(Cause.MACHINE)
            case TaskRuns(task, machine, until) if machine in self._state.rows:
                before, held = self._state.where(task.id), self._state.held(task.id)
                self._state.place(task, machine, until_seconds=until)
                self.news |= before not in (None, machine)
                if before != machine or held is None:
                    self._lost(Cause.FOREIGN)
                    return
                self._resized(held.task.shape, task.shape)
                if held.until_seconds != until:
                    self._end_moved(held.until_seconds, until)
            case TaskEnded(task_id):
                held = self._state.remove(task_id)
                self.news |= held is not None
                if held is not None and held.until_seconds != now_seconds:
                    self._end_moved(held.until_seconds, now_seconds)
            case GroupReady(group):
                self._promises.joined(group, self._queue.get(group.name))
                self._queue.add(group)
                self.news = True
            case GroupWithdrawn(name):
                self.news |= name in self._queue
                self._queue.discard(name)
                self._promises.forget(name)
            case MachineGone() | TaskRuns():
                # Reports cross on the way; about an unknown machine there is nothing to do.
                pass

    def _set_machine(self, machine: Machine) -> None:
        version, row = self._state.version, self._state.rows.get(machine.name)
        before = None if row is None else self._state.machine(row)
        self._state.set_machine(machine)
        if self._state.version == version:
            return
        self.news = True
        if before is None or _offers_no_less(machine, before):
            self._promises.freed()
        else:
            self._promises.disturb(Cause.MACHINE)

    def _resized(self, before: Shape, now: Shape) -> None:
        """A running task asks for other amounts than it did."""
        if before.takes_as(now):
            return
        if _asks_more(now, before):
            self._lost(Cause.FOREIGN)
        if _asks_more(before, now):
            self.news = True
            self._promises.freed()

    def _lost(self, cause: Cause) -> None:
        """There is less room than was expected. That helps nobody; but whoever was promised a start
        has to hear whether it still holds."""
        self.news |= bool(self._promises)
        self._promises.disturb(cause)

    def _end_moved(self, before: float | None, now: float | None) -> None:
        """Something ends at another time than was expected. Often that is known in advance: a pod
        starts after it was bound, and its deadline counts from then."""
        if now is not None and (before is None or now <= before):
            self._promises.freed()
            return
        later = math.inf if now is None or before is None else now - before
        self._promises.overrun(later)
        self.news |= later > SLIP_SECONDS and bool(self._promises)

    def _machine_of(self, event: Event) -> str | None:
        match event:
            case MachineSet(machine):
                return machine.name
            case MachineGone(name) | TaskRuns(machine=name):
                return name
            case TaskEnded(task_id):
                return self._state.where(task_id)
            case GroupReady() | GroupWithdrawn():
                return None

    def _give_up(self, event: Event, machine: str | None, error: Exception) -> Unheard | None:
        if machine is not None:
            # Nobody is placed where we do not know what runs.
            if machine in self._state.rows:
                self._state.remove_machine(machine)
                self._lost(Cause.MACHINE)
            return Unheard("machine", machine, error)
        match event:
            case GroupReady(group):
                return Unheard("group", group.name, error)
            case GroupWithdrawn(name):
                return Unheard("group", name, error)
            case _:
                # A task that is nowhere has ended.
                return None


def _offers_no_less(now: Machine, before: Machine) -> bool:
    """Whether everybody who could be there still can. Images come and go, and are in nobody's way;
    about labels and taints nobody can tell without asking every group."""
    offered = dict(now.capacity)
    return (
        now.devices >= before.devices
        and now.labels == before.labels
        and now.taints == before.taints
        and now.unschedulable <= before.unschedulable
        and all(offered.get(name, 0) >= amount for name, amount in before.capacity)
    )


def _asks_more(one: Shape, other: Shape) -> bool:
    """Whether one asks for more of anything than the other."""
    asked = dict(other.requests)
    if any(amount > asked.get(name, 0) for name, amount in one.requests):
        return True
    return one.devices is not None and one.devices != other.devices
