"""afflux place: one cycle over the objects of a cluster, as a dry run."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from afflux import app
from afflux.cli.arguments import PlaceOptions
from afflux.cli.files import read_source
from afflux.cli.settings import chosen_settings
from afflux.cli.tables import table
from afflux.cli.terminal import complain, plain, to_json
from afflux.cluster.state import State
from afflux.cycle.events import Event, GroupReady, TaskRuns
from afflux.cycle.inspection import at
from afflux.cycle.loop import Cycle
from afflux.kube.inventory import Inventory, load
from afflux.model.errors import InputError
from afflux.model.placement import Placement
from afflux.model.promise import Promise
from afflux.model.task import Shape, Task
from afflux.plan.explain import Verdicts, verdicts

VERSION = 1

# Of a pod of whose start nobody can know when it is.
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Wait:
    """A pod that waits, why, and when it will start if the strategy has promised that."""

    pod: str
    reason: str
    expected_start: str | None = None


Waiting = Sequence[Wait]


def run(options: PlaceOptions) -> int:
    """Read, place, print."""
    settings = chosen_settings(options)
    if options.files.count("-") > 1:
        raise InputError("FILE: '-' is given twice; standard input can be read only once")
    app.scheduler(settings, State())  # a wrong setting is told before anything is read
    rules = {each.name: each for each in settings.queue_rules()}
    now_seconds = time.time()
    sources = [read_source(path) for path in options.files]
    inventory = load(sources, rules, now_seconds, settings.scheduler_names)
    _say_notes(inventory)
    state = State(inventory.machines)
    cycle = Cycle(state, app.scheduler(settings, state))
    running = inventory.running
    cycle.run([TaskRuns(t, on, inventory.ends.get(t.id)) for t, on in running], now_seconds)

    before = _all_verdicts(cycle, inventory) if options.explain else None
    placements, promises = _place(cycle, inventory, now_seconds)
    waiting = _waiting(cycle, inventory, promises)
    if options.output == "json":
        _print_json(placements, waiting, before)
    else:
        _print_tables(placements, waiting, before or {})
    return 0


def _place(
    cycle: Cycle, inventory: Inventory, now_seconds: float
) -> tuple[Sequence[Placement], Sequence[Promise]]:
    """Everything that finds a place, more than one round if some wanted the same volumes; and what
    the others are promised."""
    labels = {machine.name: machine.labels for machine in inventory.machines}
    placements: list[Placement] = []
    promises: Sequence[Promise] = ()
    events: list[Event] = [GroupReady(group) for group in inventory.groups]
    while events:
        outcome = cycle.run(events, now_seconds)
        promises = outcome.promises
        decided = {placement.task.id: placement for placement in outcome.placements}
        lost: set[str] = set()
        for group in outcome.round.placed if outcome.round else ():
            together = [decided[task.id] for task in group.tasks]
            lost |= inventory.volumes.take(together, labels)
            if rest := tuple(task for task in group.tasks if task.id in lost):
                cycle.queue.add(replace(group, tasks=rest))
        placements += [each for each in outcome.placements if each.task.id not in lost]
        for task_id in lost:
            cycle.state.remove(task_id)
        events = [GroupReady(group) for group in inventory.volumes.look_again(cycle.queue)]
    return placements, promises


def _say_notes(inventory: Inventory) -> None:
    for note in inventory.notes:
        complain(f"afflux place: note: {note}")
    if inventory.ignored:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(inventory.ignored.items()))
        complain(f"afflux place: note: ignored objects without a part in this: {kinds}")


def _all_verdicts(cycle: Cycle, inventory: Inventory) -> dict[str, Verdicts]:
    """Every node's verdict on every pending pod, by name; equal pods are judged once.

    A pod with a constraint that nobody checks yet fits nowhere: the field that holds it is named.
    """
    pending: list[Task] = [task for group in inventory.groups for task in group.tasks]
    pending += [task for task, _ in inventory.waiting]
    known: dict[Shape | str, Verdicts] = {}
    answers: dict[str, Verdicts] = {}
    for task in pending:
        key = task.blocked or task.shape
        if key not in known:
            known[key] = (
                {machine.name: (task.blocked,) for _, machine in cycle.state.machines()}
                if task.blocked
                else verdicts(cycle.state, cycle.policies_of, task.shape)
            )
        answers[task.name] = known[key]
    return answers


def _waiting(cycle: Cycle, inventory: Inventory, promises: Sequence[Promise]) -> Waiting:
    """Who waits after the round, those included that could not even be considered."""
    names = {task.id: task.name for group in inventory.groups for task in group.tasks}
    starts = {each.group: _written(each.start_seconds) for each in promises}
    promised = {task.id: starts.get(group.name) for group in cycle.queue for task in group.tasks}
    found = [Wait(names[id_], why, promised.get(id_)) for id_, why in cycle.explain().items()]
    return found + [Wait(task.name, why) for task, why in inventory.waiting]


def _written(start_seconds: float | None) -> str:
    return UNKNOWN if start_seconds is None else f"{at(start_seconds):%Y-%m-%dT%H:%M:%SZ}"


def _print_json(
    placements: Sequence[Placement], waiting: Waiting, before: Mapping[str, Verdicts] | None
) -> None:
    """The shape that other programs rely on: documented, stable, versioned."""
    answer: dict[str, object] = {
        "version": VERSION,
        "placements": [{"pod": p.task.name, "node": p.machine} for p in placements],
        "waiting": [
            {"pod": each.pod, "reason": each.reason}
            | ({"expectedStart": each.expected_start} if each.expected_start else {})
            for each in waiting
        ],
    }
    if before is None:
        print(to_json(answer))
        return
    # Every pod times every node is much, but equal pods share their verdicts: those are encoded
    # once and the whole is never held in memory.
    print(to_json(answer).removesuffix("}"), '"verdicts": {', sep=", ", end="")
    encoded: dict[int, str] = {}
    for number, (pod, nodes) in enumerate(before.items()):
        if id(nodes) not in encoded:
            encoded[id(nodes)] = to_json(
                {node: {"fits": not reasons, "reasons": reasons} for node, reasons in nodes.items()}
            )
        print(", " if number else "", to_json(pod), ": ", encoded[id(nodes)], sep="", end="")
    print("}}")


def _print_tables(
    placements: Sequence[Placement], waiting: Waiting, before: Mapping[str, Verdicts]
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
            print(blank + table(header, rows, numbers=False))
            blank = "\n"
    drawn: dict[int, str] = {}
    for pod, nodes in before.items():
        if id(nodes) not in drawn:
            drawn[id(nodes)] = _verdict_table(nodes)
        fitting = sum(not reasons for reasons in nodes.values())
        print(f"\n{plain(pod)}: {fitting} of {len(nodes)} nodes had room before the round")
        print(drawn[id(nodes)])


def _verdict_table(nodes: Verdicts) -> str:
    rows = [[f"  {node}", "; ".join(reasons) or "fits"] for node, reasons in nodes.items()]
    return table(["  NODE", "VERDICT"], rows, numbers=False)
