"""docs/inspection.md lists exactly the fields of the written form."""

import re
from pathlib import Path

import msgspec
import pytest

from afflux.cycle.inspection_types import (
    DEFAULT_LINES,
    MAX_EVENTS,
    MAX_LINES,
    MAX_MACHINES,
    MAX_MEMBERS,
    ROOT,
    GroupDetails,
    GroupEvent,
    GroupMeta,
    HistoryLine,
    ListMeta,
    Member,
    QueueLine,
    ReservationLine,
    Witness,
)
from afflux.groups.states import GROUP_STATES
from afflux.web.authentication import (
    CACHE_TTL_SECONDS,
    MAX_CACHE_ENTRIES,
    MAX_UNKNOWN,
    MAX_UNKNOWN_PER_ADDRESS,
)
from afflux.web.inspection_pages import MAX_IN_FLIGHT, TIMEOUT_SECONDS

PAGE = (Path(__file__).parents[2] / "docs" / "inspection.md").read_text()
FORM = PAGE.partition("## The written form")[2]
DETAILS = FORM.partition("`GroupDetails`")[2]


def fields(kind: type[msgspec.Struct]) -> set[str]:
    """The names of the fields as written, without `apiVersion` and `kind`."""
    return set(kind.__struct_encode_fields__) - {"apiVersion"}


def listed(title: str) -> set[str]:
    """The names in the first column of the table under this title."""
    table = FORM.partition(title)[2].split("\n\n")[1]
    rows = table.splitlines()[2:]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("`metadata` of a list:", ListMeta),
        ("`QueueList`, items:", QueueLine),
        ("`ReservationList`, items:", ReservationLine),
        ("`HistoryList`, items:", HistoryLine),
        ("`GroupDetails`, which is no list:", GroupDetails),
    ],
)
def test_the_page_lists_exactly_the_fields_of_each_kind(
    title: str, kind: type[msgspec.Struct]
) -> None:
    assert listed(title) == fields(kind)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("metadata", GroupMeta), ("witness", Witness), ("members", Member), ("events", GroupEvent)],
)
def test_the_page_lists_exactly_the_fields_of_each_part(
    name: str, kind: type[msgspec.Struct]
) -> None:
    (row,) = re.findall(rf"^\| `{name}` \| (.*?) \|", DETAILS, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", row)) == fields(kind)


def test_limits_and_names_on_the_page_are_those_of_the_code() -> None:
    assert FORM.count(f"GET {ROOT}/") == 3
    for text in (
        f"`limit` (1 to {MAX_LINES}, else {DEFAULT_LINES})",
        f"the first {MAX_MACHINES} of them",
        f"at most {MAX_MEMBERS:,}",
        f"the last {MAX_EVENTS} of",
    ):
        assert text in FORM
    assert f"Reviews hold for {CACHE_TTL_SECONDS:g} s" in PAGE
    assert f"reviewed {MAX_UNKNOWN} at a time, {MAX_UNKNOWN_PER_ADDRESS} of one address" in PAGE
    assert f"The last {MAX_CACHE_ENTRIES} of either kind are cached" in PAGE
    assert f"a request takes at most {TIMEOUT_SECONDS:g} s, at most {MAX_IN_FLIGHT} are" in PAGE
    for state in GROUP_STATES:
        assert f"`{state}`" in PAGE
