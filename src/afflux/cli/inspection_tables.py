"""Groups as tables, like those of kubectl get and kubectl describe."""

from collections.abc import Sequence
from datetime import datetime

from afflux.cli.safe_output import printable
from afflux.cli.text_table import format_table
from afflux.cli.time_format import ago, exact, expected, span
from afflux.cycle.inspection_types import (
    GroupDetails,
    GroupList,
    HistoryLine,
    HistoryList,
    QueueLine,
    QueueList,
    ReservationLine,
    ReservationList,
    Witness,
)

# Machines shown by name in one line; the others are counted.
_MAX_NAMES = 3
# Longer reasons are cut off, except with -o wide.
_MAX_REASON_LENGTH = 80


def list_table(
    listed: GroupList, *, namespaces: bool = False, wide: bool = False, headers: bool = True
) -> str:
    """A list as a table, with a column for the namespace if `namespaces`."""
    now = listed.metadata.time
    header: list[str]
    match listed:
        case QueueList():
            header = ["QUEUE", "POSITION", "GROUP", "SIZE", "STATE", "WAITING", "EXPECTED START"]
            more = ["PRIORITY", "RUN TIME", "WAITING SINCE", "STARTS AT"]
            last = ["REASON"]
            rows = [_queue_row(line, now, wide) for line in listed.items]
        case ReservationList():
            header = ["GROUP", "QUEUE", "SIZE", "START", "RUN TIME", "MACHINES"]
            more, last = ["PRIORITY", "STARTS AT", "ENDS AT"], []
            rows = [_reservation_row(line, now, wide) for line in listed.items]
        case HistoryList():
            header = ["GROUP", "QUEUE", "SIZE", "ENDED", "HOW", "WAITED", "RAN", "MACHINES"]
            more, last = ["PRIORITY", "READY AT", "STARTED AT", "ENDED AT"], []
            rows = [_history_row(line, now, wide) for line in listed.items]
    header += [*(more if wide else ()), *last]
    if namespaces:
        header.insert(0, "NAMESPACE")
        rows = [[line.namespace, *row] for line, row in zip(listed.items, rows, strict=True)]
    text = format_table(header, rows, right_align=False)
    return text if headers else "\n".join(text.splitlines()[1:])


def _queue_row(line: QueueLine, now: datetime, wide: bool) -> list[str]:
    times = exact(line.waiting_since), exact(line.expected_start)
    more = [str(line.priority), _run_time(line.run_seconds), *times]
    return [
        line.queue,
        "-" if line.position is None else str(line.position),
        line.name,
        _size(line.size, line.present),
        _state(line),
        ago(line.waiting_since, now),
        expected(line.promised, line.expected_start, now),
        *(more if wide else ()),
        line.reason if wide else _shortened(line.reason),
    ]


def _reservation_row(line: ReservationLine, now: datetime, wide: bool) -> list[str]:
    machines = sorted({each.machine for each in line.witness})
    run = None if line.start is None or line.end is None else line.end - line.start
    return [
        line.name,
        line.queue,
        str(line.size),
        expected(True, line.start, now),
        "-" if line.start is None else _run_time(None if run is None else run.total_seconds()),
        _machines(
            machines,
            len(machines),
            wide,
            some=len(line.witness) < (line.size if line.starting is None else line.starting),
        ),
        *([str(line.priority), exact(line.start), exact(line.end)] if wide else ()),
    ]


def _history_row(line: HistoryLine, now: datetime, wide: bool) -> list[str]:
    began = line.ready or line.created
    waited = (line.started or line.ended) - began
    ran = None if line.started is None else line.ended - line.started
    more = [str(line.priority), exact(line.ready), exact(line.started), exact(line.ended)]
    return [
        line.name,
        line.queue,
        str(line.size),
        f"{ago(line.ended, now)} ago",
        line.how,
        span(waited.total_seconds()),
        "-" if ran is None else span(ran.total_seconds()),
        _machines(line.machines, line.machine_count, wide),
        *(more if wide else ()),
    ]


# --- One group


def group_text(group: GroupDetails, *, wide: bool = False) -> str:
    """Everything about one group: its facts, its members and its events."""
    now = group.metadata.time
    there = group.metadata.members if group.present is None else group.present
    present = group.size if group.state == "finished" else there
    is_expected = group.started is None or group.promised
    facts = [
        ("Name", group.name),
        *([("Full name", group.full_name)] if group.full_name not in ("", group.name) else ()),
        ("Namespace", group.namespace),
        ("Queue", group.queue),
        ("State", group.state if group.how is None else f"{group.state} ({group.how})"),
        ("Position", "-" if group.position is None else str(group.position)),
        ("Size", _size(group.size, present)),
        ("Priority", str(group.priority)),
        ("Run time", _run_time(group.run_seconds)),
        ("Created", _moment(group.created, now)),
        ("Ready", _moment(group.ready, now)),
        ("Started", _moment(group.started, now)),
        *([("To end by", exact(group.until))] if group.ended is None else ()),
        *([("Ended", _moment(group.ended, now))] if group.ended is not None else ()),
        *([("Expected start", _reservation(group, now))] if is_expected else ()),
        ("Reason", group.reason or "-"),
    ]
    width = max(len(name) for name, _ in facts) + 2
    lines = [f"{name + ':':<{width}}{printable(text)}" for name, text in facts]
    if group.namesake is not None:
        ask = f"afflux group {group.namesake} -n {group.namespace}"
        lines += ["", printable(f"There is also a pod of this name: {ask}")]
    lines += _section("Members", _members(group), group.metadata.members - len(group.members))
    if group.witness:
        lines += _section("Promised", _witness(group.witness, wide))
    more = group.metadata.events - len(group.events)
    lines += _section("Events", _events(group, now, wide), more)
    return "\n".join(lines)


def _section(title: str, text: str, left_out: int = 0) -> list[str]:
    more = [f"  ... and {left_out:,} more"] if left_out > 0 else []
    return ["", f"{title}:", *(f"  {line}" for line in text.splitlines() or ["none"]), *more]


def _members(group: GroupDetails) -> str:
    if not group.members:
        return ""
    rows = [
        [
            m.name,
            m.state if m.how is None else f"{m.state} ({m.how})",
            m.machine or "-",
            m.reason or "-",
        ]
        for m in group.members
    ]
    return format_table(["NAME", "STATE", "MACHINE", "REASON"], rows, right_align=False)


def _witness(witness: Sequence[Witness], wide: bool) -> str:
    """One line per machine: most groups have many members on few machines. `wide`: per member."""
    if wide:
        rows = [[each.member, each.machine] for each in witness]
        return format_table(["MEMBER", "MACHINE"], rows, right_align=False)
    machines: dict[str, list[str]] = {}
    for each in witness:
        machines.setdefault(each.machine, []).append(each.member)
    rows = [
        [machine, str(len(members)), _some_names(members, len(members), wide)]
        for machine, members in sorted(machines.items())
    ]
    return format_table(["MACHINE", "ROOM FOR", "MEMBERS"], rows, right_align=False)


def _events(group: GroupDetails, now: datetime, wide: bool) -> str:
    if not group.events:
        return ""
    rows = [
        [exact(each.time) if wide else ago(each.time, now), each.kind, each.message]
        for each in group.events
    ]
    return format_table(["AT" if wide else "AGE", "EVENT", "MESSAGE"], rows, right_align=False)


def _reservation(group: GroupDetails, now: datetime) -> str:
    text = expected(group.promised, group.expected_start, now)
    if text == "-":
        return "- (no reservation)"
    if text == "unknown":
        return "unknown (it waits for work without a known end)"
    return f"{text} ({exact(group.expected_start)})"


# --- Cells


def _moment(then: datetime | None, now: datetime) -> str:
    return "-" if then is None else f"{exact(then)} ({ago(then, now)} ago)"


def _run_time(seconds: float | None) -> str:
    return "endless" if seconds is None else span(seconds)


def _size(size: int, present: int) -> str:
    return str(size) if present >= size else f"{present}/{size}"


def _state(line: QueueLine) -> str:
    """Of a running group, also how many of its members wait."""
    late = line.waiting if line.state == "running" else 0
    return f"{line.state} ({late:,} waiting)" if late else line.state


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_REASON_LENGTH else f"{text[: _MAX_REASON_LENGTH - 3]}..."


def _machines(names: Sequence[str], count: int, wide: bool, *, some: bool = False) -> str:
    """`some`: there may be more machines than `count`."""
    return _some_names(names, count, wide) + ("+" if some and names else "")


def _some_names(names: Sequence[str], count: int, wide: bool) -> str:
    if not names:
        return "-"
    shown = names if wide or count <= _MAX_NAMES else names[: _MAX_NAMES - 1]
    others = count - len(shown)
    return ",".join(shown) + (f" and {others:,} more" if others else "")
