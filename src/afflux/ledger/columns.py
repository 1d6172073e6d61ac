"""Entries to columns: many rows go into one statement as one array for each column."""

from collections.abc import Iterable, Sequence
from typing import Any

from afflux.cycle.entries import EventEntry, GoneGroup, GroupEntry, Intent
from afflux.model.promise import Promise

Parameters = dict[str, Any]

# The table in which a group stands, by its state, and the statement that puts it there.
TABLES = {
    "provisional": "afflux.provisional_groups",
    "refused": "afflux.provisional_groups",
    "waiting": "afflux.queue",
    "unsatisfiable": "afflux.queue",
    "starting": "afflux.queue",
    "running": "afflux.running_groups",
}


def text(written: str) -> str:
    """As PostgreSQL can store it: it knows neither zero bytes nor halves of characters."""
    return written.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def split(name: str) -> tuple[str, str]:
    """namespace/name in two; what has no namespace has an empty one."""
    space, slash, rest = name.partition("/")
    return (text(space), text(rest)) if slash else ("", text(name))


def joined(namespace: str, name: str) -> str:
    """The way back."""
    return f"{namespace}/{name}" if namespace else name


def names(written: Iterable[str]) -> Parameters:
    """Groups by their names alone."""
    pairs = [split(name) for name in written]
    return {"namespaces": [pair[0] for pair in pairs], "names": [pair[1] for pair in pairs]}


def groups(entries: Sequence[GroupEntry]) -> Parameters:
    """Groups as they stand, without their members."""
    return {
        **names(entry.name for entry in entries),
        "states": [entry.state for entry in entries],
        "queues": [text(entry.queue) for entry in entries],
        "sizes": [entry.size for entry in entries],
        "priorities": [entry.priority for entry in entries],
        "created": [entry.created_seconds for entry in entries],
        "ready": [entry.ready_seconds for entry in entries],
        "run": [entry.run_seconds for entry in entries],
        "started": [entry.started_seconds for entry in entries],
        "until": [entry.until_seconds for entry in entries],
        "reasons": [text(entry.reason) for entry in entries],
    }


def homes(entries: Sequence[GroupEntry]) -> Parameters:
    """Where groups belong."""
    return {
        **names(entry.name for entry in entries),
        "tables": [TABLES[entry.state] for entry in entries],
    }


def pods(entries: Sequence[GroupEntry]) -> Parameters:
    """The members of groups, by uid: a pod that two groups name belongs to the later one."""
    found = {
        member.uid: (member, split(member.name), split(entry.name)[1])
        for entry in entries
        for member in entry.members or ()
    }
    return {
        "uids": list(found),
        "namespaces": [pod[0] for _, pod, _ in found.values()],
        "names": [pod[1] for _, pod, _ in found.values()],
        "groups": [group for _, _, group in found.values()],
        "machines": [member.machine for member, _, _ in found.values()],
    }


def gone(ended: Sequence[GoneGroup]) -> Parameters:
    """Groups that are over, with their pods beside them, numbered from 1."""
    members = [
        (number, member)
        for number, each in enumerate(ended, start=1)
        for member in each.entry.members or ()
    ]
    return {
        **groups([each.entry for each in ended]),
        "ended": [each.ended_seconds for each in ended],
        "hows": [each.how for each in ended],
        "pod_groups": [number for number, _ in members],
        "pods": [split(member.name)[1] for _, member in members],
        "machines": [member.machine for _, member in members],
    }


def promises(held: Sequence[Promise]) -> Parameters:
    """Promises, with their witnesses beside them, numbered from 1."""
    witnesses = [
        (number, uid, machine)
        for number, promise in enumerate(held, start=1)
        for uid, machine in promise.machines
    ]
    return {
        **names(promise.group for promise in held),
        "starts": [promise.start_seconds for promise in held],
        "member_of": [number for number, _, _ in witnesses],
        "uids": [uid for _, uid, _ in witnesses],
        "machines": [machine for _, _, machine in witnesses],
    }


def intents(meant: Sequence[Intent]) -> Parameters:
    """What is about to be bound; of two for the same pod the later one."""
    found = {intent.uid: intent for intent in meant}.values()
    pairs = [split(intent.pod) for intent in found]
    return {
        "uids": [intent.uid for intent in found],
        "namespaces": [pair[0] for pair in pairs],
        "pods": [pair[1] for pair in pairs],
        "groups": [split(intent.group)[1] for intent in found],
        "machines": [intent.machine for intent in found],
    }


def events(told: Sequence[EventEntry]) -> Parameters:
    """What happened, in words."""
    return {
        **names(event.group for event in told),
        "kinds": [text(event.kind) for event in told],
        "messages": [text(event.message) for event in told],
    }
