"""afflux place: one cycle over the objects of a cluster, as a dry run."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from afflux import app
from afflux.cli.arguments import PlaceOptions
from afflux.cli.chosen_settings import chosen_settings
from afflux.cli.file_arguments import read_source
from afflux.cli.safe_output import print_error, printable, to_json
from afflux.cli.text_table import format_table
from afflux.cluster.state import State
from afflux.cluster.task_class import TaskClass
from afflux.cycle.events import Event, GroupReady, NamespaceSet, TaskRuns
from afflux.cycle.inspection_types import to_datetime
from afflux.cycle.loop import Cycle
from afflux.kube.cluster_relations import ClusterRelations
from afflux.kube.cluster_snapshot import ClusterSnapshot, load
from afflux.kube.default_constraints import DefaultConstraints
from afflux.model.errors import InputError
from afflux.model.placement import Placement
from afflux.model.reservation import Reservation
from afflux.model.task import Task
from afflux.plan.explain import Verdicts, verdicts

VERSION = 1

# The expected start of a pod with a reservation without a start time.
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod that waits, why, and its reserved start if it has a reservation."""

    pod: str
    reason: str
    expected_start: str | None = None


Waiting = Sequence[WaitingPod]


def run(options: PlaceOptions) -> int:
    """Reads the objects, runs the cycle, prints the result."""
    settings = chosen_settings(options)
    if options.files.count("-") > 1:
        raise InputError("FILE: '-' is given twice; standard input can be read only once")
    app.make_scheduler(settings, State())  # refuses wrong settings before reading files
    rules = {each.name: each for each in settings.queue_rules()}
    now_seconds = time.time()
    sources = [read_source(path) for path in options.files]
    relations = ClusterRelations(
        DefaultConstraints(settings.default_constraints()),
        settings.pod_affinity.hard_pod_affinity_weight,
    )
    snapshot = load(sources, rules, now_seconds, settings.scheduler_names, relations)
    _print_notes(snapshot)
    state = State(snapshot.machines)
    cycle = Cycle(state, app.make_scheduler(settings, state))
    observed: list[Event] = [NamespaceSet(*each) for each in snapshot.namespaces.items()]
    observed += [TaskRuns(t, on, snapshot.ends.get(t.id)) for t, on in snapshot.running]
    cycle.run(observed, now_seconds)

    node_verdicts = _verdicts_by_pod(cycle, snapshot) if options.explain else None
    placements, reservations = _place(cycle, snapshot, now_seconds)
    waiting = _waiting(cycle, snapshot, reservations)
    if options.output == "json":
        _print_json(placements, waiting, node_verdicts)
    else:
        _print_tables(placements, waiting, node_verdicts or {})
    return 0


def _place(
    cycle: Cycle, snapshot: ClusterSnapshot, now_seconds: float
) -> tuple[Sequence[Placement], Sequence[Reservation]]:
    """All placements, and the reservations of the waiting groups.

    Pods that chose the same volume are placed again in a further cycle.
    """
    labels = {machine.name: machine.labels for machine in snapshot.machines}
    placements: list[Placement] = []
    reservations: Sequence[Reservation] = ()
    events: list[Event] = [GroupReady(group) for group in snapshot.groups]
    while events:
        outcome = cycle.run(events, now_seconds)
        reservations = outcome.reservations
        decided = {placement.task.id: placement for placement in outcome.placements}
        conflicting: set[str] = set()
        for group in outcome.round.placed if outcome.round else ():
            conflicting |= snapshot.volumes.take([decided[t.id] for t in group.tasks], labels)
            if rest := tuple(task for task in group.tasks if task.id in conflicting):
                cycle.queue.add(replace(group, tasks=rest))
        placements += [each for each in outcome.placements if each.task.id not in conflicting]
        for task_id in conflicting:
            cycle.state.remove(task_id)
        events = [GroupReady(group) for group in snapshot.volumes.update_tasks(cycle.queue)]
    return placements, reservations


def _print_notes(snapshot: ClusterSnapshot) -> None:
    for note in snapshot.notes:
        print_error(f"afflux place: note: {note}")
    if snapshot.ignored:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(snapshot.ignored.items()))
        print_error(f"afflux place: note: ignored objects that do not matter here: {kinds}")


def _verdicts_by_pod(cycle: Cycle, snapshot: ClusterSnapshot) -> dict[str, Verdicts]:
    """Per pending pod the verdict of every node; equal pods share one computation.

    A pod with an unsupported constraint fits no node; the reason names its field.
    """
    pending: list[Task] = [task for group in snapshot.groups for task in group.tasks]
    pending += [task for task, _ in snapshot.waiting]
    cycle.state.relations.use(task.shape.relations for task in pending)
    known: dict[TaskClass | str, Verdicts] = {}
    answers: dict[str, Verdicts] = {}
    for task in pending:
        key = task.blocked or cycle.state.relations.class_of(task)
        if key not in known:
            known[key] = (
                {machine.name: (key,) for _, machine in cycle.state.machines()}
                if isinstance(key, str)
                else verdicts(cycle.state, cycle.policies_of, key)
            )
        answers[task.name] = known[key]
    return answers


def _waiting(
    cycle: Cycle, snapshot: ClusterSnapshot, reservations: Sequence[Reservation]
) -> Waiting:
    """The pods that wait after the cycle, including pods with unsupported constraints."""
    names = {task.id: task.name for group in snapshot.groups for task in group.tasks}
    starts = {each.group: _start_text(each.start_seconds) for each in reservations}
    reserved = {task.id: starts.get(group.name) for group in cycle.queue for task in group.tasks}
    found = [WaitingPod(names[id_], why, reserved.get(id_)) for id_, why in cycle.explain().items()]
    return found + [WaitingPod(task.name, why) for task, why in snapshot.waiting]


def _start_text(start_seconds: float | None) -> str:
    return UNKNOWN if start_seconds is None else f"{to_datetime(start_seconds):%Y-%m-%dT%H:%M:%SZ}"


def _print_json(
    placements: Sequence[Placement], waiting: Waiting, node_verdicts: Mapping[str, Verdicts] | None
) -> None:
    """Prints the documented, versioned JSON format."""
    answer: dict[str, object] = {
        "version": VERSION,
        "placements": [{"pod": p.task.name, "node": p.machine} for p in placements],
        "waiting": [
            {"pod": each.pod, "reason": each.reason}
            | ({"expectedStart": each.expected_start} if each.expected_start else {})
            for each in waiting
        ],
    }
    if node_verdicts is None:
        print(to_json(answer))
        return
    # Pods times nodes can be large. Equal pods share their verdicts: each verdict is encoded once,
    # and the whole text is never held in memory.
    print(to_json(answer).removesuffix("}"), '"verdicts": {', sep=", ", end="")
    encoded: dict[int, str] = {}
    for number, (pod, nodes) in enumerate(node_verdicts.items()):
        if id(nodes) not in encoded:
            shown = {node: {"fits": not why, "reasons": why} for node, why in nodes.items()}
            encoded[id(nodes)] = to_json(shown)
        print(", " if number else "", to_json(pod), ": ", encoded[id(nodes)], sep="", end="")
    print("}}")


def _print_tables(
    placements: Sequence[Placement], waiting: Waiting, node_verdicts: Mapping[str, Verdicts]
) -> None:
    if not placements and not waiting:
        print("No pending pods.")
    blank = ""
    waits = [["WAITING", "EXPECTED START", "REASON"]]
    waits += [[each.pod, each.expected_start or "-", each.reason] for each in waiting]
    if not any(each.expected_start for each in waiting):
        waits = [[pod, reason] for pod, _, reason in waits]
    for header, rows in (
        (["POD", "NODE"], [(p.task.name, p.machine) for p in placements]),
        (waits[0], waits[1:]),
    ):
        if rows:
            print(blank + format_table(header, rows, right_align=False))
            blank = "\n"
    drawn: dict[int, str] = {}
    for pod, nodes in node_verdicts.items():
        if id(nodes) not in drawn:
            drawn[id(nodes)] = _verdict_table(nodes)
        fitting = sum(not reasons for reasons in nodes.values())
        print(f"\n{printable(pod)}: {fitting} of {len(nodes)} nodes had room before the round")
        print(drawn[id(nodes)])


def _verdict_table(nodes: Verdicts) -> str:
    rows = [[f"  {node}", "; ".join(reasons) or "fits"] for node, reasons in nodes.items()]
    return format_table(["  NODE", "VERDICT"], rows, right_align=False)
