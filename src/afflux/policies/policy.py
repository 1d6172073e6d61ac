"""The contract of a policy. Every method is optional: the defaults have no opinion."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from afflux.cluster.machines import BoolColumn, Column, Machines
from afflux.model.task import Shape

# The unit of cost is a thousandth of a machine: costs are between 0 and a few times OMEGA.
OMEGA = 1000


class Policy:
    """Answers are columns as long as `machines`, which may be any subset of the cluster.

    `reason` says why `admits` refused a machine, in kube-scheduler's words if there are any.
    """

    reason: str = "node(s) were refused by a policy"

    def admits(self, shape: Shape, machines: Machines) -> BoolColumn:
        """The machines on which the class may run."""
        return np.ones(len(machines), bool)

    def cache_key(self, shape: Shape, machines: Machines) -> object:
        """Values of the whole cluster that the answers about a class depend on, if any.

        Otherwise an answer may depend only on the machine's own row. Answers about unchanged rows
        are cached as long as the keys are equal.
        """
        return None

    def cost(self, shape: Shape, machines: Machines) -> Column:
        """The cost of the first task of the class on each machine, an integer >= 0."""
        return np.zeros(len(machines), np.int64)

    def slope(self, shape: Shape, machines: Machines) -> Column:
        """By how much each further task on the same machine costs more, an integer >= 0."""
        return np.zeros(len(machines), np.int64)


@dataclass(frozen=True, slots=True)
class Weighted:
    """A policy and the weight with which its costs count."""

    policy: Policy
    weight: int = 1


# The policies that may refuse a machine to a class, in the order in which they are asked.
PoliciesOf = Callable[[Shape], Sequence[Policy]]


def no_policies(shape: Shape) -> Sequence[Policy]:
    """No policies."""
    del shape
    return ()


def admitted_by(policies: Sequence[Policy], shape: Shape, machines: Machines) -> BoolColumn:
    """The machines on which all of the policies admit the class."""
    chosen = np.ones(len(machines), bool)
    for policy in policies:
        chosen &= policy.admits(shape, machines)
    return chosen
