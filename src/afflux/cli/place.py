"""afflux place: one cycle over the objects of a cluster, as a dry run."""

from collections.abc import Mapping, Sequence

from afflux import app
from afflux.cli.arguments import PlaceOptions
from afflux.cli.files import read_source
from afflux.cli.settings import chosen_settings
from afflux.cli.tables import table
from afflux.cli.terminal import complain, plain, print_json
from afflux.cluster.state import State
from afflux.cycle.events import GroupReady, TaskRuns
from afflux.cycle.loop import Cycle
from afflux.kube.inventory import Inventory, load
from afflux.model.errors import InputError
from afflux.model.placement import Placement
from afflux.model.task import Shape, Task
from afflux.plan.explain import Verdicts, verdicts

VERSION = 1

# Names of pods and why they wait.
Waiting = Sequence[tuple[str, str]]


class _Nowhere:
    """A dry run: placements are only printed."""

    def bind(self, placements: Sequence[Placement]) -> Sequence[Placement]:
        """All of them succeed."""
        del placements
        return ()


def run(options: PlaceOptions) -> int:
    """Read, place, print."""
    settings = chosen_settings(options)
    if options.files.count("-") > 1:
        raise InputError("FILE: '-' is given twice; standard input can be read only once")
    app.scheduler(settings, State())  # a wrong setting is told before anything is read
    inventory = load([read_source(path) for path in options.files])
    _say_notes(inventory)
    state = State(inventory.machines)
    cycle = Cycle(state, app.scheduler(settings, state), _Nowhere())
    cycle.run([TaskRuns(task, machine) for task, machine in inventory.running])

    before = _all_verdicts(cycle, inventory) if options.explain else None
    outcome = cycle.run([GroupReady(group) for group in inventory.groups])
    waiting = _waiting(cycle, inventory)
    if options.output == "json":
        print_json(_answer(outcome.placements, waiting, before))
    else:
        _print_tables(outcome.placements, waiting, before or {})
    return 0


def _say_notes(inventory: Inventory) -> None:
    for note in inventory.notes:
        complain(f"afflux place: note: {note}")
    if inventory.ignored:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(inventory.ignored.items()))
        complain(f"afflux place: note: ignored objects without a part in this: {kinds}")


def _all_verdicts(cycle: Cycle, inventory: Inventory) -> dict[str, Verdicts]:
    """Every node's verdict on every pending pod, by name; equal pods are judged once."""
    pending: list[Task] = [task for group in inventory.groups for task in group.tasks]
    pending += [task for task, _ in inventory.waiting]
    known: dict[Shape, Verdicts] = {}
    for task in pending:
        if task.shape not in known:
            known[task.shape] = verdicts(cycle.state, cycle.policies, task.shape)
    return {task.name: known[task.shape] for task in pending}


def _waiting(cycle: Cycle, inventory: Inventory) -> Waiting:
    """Who waits after the round, those included that could not even be considered."""
    names = {task.id: task.name for group in inventory.groups for task in group.tasks}
    found = [(names[task_id], why) for task_id, why in cycle.explain().items()]
    return found + [(task.name, why) for task, why in inventory.waiting]


def _answer(
    placements: Sequence[Placement], waiting: Waiting, before: Mapping[str, Verdicts] | None
) -> dict[str, object]:
    """The JSON that other programs rely on: documented, stable, versioned."""
    answer: dict[str, object] = {
        "version": VERSION,
        "placements": [{"pod": p.task.name, "node": p.machine} for p in placements],
        "waiting": [{"pod": name, "reason": why} for name, why in waiting],
    }
    if before is not None:
        answer["verdicts"] = {
            pod: {
                node: {"fits": not reasons, "reasons": list(reasons)}
                for node, reasons in nodes.items()
            }
            for pod, nodes in before.items()
        }
    return answer


def _print_tables(
    placements: Sequence[Placement], waiting: Waiting, before: Mapping[str, Verdicts]
) -> None:
    blocks: list[str] = []
    if placements:
        blocks.append(_text(["POD", "NODE"], [[p.task.name, p.machine] for p in placements]))
    if waiting:
        blocks.append(_text(["WAITING", "REASON"], waiting))
    for pod, nodes in before.items():
        fitting = sum(not reasons for reasons in nodes.values())
        rows = [[f"  {node}", "; ".join(reasons) or "fits"] for node, reasons in nodes.items()]
        blocks.append(
            f"{plain(pod)}: {fitting} of {len(nodes)} nodes had room before the round\n"
            + _text(["  NODE", "VERDICT"], rows)
        )
    print("\n\n".join(blocks) or "No pending pods.")


def _text(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return table(header, rows, numbers=False)
