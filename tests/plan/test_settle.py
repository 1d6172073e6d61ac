"""Settling a round: a class that others attract moves to them, and makes room where it was."""

from afflux.cluster.state import State
from afflux.cluster.task_class import TaskClass
from afflux.model.relations import AffinityTerm, Relations
from afflux.network.pricing import Pricing
from afflux.plan.book import Book
from afflux.plan.settle import settle
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints
from oracles.builders import machine, shape
from oracles.related_tasks import related_task, selects


def test_a_gang_that_did_not_fit_is_tried_again_when_others_have_moved():
    state = State(
        [machine(name, cpu=cpu, labels={"host": name}) for name, cpu in (("m0", 2), ("m1", 4))]
    )
    near_db = Relations(preferred=((100, AffinityTerm(selects("db"), "host")),))
    web, db = related_task("web", "web", near_db), related_task("db", "db")
    state.relations.use([near_db])
    member = TaskClass(shape(cpu=2))
    classes = [*map(state.relations.class_of, (web, db)), member]
    pricing = Pricing(state, constraints(), [Weighted(CpuMemory())])
    book = Book(state, classes, [pricing.prices(each.shape) for each in classes])
    book.use_soft_terms(state)
    assert book.packing.place(0, 0, 1) == book.packing.place(1, 1, 1) == 1
    assert not book.place_gang({2: 2})
    settle(book)
    assert [(of, row) for of, row, _, _ in book.packing.units()] == [(0, 1), (1, 1)]
    assert book.place_gang({2: 2})
