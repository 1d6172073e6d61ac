"""What the network proposes and the account refuses is counted, by kind of constraint."""

import numpy as np
import pytest

from afflux.cluster.state import State
from afflux.network.pricing import Pricing
from afflux.plan.book import Book
from afflux.plan.refused_proposals import count_refused
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints
from oracles.builders import machine, shape, task
from oracles.related_tasks import apart, near, related_task, spread


def column(number: int) -> np.ndarray:
    return np.array([number], np.int64)


def book_of(state: State, *tasks) -> Book:
    state.relations.use(task.shape.relations for task in tasks)
    classes = [state.relations.class_of(task) for task in tasks]
    pricing = Pricing(state, constraints(), [Weighted(CpuMemory())])
    return Book(state, classes, [pricing.prices(each.shape) for each in classes])


ZONES = [machine(name, cpu=4, labels={"zone": name}, devices=1) for name in ("a", "b")]


@pytest.mark.parametrize(
    ("kind", "waiting", "running"),
    [
        ("resources", related_task("w", "web", cpu=5), None),
        ("affinity", related_task("w", "web", near("db")), None),
        ("anti-affinity", related_task("w", "web", apart("db")), related_task("r", "db")),
        ("existing-anti-affinity", related_task("w", "db"), related_task("r", "web", apart("db"))),
        ("spread", related_task("w", "web", spread("web")), related_task("r", "web")),
    ],
)
def test_the_kind_of_the_constraint_that_refuses_is_counted(kind, waiting, running):
    state = State(ZONES)
    if running is not None:
        state.place(running, "a")
    book = book_of(state, waiting)
    found = count_refused(book, column(0), column(state.rows["a"]), column(2))
    assert found == {kind: 2}


def test_devices_are_counted():
    state = State(ZONES)
    book = book_of(state, task("w", shape(cpu=1, count=1, milli=600)))
    assert book.packing.place(0, state.rows["a"])
    found = count_refused(book, column(0), column(state.rows["a"]), column(1))
    assert found == {"devices": 1}


def test_units_without_remainder_are_not_counted():
    state = State(ZONES)
    book = book_of(state, related_task("w", "web"))
    assert not count_refused(book, column(0), column(0), column(0))
