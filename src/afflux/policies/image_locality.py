"""Image locality: a machine that has a task's images is a little cheaper than one that has not.

The score is kube-scheduler's. An image on a machine counts with its size times the share of all
machines that have it, so that a rare image does not draw everything to the few machines with it.
The sum over a task's containers is worth nothing up to 23 MiB and everything from 1,000 MiB per
container. Unlike there, an image of less than 23 MiB counts for nothing, not even in a sum.
"""

import numpy as np

from afflux.cluster.machines import Column, Machines
from afflux.model.images import LARGEST_BYTES, SMALLEST_BYTES
from afflux.model.task import Shape
from afflux.policies.policy import OMEGA, Policy

# What it costs to have none of the images: a twentieth of a machine.
MOST = OMEGA // 20
_HIGHEST_SCORE = 100


class ImageLocality(Policy):
    """Costs at most a twentieth of OMEGA, and less than missing any preferred node affinity."""

    def figures(self, shape: Shape, machines: Machines) -> object:
        if shape.images is None:
            return None
        return tuple(machines.image_share(name) for name in shape.images.names)

    def cost(self, shape: Shape, machines: Machines) -> Column:
        if shape.images is None:
            return np.zeros(len(machines), np.int64)
        there = np.zeros(len(machines), np.int64)
        for name in shape.images.names:
            share = machines.image_share(name)
            there += machines.image_bytes(name) * share.numerator // share.denominator
        most_bytes = LARGEST_BYTES * shape.images.sources
        counted = np.clip(there, SMALLEST_BYTES, most_bytes) - SMALLEST_BYTES
        score = _HIGHEST_SCORE * counted // (most_bytes - SMALLEST_BYTES)
        return _most(shape) * (_HIGHEST_SCORE - score) // _HIGHEST_SCORE


def _most(shape: Shape) -> int:
    weights = [weight for weight, _ in shape.affinity.preferred]
    if not weights:
        return MOST
    return min(MOST, max(0, OMEGA * min(weights) // sum(weights) - 1))
