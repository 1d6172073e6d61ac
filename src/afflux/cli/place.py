"""afflux place: one cycle over the objects of a cluster, as a dry run."""

import argparse
import sys
from collections.abc import Sequence

import msgspec

from afflux import app
from afflux.cli.reading import read_source
from afflux.cli.settings import chosen_settings
from afflux.cli.tables import table
from afflux.cluster.state import State
from afflux.cycle.events import Event, GroupReady, TaskRuns
from afflux.cycle.loop import Cycle
from afflux.kube.inventory import Inventory, load
from afflux.model.errors import InputError
from afflux.model.placement import Placement
from afflux.model.task import Shape, Task
from afflux.plan.explain import Verdicts, verdicts

VERSION = 1


class _Nowhere:
    """A dry run: placements are only printed."""

    def bind(self, placements: Sequence[Placement]) -> Sequence[Placement]:
        """All of them succeed."""
        del placements
        return ()


def run(options: argparse.Namespace) -> int:
    """Read, place, print."""
    settings = chosen_settings(options)
    if options.files.count("-") > 1:
        raise InputError("FILE: '-' is given twice; standard input can be read only once")
    inventory = load([read_source(path) for path in options.files])
    _say_notes(inventory)
    state = State(inventory.machines)
    cycle = Cycle(state, app.scheduler(settings, state), _Nowhere())
    events: list[Event] = [TaskRuns(task, machine) for task, machine in inventory.running]
    cycle.run(events)

    pending = [task for group in inventory.groups for task in group.tasks]
    pending += [task for task, _ in inventory.waiting]
    before = _all_verdicts(cycle, pending) if options.explain else {}
    outcome = cycle.run([GroupReady(group) for group in inventory.groups])
    waiting = _waiting(cycle, inventory)
    if options.output == "json":
        print(msgspec.json.encode(_answer(outcome.placements, waiting, before, options)).decode())
    else:
        _print_tables(outcome.placements, waiting, before)
    return 0


def _say_notes(inventory: Inventory) -> None:
    for note in inventory.notes:
        print(f"afflux place: note: {note}", file=sys.stderr)
    if inventory.ignored:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(inventory.ignored.items()))
        print(
            f"afflux place: note: ignored objects without a part in this: {kinds}", file=sys.stderr
        )


def _all_verdicts(cycle: Cycle, pending: Sequence[Task]) -> dict[str, Verdicts]:
    known: dict[Shape, Verdicts] = {}
    for task in pending:
        if task.shape not in known:
            known[task.shape] = verdicts(cycle.state, cycle.policies, task.shape)
    return {task.name: known[task.shape] for task in pending}


def _waiting(cycle: Cycle, inventory: Inventory) -> list[tuple[str, str]]:
    """Names and reasons, those that could not even be considered included."""
    reasons = cycle.explain()
    names = {task.id: task.name for group in inventory.groups for task in group.tasks}
    found = [(names[task_id], why) for task_id, why in reasons.items()]
    return found + [(task.name, why) for task, why in inventory.waiting]


def _answer(
    placements: Sequence[Placement],
    waiting: list[tuple[str, str]],
    before: dict[str, Verdicts],
    options: argparse.Namespace,
) -> dict[str, object]:
    answer: dict[str, object] = {
        "version": VERSION,
        "placements": [{"pod": p.task.name, "node": p.machine} for p in placements],
        "waiting": [{"pod": name, "reason": why} for name, why in waiting],
    }
    if options.explain:
        answer["verdicts"] = {
            pod: {
                node: {"fits": not reasons, "reasons": list(reasons)}
                for node, reasons in nodes.items()
            }
            for pod, nodes in before.items()
        }
    return answer


def _print_tables(
    placements: Sequence[Placement],
    waiting: list[tuple[str, str]],
    before: dict[str, Verdicts],
) -> None:
    if not placements and not waiting:
        print("No pending pods.")
    if placements:
        print(table(["POD", "NODE"], [[p.task.name, p.machine] for p in placements]))
    if waiting:
        print(("\n" if placements else "") + table(["WAITING", "REASON"], list(map(list, waiting))))
    for pod, nodes in before.items():
        rows = [[node, "; ".join(reasons) or "fits"] for node, reasons in nodes.items()]
        print(f"\n{pod}, before the round:")
        print(table(["  NODE", "VERDICT"], [[f"  {node}", verdict] for node, verdict in rows]))
