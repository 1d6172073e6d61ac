"""The checker's reading of disk bandwidth: by names, one task after the other.

What a disk has left is what its machine reported, less what the tasks take that the report does not
acknowledge, and more by what the acknowledged tasks took that have ended. Nothing of this uses the
columns or the account.
"""

from afflux.cluster.state import State
from afflux.model import reason
from afflux.model.disks import Bandwidth, DiskReport, DiskRequest, VolumeIO, as_stated
from afflux.model.placement import Placement

# By id of a disk: read, write and total.
_Left = dict[str, list[int]]


class DiskCheck:
    """What the disks of each machine have left while the placements of a plan are added up."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._left: dict[str, _Left] = {}

    def refusal(self, placement: Placement) -> str | None:
        """Why the disks of its machine refuse a placement, None if they take it."""
        shape, machine = placement.task.shape, placement.machine
        if shape.disks is None:
            return None
        report = self._state.disks.report(machine)
        chosen = placement.devices[shape.devices.count if shape.devices else 0 :]
        if report is None or report.refused or not report.disks:
            return _refusal_without_disks(shape.disks, report, chosen)
        if len(chosen) != len(shape.disks.volumes):
            return f"{len(shape.disks.volumes)} volumes have the disks {list(chosen)}"
        if machine not in self._left:
            self._left[machine] = self._left_on(machine, report)
        pairs = zip(shape.disks.volumes, chosen, strict=True)
        found = (self._refusal_of(report, shape.disks, volume, index) for volume, index in pairs)
        return next((why for why in found if why is not None), None)

    def _refusal_of(
        self, report: DiskReport, request: DiskRequest, volume: VolumeIO, index: int
    ) -> str | None:
        """Take what a volume takes of a disk; why it does not fit there."""
        if not 0 <= index < len(report.disks):
            return f"there is no disk {index}"
        disk = report.disks[index]
        if request.is_stated and self._normalised(disk.model, volume) is None:
            return reason.NO_NORMALISER
        left, taken = self._left[report.machine][disk.id], self._taken(disk.model, volume)
        _add(left, taken, -1)
        asked = (taken.read, taken.write, taken.total)
        is_over = any(amount and over < 0 for amount, over in zip(asked, left, strict=True))
        return reason.DISK_BANDWIDTH if is_over else None

    def _left_on(self, machine: str, report: DiskReport) -> _Left:
        table = self._state.disks
        models = {disk.id: disk.model for disk in report.disks}
        left = {d.id: [d.left.read, d.left.write, d.left.total] for d in report.disks}
        held = [
            (placed.task.shape.disks, table.disks_of(placed.task.id), -1)
            for placed in self._state.placed_on(self._state.rows[machine])
            if placed.task.id not in report.acknowledged
        ]
        ended = [(request, disks, 1) for request, disks in table.ended_on(machine).values()]
        for request, disks, times in held + ended:
            if request is None:
                continue
            # A task that ended where no disks were known had none.
            for volume, disk in zip(request.volumes, disks, strict=False):
                if disk in left:
                    _add(left[disk], self._taken(models[disk], volume), times)
        return left

    def _normalised(self, model: str, volume: VolumeIO) -> Bandwidth | None:
        if not model:
            return as_stated(model, volume)
        return self._state.disks.normalise(model, volume)

    def _taken(self, model: str, volume: VolumeIO) -> Bandwidth:
        """What a volume takes; where that cannot be known, what it states."""
        stated = Bandwidth(volume.read, volume.write, volume.read + volume.write)
        return self._normalised(model, volume) or stated


def _refusal_without_disks(
    request: DiskRequest, report: DiskReport | None, chosen: tuple[int, ...]
) -> str | None:
    if chosen:
        return f"there are no disks {list(chosen)}"
    if not request.is_stated:
        return None
    return report.refused if report and report.refused else reason.NO_DISK_INFORMATION


def _add(left: list[int], taken: Bandwidth, times: int) -> None:
    for kind, amount in enumerate((taken.read, taken.write, taken.total)):
        left[kind] += times * amount
