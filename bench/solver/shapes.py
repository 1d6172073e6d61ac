"""Shared by the shapes: a setting, and tasks that each have a node."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bench.solver.network_columns import Columns, Flags, Ints

PENDING_SHARE = 0.1  # share of the tasks that waits before the cold solve
CHURN_SHARE = 0.01  # share of the tasks that leaves, and arrives, in each round


@dataclass(frozen=True)
class Setting:
    """One cluster: the same for both forms, running tasks pinned or free to move."""

    machines: int
    load: float
    pinned: bool
    seed: int


class Shape(Protocol):
    """A cluster's state and the network made of it."""

    @property
    def columns(self) -> Columns:
        """The current network."""
        ...

    @property
    def tasks(self) -> int:
        """The number of running and waiting tasks."""
        ...

    @property
    def touched(self) -> int:
        """The number of machines that got new prices in the last round."""
        ...

    def place(self, flow: Ints) -> None:
        """Move tasks as in the flow; the others wait."""
        ...

    def churn(self, share: float) -> None:
        """This share of tasks leaves, as many arrive; changed machines get new prices."""
        ...


class Tasks:
    """The machine of each task, -1 if it waits.

    An arriving task takes the row of one that left. `touched` are the machines that gained or lost
    a task since they were priced.
    """

    def __init__(self, setting: Setting, slots: int, rng: np.random.Generator) -> None:
        self.count = round(setting.load * setting.machines * slots)
        self.machine = np.full(self.count, -1, np.int64)
        running = round((1 - PENDING_SHARE) * self.count)
        taken = rng.permutation(setting.machines * slots)[:running]
        self.machine[rng.permutation(self.count)[:running]] = taken // slots
        self.touched = np.zeros(setting.machines, np.bool_)

    @property
    def running(self) -> Flags:
        """A mask of the running tasks."""
        return self.machine >= 0

    @property
    def load(self) -> Ints:
        """The number of running tasks by machine."""
        return np.bincount(self.machine[self.running], minlength=self.touched.size)

    def ranks(self) -> Ints:
        """For each running task, the number of earlier tasks on its machine."""
        order = np.argsort(self.machine, kind="stable")
        sorted_machine = self.machine[order]
        first = np.searchsorted(sorted_machine, sorted_machine)
        ranks = np.empty(self.count, np.int64)
        ranks[order] = np.arange(self.count) - first
        return ranks

    def move(self, machine: Ints) -> None:
        """Move the tasks to these machines."""
        changed = self.machine != machine
        for ends in (self.machine[changed], machine[changed]):
            self.touched[ends[ends >= 0]] = True
        self.machine = machine

    def replace(self, share: float, rng: np.random.Generator) -> Ints:
        """A share of the tasks leaves, others arrive and wait; returns their rows."""
        rows = rng.choice(self.count, round(share * self.count), replace=False)
        machine = self.machine.copy()
        machine[rows] = -1
        self.move(machine)
        return rows


def hand_out(via_cluster: Flags, stays: Flags, machine: Ints, offered: Ints) -> Ints:
    """The machines of tasks: running ones stay, those through the cluster are taken in order.

    Units that meet at an aggregator are interchangeable, so any order is as good.
    """
    found = np.where(stays, machine, -1)
    found[via_cluster] = offered
    return found
