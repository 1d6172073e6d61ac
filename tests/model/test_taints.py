"""Taints and tolerations, as Kubernetes defines them."""

import pytest

from afflux.model.taints import Taint, Toleration, untolerated

TAINT = Taint("dedicated", "NoSchedule", "batch")


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration("dedicated", "Equal", "batch", "NoSchedule"), True),
        (Toleration("dedicated", "Equal", "batch"), True),
        (Toleration("dedicated", "Equal", "web"), False),
        (Toleration("dedicated", "Equal", "batch", "NoExecute"), False),
        (Toleration("other", "Equal", "batch"), False),
        (Toleration("dedicated", "Exists"), True),
        (Toleration("dedicated", "Exists", effect="NoSchedule"), True),
        (Toleration("dedicated", "Exists", effect="PreferNoSchedule"), False),
        (Toleration(operator="Exists"), True),
        (Toleration(operator="Exists", effect="NoExecute"), False),
        (Toleration(value="batch"), False),
    ],
)
def test_tolerations_match_as_in_kubernetes(toleration: Toleration, expected: bool):
    assert toleration.tolerates(TAINT) is expected


@pytest.mark.parametrize(
    ("operator", "bound", "value", "expected"),
    [
        ("Gt", "5", "6", True),
        ("Gt", "5", "5", False),
        ("Lt", "5", "4", True),
        ("Lt", "5", "6", False),
        ("Gt", "5", "many", False),
        ("Gt", "", "6", False),
    ],
)
def test_numbers_compare_the_taint_with_the_toleration(operator, bound, value, expected):
    toleration = Toleration("age", operator, bound)
    assert toleration.tolerates(Taint("age", "NoSchedule", value)) is expected


def test_one_of_several_tolerations_is_enough_for_each_taint():
    others = (Taint("a", "NoExecute"), Taint("b", "PreferNoSchedule"))
    tolerations = (Toleration("a", "Exists"), Toleration("dedicated", "Equal", "batch"))
    assert untolerated((TAINT, *others), tolerations) == [others[1]]
    assert untolerated((TAINT, *others), ()) == [TAINT, *others]
    assert untolerated((), ()) == []
