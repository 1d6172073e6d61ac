"""Image locality: a machine that has a task's images is slightly cheaper than one without them.

The score is kube-scheduler's. An image on a machine counts with its size times the share of all
machines that have it, so that tasks do not crowd on the few machines with a rare image. The sum
over a task's containers scores 0 up to 23 MiB and the maximum from 1,000 MiB per container. Unlike
in kube-scheduler, an image of less than 23 MiB does not count, not even in a sum.
"""

import numpy as np

from afflux.cluster.machines import Column, Machines
from afflux.model.images import MAX_SCORED_BYTES, MIN_SCORED_BYTES
from afflux.model.task import Shape
from afflux.policies.policy import OMEGA, Policy
from afflux.policies.preference_cost import full_cost

# The cost of a machine with none of the images.
MAX_IMAGE_COST = OMEGA // 20
_MAX_SCORE = 100


class ImageLocality(Policy):
    """Costs at most a twentieth of OMEGA, and less than missing any preferred node affinity."""

    def cache_key(self, shape: Shape, machines: Machines) -> object:
        if shape.images is None:
            return None
        return tuple(machines.image_share(name) for name in shape.images.names)

    def cost(self, shape: Shape, machines: Machines) -> Column:
        if shape.images is None:
            return np.zeros(len(machines), np.int64)
        present = np.zeros(len(machines), np.int64)
        for name in shape.images.names:
            share = machines.image_share(name)
            present += machines.image_bytes(name) * share.numerator // share.denominator
        max_bytes = MAX_SCORED_BYTES * shape.images.image_count
        counted = np.clip(present, MIN_SCORED_BYTES, max_bytes) - MIN_SCORED_BYTES
        score = _MAX_SCORE * counted // (max_bytes - MIN_SCORED_BYTES)
        return _max_cost(shape) * (_MAX_SCORE - score) // _MAX_SCORE


def _max_cost(shape: Shape) -> int:
    weights = [weight for weight, _ in shape.affinity.preferred]
    if not weights:
        return MAX_IMAGE_COST
    cheapest_term = full_cost(sum(weights)) * min(weights) // sum(weights)
    return min(MAX_IMAGE_COST, max(0, cheapest_term - 1))
