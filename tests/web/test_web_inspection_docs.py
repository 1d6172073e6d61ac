"""docs/inspection.md lists the written form: every field, and no other."""

import re
from pathlib import Path

import msgspec
import pytest

from afflux.cycle.inspection import (
    MOST_EVENTS,
    MOST_LINES,
    MOST_MACHINES,
    MOST_MEMBERS,
    ROOT,
    USUAL_LINES,
    Finished,
    GroupDetails,
    GroupEvent,
    GroupMeta,
    ListMeta,
    Member,
    QueueLine,
    Reservation,
    Witness,
)
from afflux.cycle.phases import PHASES
from afflux.web.authenticating import (
    MOST_REMEMBERED,
    MOST_STRANGERS,
    MOST_STRANGERS_OF_ONE,
    REMEMBERED_SECONDS,
)
from afflux.web.inspecting import MOST_AT_ONCE, PATIENCE_SECONDS

PAGE = (Path(__file__).parents[2] / "docs" / "inspection.md").read_text()
FORM = PAGE.partition("## The written form")[2]
DETAILS = FORM.partition("`GroupDetails`")[2]


def fields(kind: type[msgspec.Struct]) -> set[str]:
    """As they are written, without those that say of what kind an answer is."""
    return set(kind.__struct_encode_fields__) - {"apiVersion"}


def listed(title: str) -> set[str]:
    """The names in the first column of the table under these words."""
    table = FORM.partition(title)[2].split("\n\n")[1]
    rows = table.splitlines()[2:]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("`metadata` of a list:", ListMeta),
        ("`QueueList`, items:", QueueLine),
        ("`ReservationList`, items:", Reservation),
        ("`HistoryList`, items:", Finished),
        ("`GroupDetails`, which is no list:", GroupDetails),
    ],
)
def test_every_field_is_on_the_page(title: str, kind: type[msgspec.Struct]) -> None:
    assert listed(title) == fields(kind)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("metadata", GroupMeta), ("witness", Witness), ("members", Member), ("events", GroupEvent)],
)
def test_so_are_those_of_its_parts(name: str, kind: type[msgspec.Struct]) -> None:
    (row,) = re.findall(rf"^\| `{name}` \| (.*?) \|", DETAILS, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", row)) == fields(kind)


def test_the_limits_and_names_are_those_of_the_code() -> None:
    assert FORM.count(f"GET {ROOT}/") == 3
    for text in (
        f"`limit` (1 to {MOST_LINES}, else {USUAL_LINES})",
        f"the first {MOST_MACHINES} of them",
        f"at most {MOST_MEMBERS:,}",
        f"the last {MOST_EVENTS} under",
    ):
        assert text in FORM
    assert f"Reviews hold for {REMEMBERED_SECONDS:g} s" in PAGE
    assert f"asked about {MOST_STRANGERS} at a time, {MOST_STRANGERS_OF_ONE} of one address" in PAGE
    assert f"The last {MOST_REMEMBERED} of either kind are remembered" in PAGE
    assert f"a question takes at most {PATIENCE_SECONDS:g} s, at most {MOST_AT_ONCE} are" in PAGE
    for state in PHASES:
        assert f"`{state}`" in PAGE
