"""Taints: hard ones keep a task away, soft ones (PreferNoSchedule) make the machine dearer."""

from afflux.cluster.machines import BoolColumn, Column, Machines
from afflux.model import reason
from afflux.model.taints import untolerated
from afflux.model.task import Shape
from afflux.policies.policy import OMEGA, Policy


class Taints(Policy):
    """One untolerated soft taint costs a tenth of OMEGA, ten or more the whole."""

    reason = reason.UNTOLERATED

    def admits(self, shape: Shape, machines: Machines) -> BoolColumn:
        return (
            machines.by_taints(
                lambda taints: any(
                    t.effect != "PreferNoSchedule" for t in untolerated(taints, shape.tolerations)
                )
            )
            == 0
        )

    def cost(self, shape: Shape, machines: Machines) -> Column:
        return machines.by_taints(
            lambda taints: min(
                OMEGA,
                OMEGA
                // 10
                * sum(
                    t.effect == "PreferNoSchedule" for t in untolerated(taints, shape.tolerations)
                ),
            )
        )
