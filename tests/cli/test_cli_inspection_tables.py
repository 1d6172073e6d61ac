"""The tables of the queue, of reservations, of history and of one group: golden tables."""

from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inspection_values import ENDED, GROUP, HISTORY, LINES, NOW, RESERVATIONS, queue
from msgspec import structs

from afflux.cli.inspection_tables import group_text, list_table
from afflux.cli.time_format import ago, exact, expected, span
from afflux.cycle.inspection_types import HistoryList, ListMeta, ReservationList, to_datetime

META = ListMeta(time=to_datetime(NOW))


def shown(text: str) -> str:
    return dedent(text).strip("\n")


# --- Times


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0s"),
        (0.9, "0s"),
        (119, "119s"),
        (120, "2m"),
        (312, "5m12s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (11_400, "3h10m"),
        (28_800, "8h"),
        (172_799, "47h"),
        (172_800, "2d"),
        (176_400, "2d1h"),
        (691_200, "8d"),
        (63_072_000, "2y"),
        (63_158_400, "2y1d"),
        (1e10, "317y"),
    ],
)
def test_spans_are_written_as_kubectl_writes_them(seconds: float, text: str) -> None:
    assert span(seconds) == text


@given(st.floats(0, 1e11))
def test_a_span_is_short_and_has_at_most_two_units(seconds: float) -> None:
    text = span(seconds)
    assert len(text) <= 7
    assert 1 <= sum(letter.isalpha() for letter in text) <= 2


def test_times() -> None:
    assert ago(None, to_datetime(NOW)) == "-"
    assert exact(None) == "-"
    assert exact(to_datetime(NOW + 0.9)) == "2027-01-15T08:00:00Z"
    assert expected(False, None, to_datetime(NOW)) == "-"
    assert expected(True, None, to_datetime(NOW)) == "unknown"
    assert expected(True, to_datetime(NOW + 312), to_datetime(NOW)) == "in 5m12s"
    assert expected(True, to_datetime(NOW + 0.5), to_datetime(NOW)) == "now"
    assert expected(True, to_datetime(NOW - 0.5), to_datetime(NOW)) == "now"
    assert expected(True, to_datetime(NOW - 1), to_datetime(NOW)) == "overdue"


# --- Lists


def test_the_queue() -> None:
    ours = queue(*(each for each in LINES if each.namespace == "team-a"))
    assert list_table(ours) == shown("""
        QUEUE    POSITION  GROUP  SIZE  STATE        WAITING  EXPECTED START  REASON
        default  1         train  4     waiting      5m12s    in 5m12s        0/5 nodes are available: 5 Insufficient cpu.
        default  2         sweep  16    waiting      5m12s    overdue
        default  3         serve  1     waiting      5m12s    unknown         behind others in the queue; 2/5 nodes have room for it.
        default  -         half   3/4   provisional  95s      -               group half has 3 of 4 members
        """)  # noqa: E501


def test_a_running_group_of_which_members_wait_says_how_many() -> None:
    late = structs.replace(LINES[0], state="running", position=None, waiting=2)
    assert list_table(queue(late), headers=False).startswith(
        "default  -         train  4     running (2 waiting)  5m12s    in 5m12s"
    )
    # A service of an earlier version does not say it.
    unknown = structs.replace(late, waiting=None)
    assert "running  5m12s" in list_table(queue(unknown))


def test_the_queue_of_all_namespaces() -> None:
    """Control characters in names and reasons are escaped."""
    theirs = queue(*(each for each in LINES if each.namespace == "team-b"))
    assert list_table(theirs, namespaces=True) == shown(r"""
        NAMESPACE  QUEUE    POSITION  GROUP         SIZE  STATE          WAITING  EXPECTED START  REASON
        team-b     default  4         wide          100   unsatisfiable  2d7h     -               group wide needs 800 cpu, and all 5 machines together have 160, which is less...
        team-b     night    1         \x1b[31mevil  1     waiting        5m12s    -               a\nb
        """)  # noqa: E501


def test_the_queue_wide() -> None:
    assert list_table(queue(LINES[0], LINES[2]), wide=True) == shown("""
        QUEUE    POSITION  GROUP  SIZE  STATE    WAITING  EXPECTED START  PRIORITY  RUN TIME  WAITING SINCE         STARTS AT             REASON
        default  1         train  4     waiting  5m12s    in 5m12s        0         60m       2027-01-15T07:54:48Z  2027-01-15T08:05:12Z  0/5 nodes are available: 5 Insufficient cpu.
        default  3         serve  1     waiting  5m12s    unknown         0         endless   2027-01-15T07:54:48Z  -                     behind others in the queue; 2/5 nodes have room for it.
        """)  # noqa: E501


def test_reservations() -> None:
    listed = ReservationList(metadata=META, items=RESERVATIONS)
    assert list_table(listed, namespaces=True) == shown("""
        NAMESPACE  GROUP  QUEUE    SIZE  START     RUN TIME  MACHINES
        team-a     sweep  default  16    overdue   10m       node-0,node-1 and 2 more
        team-a     train  default  4     in 5m12s  endless   node-0,node-1
        team-b     serve  default  1     unknown   -         -
        """)
    assert list_table(listed, wide=True) == shown("""
        GROUP  QUEUE    SIZE  START     RUN TIME  MACHINES                     PRIORITY  STARTS AT             ENDS AT
        sweep  default  16    overdue   10m       node-0,node-1,node-2,node-3  0         2027-01-15T07:59:30Z  2027-01-15T08:09:30Z
        train  default  4     in 5m12s  endless   node-0,node-1                10        2027-01-15T08:05:12Z  -
        serve  default  1     unknown   -         -                            0         -                     -
        """)  # noqa: E501


def test_the_reservation_of_a_late_member_has_all_its_machines() -> None:
    witness = RESERVATIONS[1].witness[:1]
    late = structs.replace(RESERVATIONS[1], witness=witness, starting=1)
    listed = ReservationList(metadata=META, items=(late, structs.replace(late, starting=4)))
    assert [line.split()[-1] for line in list_table(listed).splitlines()[1:]] == [
        "node-0",
        "node-0+",
    ]


def test_history() -> None:
    listed = HistoryList(metadata=META, items=HISTORY)
    assert list_table(listed, namespaces=True) == shown("""
        NAMESPACE  GROUP    QUEUE    SIZE  ENDED    HOW       WAITED  RAN   MACHINES
        team-a     prep     default  4     40s ago  finished  5m      161m  node-0,node-1
        team-b     runaway  night    500   60m ago  deadline  166m    24h   node-000,node-001 and 248 more
        team-a     mistake  default  2     83m ago  deleted   10s     -     -
        """)  # noqa: E501
    wide = list_table(listed, wide=True).splitlines()
    assert "node-099 and 150 more  -10" in wide[2]
    assert wide[1].endswith("2027-01-15T05:13:20Z  2027-01-15T05:18:20Z  2027-01-15T07:59:20Z")


def test_headers_can_be_left_out() -> None:
    text = list_table(queue(LINES[1]), headers=False)
    assert text == "default  2         sweep  16    waiting  5m12s    overdue"


# --- One group


def test_a_group_that_waits() -> None:
    assert group_text(GROUP) == shown("""
        Name:           train
        Namespace:      team-a
        Queue:          default
        State:          waiting
        Position:       1
        Size:           4
        Priority:       10
        Run time:       60m
        Created:        2027-01-15T07:53:20Z (6m40s ago)
        Ready:          2027-01-15T07:54:48Z (5m12s ago)
        Started:        -
        To end by:      -
        Expected start: in 5m12s (2027-01-15T08:05:12Z)
        Reason:         0/5 nodes are available: 5 Insufficient cpu.

        Members:
          NAME     STATE    MACHINE  REASON
          train-0  waiting  -        0/5 nodes are available: 5 Insufficient cpu.
          train-1  waiting  -        0/5 nodes are available: 5 Insufficient cpu.
          train-2  waiting  -        0/5 nodes are available: 5 Insufficient cpu.
          train-3  waiting  -        0/5 nodes are available: 5 Insufficient cpu.

        Promised:
          MACHINE  ROOM FOR  MEMBERS
          node-0   2         train-0,train-1
          node-1   2         train-2,train-3

        Events:
          AGE    EVENT     MESSAGE
          5m12s  Ready     4 of 4 members
          5m     Promised  starts at 08:05:12
          ... and 5 more
        """)


def test_a_group_that_has_ended() -> None:
    assert group_text(ENDED, wide=True) == shown("""
        Name:      prep
        Namespace: team-a
        Queue:     default
        State:     finished (deadline)
        Position:  -
        Size:      1
        Priority:  0
        Run time:  endless
        Created:   2027-01-15T05:11:40Z (168m ago)
        Ready:     2027-01-15T05:13:20Z (166m ago)
        Started:   2027-01-15T05:18:20Z (161m ago)
        Ended:     2027-01-15T07:59:20Z (40s ago)
        Reason:    -

        There is also a pod of this name: afflux group fluxnetes-group-team-a-prep -n team-a

        Members:
          NAME    STATE             MACHINE  REASON
          prep-0  ended (deadline)  node-0   -

        Events:
          AT                    EVENT    MESSAGE
          2027-01-15T05:11:40Z  Created  with prep-0
          2027-01-15T05:13:20Z  Ready    it waits
          2027-01-15T05:18:20Z  Started  it is bound
          2027-01-15T07:59:20Z  Ended    deadline
        """)


def test_a_group_with_members_that_have_ended_counts_those_that_are_there() -> None:
    ended = structs.replace(GROUP.members[0], state="ended", machine="node-0", how="failed")
    group = structs.replace(
        GROUP, state="running", members=(ended, *GROUP.members[1:]), present=3, position=None
    )
    lines = group_text(group).splitlines()
    assert "Size:           3/4" in lines
    assert lines[lines.index("Members:") + 2].split()[:3] == ["train-0", "ended", "(failed)"]


def test_a_running_group_has_the_expected_start_of_its_late_members() -> None:
    running = structs.replace(GROUP, state="running", started=GROUP.ready, position=None)
    assert "Expected start: in 5m12s (2027-01-15T08:05:12Z)" in group_text(running).splitlines()
    without = structs.replace(running, promised=False, expected_start=None)
    assert "Expected start" not in group_text(without)


def test_a_pod_that_a_group_is_called_like_is_shown_with_both_names() -> None:
    name = "fluxnetes-group-team-a-train"
    lines = group_text(structs.replace(GROUP, full_name=name)).splitlines()
    assert lines[:2] == ["Name:           train", f"Full name:      {name}"]


def test_a_group_wide_names_every_witness() -> None:
    lines = group_text(GROUP, wide=True).splitlines()
    assert "  train-3  node-1" in lines
    assert "  2027-01-15T07:54:48Z  Ready     4 of 4 members" in lines
