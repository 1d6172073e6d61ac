"""Merged requirements, against the requirements one by one."""

from collections import UserDict
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from afflux.model.label_matcher import LabelMatcher
from afflux.model.selectors import Requirement

KEYS, VALUES = ("app", "tier"), ("1", "2", "x")


@st.composite
def requirements(draw: st.DrawFn) -> Requirement:
    operator = draw(st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")))
    most = {"In": 3, "NotIn": 3, "Gt": 1, "Lt": 1}.get(operator, 0)
    least = min(most, 1)
    values = draw(st.lists(st.sampled_from(VALUES), min_size=least, max_size=most, unique=True))
    return Requirement(draw(st.sampled_from(KEYS)), operator, tuple(values))


@given(st.lists(requirements(), max_size=4))
def test_a_matcher_accepts_what_every_requirement_accepts(stated: list[Requirement]):
    matcher = LabelMatcher(stated)
    for app, tier, other in product((None, *VALUES), (None, *VALUES), (None, "x")):
        found = {"app": app, "tier": tier, "other": other}
        labels = {key: value for key, value in found.items() if value is not None}
        assert matcher.accepts(labels) == all(each.accepts(labels.get(each.key)) for each in stated)


class CountedLookups(UserDict[str, str]):
    lookups = 0

    def get(self, key: str, default: str | None = None) -> str | None:
        self.lookups += 1
        return self.data.get(key, default)


def test_a_comparison_takes_no_more_lookups_than_there_are_labels():
    absent = [Requirement(f"k{number}", "DoesNotExist") for number in range(500)]
    other = [Requirement("app", "NotIn", (f"a{number}",)) for number in range(500)]
    needed = [Requirement("app", "Exists")]
    labels = CountedLookups({"app": "web", "tier": "1"})
    assert LabelMatcher([*absent, *other]).accepts(labels)
    assert labels.lookups <= 2
    assert LabelMatcher([*absent, *other, *needed]).accepts(labels)
    assert labels.lookups <= 5
