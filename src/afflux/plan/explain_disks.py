"""Why the disks of a machine refuse a task: one reason for each machine."""

import numpy as np

from afflux.cluster.machines import BoolColumn
from afflux.cluster.normalised_requests import Taken
from afflux.cluster.state import State
from afflux.model import reason
from afflux.model.task import Shape


def disk_refusals(state: State, shape: Shape, refused: BoolColumn) -> list[tuple[str, BoolColumn]]:
    """The reasons against the machines whose disks refuse the shape, with these machines."""
    request = shape.disks
    if request is None:
        return []
    taken, models = state.disks.taken(request), state.view().disks.model
    found: dict[str, BoolColumn] = {}
    for row in np.flatnonzero(refused).tolist():
        if (machine := state.machine(row)) is None:
            continue
        report = state.disks.report(machine.name)
        if report is not None and report.refused:
            why = report.refused
        elif report is None or not report.disks:
            why = reason.NO_DISK_INFORMATION
        elif _has_no_normaliser(taken, [number for number in models[row].tolist() if number >= 0]):
            why = reason.NO_NORMALISER
        else:
            why = reason.DISK_BANDWIDTH
        found.setdefault(why, np.zeros(len(refused), np.bool_))[row] = True
    return list(found.items())


def _has_no_normaliser(taken: Taken, models: list[int]) -> bool:
    """Whether it is not known of any of the disks what some volume would take."""
    volumes, _ = taken
    return any(all(by_model[number] is None for number in models) for by_model in volumes)
