"""Node selectors, requirement by requirement, as Kubernetes defines them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afflux.model.selectors import ANYWHERE, NodeAffinity, Requirement, Term, compares


@pytest.mark.parametrize(
    ("requirement", "value", "expected"),
    [
        (Requirement("k", "In", ("a", "b")), "a", True),
        (Requirement("k", "In", ("a", "b")), "c", False),
        (Requirement("k", "In", ("a",)), None, False),
        (Requirement("k", "In", ("",)), "", True),
        (Requirement("k", "NotIn", ("a",)), "b", True),
        (Requirement("k", "NotIn", ("a",)), "a", False),
        (Requirement("k", "NotIn", ("a",)), None, True),
        (Requirement("k", "Exists"), "", True),
        (Requirement("k", "Exists"), None, False),
        (Requirement("k", "DoesNotExist"), None, True),
        (Requirement("k", "DoesNotExist"), "", False),
        (Requirement("k", "Gt", ("5",)), "6", True),
        (Requirement("k", "Gt", ("5",)), "5", False),
        (Requirement("k", "Gt", ("5",)), None, False),
        (Requirement("k", "Gt", ("-7",)), "-6", True),
        (Requirement("k", "Lt", ("5",)), "4", True),
        (Requirement("k", "Lt", ("5",)), "5", False),
        (Requirement("k", "Lt", ("10",)), "9", True),
        (Requirement("k", "Gt", ("5",)), "six", False),
        (Requirement("k", "Lt", ("five",)), "4", False),
        (Requirement("k", "Gt", ("5",)), "6.5", False),
        (Requirement("k", "Gt", ("5",)), " 6", False),
        (Requirement("k", "Gt", ("5",)), "٦", False),
        (Requirement("k", "Gt", ("5",)), "1_0", False),
        (Requirement("k", "Gt", ("5",)), "", False),
    ],
)
def test_requirements_match_as_in_kubernetes(
    requirement: Requirement, value: str | None, expected: bool
):
    assert requirement.accepts(value) is expected


def test_integers_have_64_bits():
    largest, too_large = str(2**63 - 1), str(2**63)
    assert compares(largest, "Gt", "0")
    assert not compares(too_large, "Gt", "0")
    assert not compares("0", "Lt", too_large)
    assert compares(str(-(2**63)), "Lt", "0")
    assert not compares(str(-(2**63) - 1), "Lt", "0")
    assert compares("0" * 40 + "7", "Gt", "6")


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_any_two_integers(left: int, right: int):
    assert compares(str(left), "Gt", str(right)) == (left > right)
    assert compares(f"{left:+d}", "Lt", str(right)) == (left < right)


def test_a_term_wants_all_and_an_empty_one_matches_nothing():
    term = Term(
        (Requirement("a", "Exists"), Requirement("b", "In", ("1",))),
        (Requirement("metadata.name", "NotIn", ("m",)),),
    )
    assert term.matches("n", {"a": "", "b": "1"})
    assert not term.matches("m", {"a": "", "b": "1"})
    assert not term.matches("n", {"b": "1"})
    assert not Term().matches("n", {"a": ""})


def test_an_affinity_wants_its_selector_and_any_of_its_terms():
    term = Term((Requirement("disk", "Exists"),))
    affinity = NodeAffinity((("zone", "a"),), (Term(), term))
    assert affinity.matches("m", {"zone": "a", "disk": ""})
    assert not affinity.matches("m", {"zone": "b", "disk": ""})
    assert not affinity.matches("m", {"zone": "a"})
    assert not affinity.matches("m", {"disk": ""})


def test_no_terms_are_nowhere_and_no_affinity_is_anywhere():
    assert ANYWHERE.matches("m", {})
    assert not NodeAffinity(required=()).matches("m", {})
    assert NodeAffinity(preferred=((1, Term()),)).matches("m", {})
