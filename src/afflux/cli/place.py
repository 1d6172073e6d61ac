"""afflux place: what the scheduler would do with the objects of a cluster, as a dry run."""

import time

from afflux import app
from afflux.cli.arguments import PlaceOptions
from afflux.cli.chosen_settings import chosen_settings
from afflux.cli.exit_codes import ExitCode
from afflux.cli.file_arguments import read_source
from afflux.cli.place_output import Answer, WaitingPod, print_answer
from afflux.cli.safe_output import print_error
from afflux.cluster.state import State
from afflux.control.dry_run import DryRun, WaitingTask
from afflux.cycle.inspection_types import to_datetime
from afflux.cycle.loop import Cycle
from afflux.kube.cluster_relations import ClusterRelations
from afflux.kube.default_constraints import DefaultConstraints
from afflux.kube.file_adapter import FileAdapter
from afflux.model.errors import InputError

# The expected start of a pod with a reservation without a start time.
UNKNOWN = "unknown"


def run(options: PlaceOptions) -> ExitCode:
    """Reads the objects, runs the scheduler on them, prints the result."""
    settings = chosen_settings(options)
    if options.files.count("-") > 1:
        raise InputError("FILE: '-' is given twice; standard input can be read only once")
    state = State()
    preempts = settings.preempts is not False
    # Refuses wrong settings.
    cycle = Cycle(state, app.make_scheduler(settings, state, preempts=preempts))
    relations = ClusterRelations(
        DefaultConstraints(settings.default_constraints()),
        settings.pod_affinity.hard_pod_affinity_weight,
    )
    adapter = FileAdapter(
        [read_source(path) for path in options.files],
        {each.name: each for each in settings.queue_rules()},
        settings.scheduler_names,
        relations,
        app.quorum_rules(settings),
        evicts=preempts,
        disks=app.file_disks(settings),
    )
    dry_run = DryRun(adapter, cycle, time.time())
    _print_notes(adapter)
    node_verdicts = dry_run.verdicts() if options.explain else None
    result = dry_run.run()
    waiting = [_waiting_pod(each) for each in result.waiting]
    answer = Answer(result.placements, waiting, result.evictions, result.nominations)
    print_answer(options.output, answer, node_verdicts)
    return ExitCode.DONE


def _print_notes(adapter: FileAdapter) -> None:
    for note in adapter.notes():
        print_error(f"afflux place: note: {note}")
    if adapter.ignored:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(adapter.ignored.items()))
        print_error(f"afflux place: note: ignored objects that do not matter here: {kinds}")


def _waiting_pod(waiting: WaitingTask) -> WaitingPod:
    start = None if waiting.reservation is None else _start_text(waiting.reservation.start_seconds)
    return WaitingPod(waiting.task, waiting.reason, start)


def _start_text(start_seconds: float | None) -> str:
    return UNKNOWN if start_seconds is None else f"{to_datetime(start_seconds):%Y-%m-%dT%H:%M:%SZ}"
