"""Disk IO: prefer machines by how much of what their disks have left a task would take.

With R what a volume takes of a disk, normalised for its model, and T what the disk has left,

    ratio = mean of R / T over read, write and total         (0 where R is 0)

and for a task with several volumes the mean of their ratios. MostAllocated packs: the disk that the
task fills most is the cheapest, and disks that are nearly empty stay so for large tasks.
LeastAllocated spreads.

Whether a task fits is not asked here: the account answers, and chooses the disks. A shape states
what it does on disks only if its profile has this policy.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from afflux.cluster.machines import Column, Machines
from afflux.model.disks import DiskRequest
from afflux.model.errors import InputError
from afflux.model.task import Shape
from afflux.policies.policy import OMEGA, Policy

PACKING = "MostAllocated"
SPREADING = "LeastAllocated"
_NEVER = np.iinfo(np.int64).max

Ratios = NDArray[np.float64]


@dataclass(frozen=True)
class DiskIo(Policy):
    """`scoring` says whether disks are packed or tasks spread over them; `omega` is the cost of the
    machine that is liked least."""

    scoring: str = PACKING
    omega: int = OMEGA

    def __post_init__(self) -> None:
        if self.scoring not in (PACKING, SPREADING):
            raise InputError(f"scoring: {self.scoring!r}; expected {PACKING} or {SPREADING}")

    def cost(self, shape: Shape, machines: Machines) -> Column:
        if shape.disks is None or not shape.disks.is_stated:
            # A default charge is taken into account, and says nothing about what the task needs.
            return np.zeros(len(machines), np.int64)
        ratio = _ratios(shape.disks, machines)
        disliked = 1 - ratio if self.scoring == PACKING else ratio
        return np.rint(self.omega * disliked).astype(np.int64)

    def slope(self, shape: Shape, machines: Machines) -> Column:
        """The next task finds T - R left, and takes about R / T squared more of it. Where tasks are
        packed it costs less, which a flow network cannot state."""
        if shape.disks is None or not shape.disks.is_stated or self.scoring == PACKING:
            return np.zeros(len(machines), np.int64)
        ratio = _ratios(shape.disks, machines)
        slope = np.rint(self.omega * ratio**2).astype(np.int64)
        return np.maximum(slope, 1) if self.omega and ratio.any() else slope


def _ratios(request: DiskRequest, machines: Machines) -> Ratios:
    """The mean ratio over the volumes; 1 on machines where one of them fits on no disk.

    One volume after the other takes the fullest disk on which it fits, as the account chooses it.
    """
    disks = machines.disks.copied()
    by_volume, _ = disks.taken(request)
    rows = np.arange(len(machines))
    total: Ratios = np.zeros(len(machines))
    fits: NDArray[np.bool_] = np.full(len(machines), disks.model.shape[1] > 0)
    for by_model in by_volume if fits.any() else ():
        # The last entry is that of machines with fewer disks, whose model is NO_DISK.
        is_known = np.array([amounts is not None for amounts in by_model] + [False])
        amounts = np.array([each or (0, 0, 0) for each in by_model] + [(0, 0, 0)], np.int64)
        taken = amounts[disks.model]
        enough = ((taken == 0) | (taken <= disks.left)).all(axis=2) & is_known[disks.model]
        left = np.where(enough, disks.left[:, :, 2], _NEVER)
        chosen = left.argmin(axis=1)
        fits &= enough[rows, chosen]
        asked, there = taken[rows, chosen], disks.left[rows, chosen]
        total += np.where(asked > 0, asked / np.maximum(there, 1), 0.0).mean(axis=1)
        disks.left[rows, chosen] -= asked
    return np.where(fits, np.minimum(total / max(1, len(by_volume)), 1.0), 1.0)
