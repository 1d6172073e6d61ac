"""Cordoned machines take no new tasks."""

from afflux.cluster.machines import BoolColumn, Machines
from afflux.model import reason
from afflux.model.taints import UNSCHEDULABLE_KEY, Taint
from afflux.model.task import Shape
from afflux.policies.policy import Policy

_CORDON = Taint(UNSCHEDULABLE_KEY, "NoSchedule")


class Cordon(Policy):
    """Admits schedulable machines, and cordoned ones for tasks that tolerate the cordon taint."""

    reason = reason.UNSCHEDULABLE

    def admits(self, shape: Shape, machines: Machines) -> BoolColumn:
        if any(toleration.tolerates(_CORDON) for toleration in shape.tolerations):
            return machines.present
        return machines.schedulable
