"""DIMACS files are read, and errors in them are reported with their line."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_networks import KINDS, Network, drawn, network

from afflux.model.errors import InputError
from afflux.network.dimacs import read_dimacs

PLAIN = """\
c Two units over three nodes.
p min 3 3
n 1 2
n 3 -2

a 1 2 0 1 1
a 2 3 0 1 -1
a 1 3 1 5 7
"""


def written(of: Network) -> str:
    lines = [f"p min {len(of.supply)} {len(of.tail)}"]
    lines += [f"n {node + 1} {units}" for node, units in enumerate(of.supply) if units]
    arcs = (of.tail + 1, of.head + 1, of.lower, of.capacity, of.cost)
    lines += ["a {} {} {} {} {}".format(*arc) for arc in zip(*arcs, strict=True)]
    return "\n".join(lines)


def assert_reads(text: str, of: Network) -> None:
    problem = read_dimacs(text, "file")
    for field, expected in of._asdict().items():
        column = getattr(problem, field)
        assert column.dtype == expected.dtype
        assert column.flags.c_contiguous
        np.testing.assert_array_equal(column, expected)


def test_nodes_count_from_zero() -> None:
    arcs = ((0, 1, 0, 1, 1), (1, 2, 0, 1, -1), (0, 2, 1, 5, 7))
    assert_reads(PLAIN, network([2, 0, -2], *arcs))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_written_problem_is_read_back(kind) -> None:
    for of in drawn(kind, 10):
        assert_reads(written(of), of)


@pytest.mark.parametrize(
    "text",
    [
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace(" ", "\t  "),
        "\n" + PLAIN + "\n\n",
        PLAIN + "c\nc-----\n  c indented \x0c page\n",
        PLAIN.replace("n 1 2", "n 1 +2").replace("0 1 1", "00 01 1"),
        PLAIN.rstrip(),
    ],
    ids=["windows", "spaces", "empty lines", "comments", "signs and zeros", "no last newline"],
)
def test_equivalent_texts_are_the_same_problem(text: str) -> None:
    assert_reads(text, network([2, 0, -2], (0, 1, 0, 1, 1), (1, 2, 0, 1, -1), (0, 2, 1, 5, 7)))


def test_a_problem_may_have_no_arcs_and_no_nodes() -> None:
    assert_reads("p min 0 0", network([]))


def test_the_smallest_and_largest_64_bit_numbers_are_read() -> None:
    most, least = 2**63 - 1, -(2**63)
    text = f"p min 2 2\na 1 2 0 {most} {most}\na 1 2 0 1 {least}"
    assert_reads(text, network([0, 0], (0, 1, 0, most, most), (0, 1, 0, 1, least)))


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("p min 3 3\n", "", "line 2: a node before the line p min NODES ARCS; expected after it"),
        (PLAIN, "a 1 2 0 1 1", "line 1: an arc before the line p min NODES ARCS; expected after"),
        (PLAIN, "c nothing", "no line p min NODES ARCS; expected one"),
        (PLAIN, " \n ", "empty; expected a problem in DIMACS format"),
        ("n 1 2", "p min 3 3", "line 3: a second problem line; expected one"),
        ("min 3 3", "max 3 3", "line 2: the problem is 'max 3 3'; expected min NODES ARCS"),
        ("min 3 3", "min 3", "line 2: the problem is 'min 3'; expected min NODES ARCS"),
        ("min 3 3", "min x 3", "line 2: number of nodes is 'x'; expected an integer"),
        ("min 3 3", "min -1 3", "line 2: number of nodes is -1; expected 0 to 50000000"),
        ("min 3 3", "min 3 -3", "line 2: number of arcs is -3; expected 0 or more"),
        ("min 3 3", "min 3 4", "3 arcs; expected 4, as the problem line says"),
        ("min 3 3", "min 3 2", "3 arcs; expected 2, as the problem line says"),
        ("n 1 2", "n 4 2", "line 3: node is 4; expected 1 to 3"),
        ("n 1 2", "n 0 2", "line 3: node is 0; expected 1 to 3"),
        ("n 3 -2", "n 1 -2", "line 4: node 1 has a line already; expected one per node"),
        ("n 1 2", "n 1", "line 3: 1 values; expected n NODE SUPPLY"),
        ("n 1 2", "n 1 2.0", "line 3: supply is '2.0'; expected an integer"),
        ("n 1 2", "n 1 3", "3 units are supplied and 2 demanded; expected as many"),
        ("a 1 2 0", "a 1 4 0", "line 6: head is 4; expected 1 to 3"),
        ("a 1 2 0", "a 0 2 0", "line 6: tail is 0; expected 1 to 3"),
        ("a 1 3 1 5 7", "a 1 3 1 -5 7", "line 8: capacity is -5; expected 0 or more"),
        ("a 1 3 1 5 7", "a 1 3 -1 5 7", "line 8: lower bound is -1; expected 0 or more"),
        (
            "a 1 3 1 5",
            "a 1 3 6 5",
            "line 8: lower bound is 6; expected no more than the capacity 5",
        ),
        ("a 1 3 1 5 7", "a 1 3 5 7", "line 8: 4 values; expected a TAIL HEAD LOWER CAPACITY COST"),
        ("a 1 3 1 5 7", "a 1 3 1 5 7 9", "line 8: 6 values; expected a TAIL HEAD LOWER CAPACITY"),
        ("a 1 3 1 5 7", "a 1 3 1 5 nan", "line 8: cost is 'nan'; expected an integer"),
        ("a 1 3 1 5 7", "a 1 3 1 5 1_0", "line 8: cost is '1_0'; expected an integer"),
        ("a 1 3 1 5 7", "a 1 3 1 5 ٧", "line 8: cost is '٧'; expected an integer"),
        (" 5 7", f" {2**63} 7", f"line 8: capacity is {2**63}; expected an integer of 64 bits"),
        (" 5 7", f" 5 {'9' * 9999}", f"line 8: cost is {'9' * 40}; expected an integer of 64"),
        ("a 1 3 1 5 7", "x 1 3 1 5 7", "line 8: the line begins with 'x'; expected c, p, n or a"),
        ("a 1 3 1 5 7", "arc 3 1 5 7", "line 8: the line begins with 'arc'; expected c, p, n or"),
        ("c Two", "cost Two", "line 1: the line begins with 'cost'; expected c, p, n or a"),
    ],
)
def test_an_error_names_line_and_value(old: str, new: str, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        read_dimacs(PLAIN.replace(old, new), "my.min")
    assert str(error.value).startswith(f"my.min: {sentence}")
    assert "\n" not in str(error.value)


@given(st.text(alphabet="cpna min0123456789-x.\n", max_size=60))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    try:
        supply = read_dimacs(text, "file").supply
    except InputError as error:
        complaint = str(error)
    else:
        complaint = "file: " if supply.sum() == 0 else "unbalanced"
    assert complaint.startswith("file: ")
