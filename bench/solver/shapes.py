"""Shared by the shapes: a setting, and tasks that each have a node."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bench.solver.network_columns import Columns, Flags, Ints

PENDING_SHARE = 0.1  # of the tasks, before the cold solve
CHURN_SHARE = 0.01  # of the tasks leave, and as many arrive, each round


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
        """The network as it stands."""
        ...

    @property
    def tasks(self) -> int:
        """How many tasks there are, running or waiting."""
        ...

    @property
    def touched(self) -> int:
        """How many machines the last round priced anew."""
        ...

    def place(self, flow: Ints) -> None:
        """Tasks go where the flow says; those left over wait."""
        ...

    def churn(self, share: float) -> None:
        """This share of the tasks leaves, as many arrive; machines that changed get new prices."""
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
        """Which tasks run."""
        return self.machine >= 0

    @property
    def load(self) -> Ints:
        """How many tasks run on each machine."""
        return np.bincount(self.machine[self.running], minlength=self.touched.size)

    def ranks(self) -> Ints:
        """Of each running task, how many on its machine come before it."""
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
    """Where tasks run: those that stay where they were, those through the cluster in order.

    Units that meet at an aggregator are interchangeable, so any order is as good.
    """
    found = np.where(stays, machine, -1)
    found[via_cluster] = offered
    return found
