"""A network read back as columns."""

import numpy as np
import pytest
from mirrored_network import Twin, ids, ints, twin, units

from afflux._core import Columns, Network


def table(columns: Columns) -> tuple[dict[int, int], list[tuple[int, ...]]]:
    """Supplies by node, and the rows of arcs with their ids."""
    of_arcs = (
        columns.arcs,
        columns.tail,
        columns.head,
        columns.lower,
        columns.capacity,
        columns.cost,
    )
    rows = zip(*(column.tolist() for column in of_arcs), strict=True)
    supply = dict(zip(columns.nodes.tolist(), columns.supply.tolist(), strict=True))
    return supply, list(rows)


def check(of: Twin) -> None:
    columns = of.network.columns()
    arcs = [(arc, *row) for arc, row in sorted(of.arcs.items())]
    convex = [(arc, *unit) for arc, row in sorted(of.convex.items()) for unit in units(row)]
    assert table(columns) == (of.supply, arcs + convex)
    assert columns.flow[: len(arcs)].tolist() == of.network.flow(columns.arcs[: len(arcs)]).tolist()
    for arc in of.convex:
        flow = columns.flow[columns.arcs == arc]
        assert flow.sum() == of.network.flow(ids(arc))[0]
        assert (np.diff(flow) <= 0).all()
    assert (np.diff(columns.nodes) > 0).all()
    assert (np.diff(columns.arcs) >= 0).all()


@pytest.mark.parametrize("seed", range(20))
def test_columns_follow_every_change(seed: int) -> None:
    of = twin(seed)
    check(of)
    for _ in range(15):
        of.churn()
        check(of)
        of.proven_cost()
        check(of)


def test_an_empty_network_has_empty_columns() -> None:
    columns = Network().columns()
    assert table(columns) == ({}, [])
    assert columns.tail.dtype == columns.nodes.dtype == np.int32
    assert columns.supply.dtype == columns.cost.dtype == np.int64
    assert repr(columns) == "Columns(0 nodes, 0 arcs)"


def test_columns_are_a_copy() -> None:
    network = Network()
    network.add_nodes(ints(1, -1))
    arcs = network.add_arcs(ids(0), ids(1), ints(0), ints(2**40), ints(7))
    columns = network.columns()
    columns.cost[:] = 0
    network.set_cost(arcs, ints(8))
    assert columns.cost.tolist() == [7]
    assert columns.capacity.tolist() == [2**40]
    assert network.columns().cost.tolist() == [8]
