"""The contract of a policy. Every method is optional: the defaults have no opinion."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from afflux.cluster.machines import BoolColumn, Column, Machines
from afflux.model.task import Shape

# One unit of cost is a thousandth of a machine: policies answer in 0 .. a few times OMEGA.
OMEGA = 1000


class Policy:
    """Answers are columns as long as `machines`, which may be any subset of the cluster.

    `reason` says, in kube-scheduler's words where it has some, why `admits` refused.
    """

    reason: str = "node(s) were refused by a policy"

    def admits(self, shape: Shape, machines: Machines) -> BoolColumn:
        """Where the class may go at all."""
        return np.ones(len(machines), bool)

    def figures(self, shape: Shape, machines: Machines) -> object:
        """Figures of the whole cluster that the answers about a class depend on, if any.

        Everything else must follow from a machine's own row: prices of other rows are kept until
        these figures are no longer equal.
        """
        return None

    def cost(self, shape: Shape, machines: Machines) -> Column:
        """What the first task of the class costs there, an integer >= 0; OMEGA is a lot."""
        return np.zeros(len(machines), np.int64)

    def slope(self, shape: Shape, machines: Machines) -> Column:
        """How much more each further task on the same machine costs, an integer >= 0."""
        return np.zeros(len(machines), np.int64)


@dataclass(frozen=True, slots=True)
class Weighted:
    """A policy and the weight with which its costs count."""

    policy: Policy
    weight: int = 1


# What may refuse a machine to a class, in the order in which it is asked.
PoliciesOf = Callable[[Shape], Sequence[Policy]]


def no_policies(shape: Shape) -> Sequence[Policy]:
    """Nothing refuses any class."""
    del shape
    return ()


def admitted_by(policies: Sequence[Policy], shape: Shape, machines: Machines) -> BoolColumn:
    """Where every one of the policies admits the class."""
    chosen = np.ones(len(machines), bool)
    for policy in policies:
        chosen &= policy.admits(shape, machines)
    return chosen
