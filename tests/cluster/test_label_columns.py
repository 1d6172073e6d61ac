"""Columns of labels: only for keys that machines have, few at a time, and always right."""

import tracemalloc
from random import Random

import numpy as np
import pytest

from afflux.cluster.label_columns import NAME, LabelColumns
from afflux.model.selectors import NodeAffinity, Requirement, Term
from oracles.builders import machine

ALL = slice(None)


def labelled(name: str, **labels: str):
    return machine(name, labels=labels)


def test_a_key_that_no_machine_has_takes_no_column():
    columns = LabelColumns()
    columns.set(0, labelled("a", zone="x"))
    term = Term(tuple(Requirement(f"k{number}", "DoesNotExist") for number in range(1_000)))
    assert columns.matches(term, ALL, 1).tolist() == [True]
    term = Term((Requirement("k", "Exists"),))
    assert columns.matches(term, ALL, 1).tolist() == [False]
    assert columns.keys == []


def test_the_column_of_a_key_goes_with_the_last_machine_that_has_it():
    columns = LabelColumns()
    columns.set(0, labelled("a", zone="x"))
    columns.set(1, labelled("b"))
    zone = Term((Requirement("zone", "Exists"),))
    assert columns.matches(zone, ALL, 2).tolist() == [True, False]
    assert columns.keys == ["zone"]
    columns.set(0, labelled("a"))
    assert columns.keys == []
    assert columns.matches(zone, ALL, 2).tolist() == [False, False]
    columns.set(1, labelled("b", zone="y"))
    assert columns.matches(zone, ALL, 2).tolist() == [False, True]


def test_the_columns_used_longest_ago_are_dropped_when_there_are_too_many():
    columns = LabelColumns(max_codes=1, min_columns=2)
    columns.set(0, labelled("a", x="1", y="2", z="3"))
    for key in ("x", "y", "x", "z"):
        columns.matches(Term((Requirement(key, "Exists"),)), ALL, 1)
    assert columns.keys == ["x", "z"]


def test_values_that_no_machine_has_any_more_are_forgotten():
    columns = LabelColumns()
    for number in range(20_000):
        columns.set(0, labelled(f"m{number}"))
        if number % 100 == 0:
            named = Term(names=(Requirement(NAME, "In", (f"m{number}",)),))
            assert columns.matches(named, ALL, 1).tolist() == [True]
    assert len(columns._columns[NAME].values) < 2_000


def test_an_affinity_with_many_expressions_takes_the_memory_of_one():
    columns = LabelColumns()
    for row in range(2_000):
        columns.set(row, labelled(f"m{row}", zone="x"))
    wanted = tuple(Requirement("zone", "NotIn", (f"v{number}",)) for number in range(500))
    affinity = NodeAffinity(required=(Term(wanted),))
    columns.admitted(affinity, ALL, 2_000)
    tracemalloc.start()
    try:
        columns.admitted(affinity, ALL, 2_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # One answer for 2,000 machines takes 2,000 bytes, 500 of them a million.
    assert peak < 100_000


KEYS = ("x", "y", "z", "unknown")


def random_requirement(rng: Random) -> Requirement:
    operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    values = tuple(sorted({str(rng.randrange(4)) for _ in range(rng.randint(1, 2))}))
    if operator in {"Exists", "DoesNotExist"}:
        values = ()
    return Requirement(rng.choice(KEYS), operator, values[:1] if operator in "GtLt" else values)


def random_term(rng: Random) -> Term:
    labels = tuple(random_requirement(rng) for _ in range(rng.randint(0, 3)))
    names = (Requirement("metadata.name", "In", (f"m{rng.randrange(6)}",)),)
    return Term(labels, names if rng.random() < 0.2 else ())


@pytest.mark.parametrize("seed", range(20))
def test_columns_agree_with_the_labels_of_each_machine(seed: int):
    rng = Random(f"labels {seed}")
    columns = LabelColumns(max_codes=1, min_columns=rng.choice((1, 2, 64)))
    machines = [None] * 80
    count = 0
    for _ in range(200):
        row = rng.randrange(min(count + 1, 80))
        count = max(count, row + 1)
        keys = rng.sample(KEYS[:3], rng.randint(0, 3))
        labels = {key: str(rng.randrange(4)) for key in keys}
        machines[row] = labelled(f"m{row}", **labels) if rng.random() < 0.9 else None
        columns.set(row, machines[row])
        affinity = NodeAffinity(
            selector=tuple((key, "1") for key in rng.sample(KEYS, rng.randint(0, 1))),
            required=tuple(random_term(rng) for _ in range(rng.randint(0, 3))) or None,
        )
        rows = rng.choice((ALL, np.flatnonzero([rng.random() < 0.5 for _ in range(count)])))
        asked = range(count) if rows is ALL else rows
        found = columns.admitted(affinity, rows, len(asked))
        for each, admits in zip(asked, found, strict=True):
            if (there := machines[each]) is not None:
                assert admits == affinity.matches(there.name, there.labels)
