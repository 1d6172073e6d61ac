"""What is known of groups as tables, in the manner of kubectl get and kubectl describe."""

from collections.abc import Sequence
from datetime import datetime

from afflux.cli.ages import ago, exact, expected, span
from afflux.cli.tables import table
from afflux.cli.terminal import plain
from afflux.cycle.inspection import (
    Finished,
    GroupDetails,
    HistoryList,
    Listed,
    QueueLine,
    QueueList,
    Reservation,
    ReservationList,
    Witness,
)

# Machines by name in one line; of the others it says how many.
_FEW = 3
# Reasons longer than that make a table hard to read; -o wide has all of them.
_SHORT = 80


def list_table(
    listed: Listed, *, namespaces: bool = False, wide: bool = False, headers: bool = True
) -> str:
    """A list as a table; with the namespaces, if it is of several."""
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
            rows = [_finished_row(line, now, wide) for line in listed.items]
    header += [*(more if wide else ()), *last]
    if namespaces:
        header.insert(0, "NAMESPACE")
        rows = [[line.namespace, *row] for line, row in zip(listed.items, rows, strict=True)]
    text = table(header, rows, numbers=False)
    return text if headers else "\n".join(text.splitlines()[1:])


def _queue_row(line: QueueLine, now: datetime, wide: bool) -> list[str]:
    more = [
        str(line.priority),
        _run_time(line.run_seconds),
        exact(line.waiting_since),
        exact(line.expected_start),
    ]
    return [
        line.queue,
        "-" if line.position is None else str(line.position),
        line.name,
        _size(line.size, line.present),
        line.state,
        ago(line.waiting_since, now),
        expected(line.promised, line.expected_start, now),
        *(more if wide else ()),
        line.reason if wide else _shortened(line.reason),
    ]


def _reservation_row(line: Reservation, now: datetime, wide: bool) -> list[str]:
    machines = sorted({each.machine for each in line.witness})
    run = None if line.start is None or line.end is None else line.end - line.start
    return [
        line.name,
        line.queue,
        str(line.size),
        expected(True, line.start, now),
        "-" if line.start is None else _run_time(None if run is None else run.total_seconds()),
        _machines(machines, len(machines), wide, some=len(line.witness) < line.size),
        *([str(line.priority), exact(line.start), exact(line.end)] if wide else ()),
    ]


def _finished_row(line: Finished, now: datetime, wide: bool) -> list[str]:
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
    """Everything about one group: what it is, where its members are, what happened to it."""
    now = group.metadata.time
    present = group.size if group.state == "finished" else group.metadata.members
    facts = [
        ("Name", group.name),
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
        *([("Expected start", _promise(group, now))] if group.started is None else ()),
        ("Reason", group.reason or "-"),
    ]
    width = max(len(name) for name, _ in facts) + 2
    lines = [f"{name + ':':<{width}}{plain(text)}" for name, text in facts]
    lines += _section("Members", _members(group), group.metadata.members - len(group.members))
    if group.witness:
        lines += _section("Promised", _witness(group.witness, wide))
    lines += _section(
        "Events", _events(group, now, wide), group.metadata.events - len(group.events)
    )
    return "\n".join(lines)


def _section(title: str, text: str, left_out: int = 0) -> list[str]:
    more = [f"  ... and {left_out:,} more"] if left_out > 0 else []
    return ["", f"{title}:", *(f"  {line}" for line in text.splitlines() or ["none"]), *more]


def _members(group: GroupDetails) -> str:
    if not group.members:
        return ""
    rows = [
        [each.name, each.state, each.machine or "-", each.reason or "-"] for each in group.members
    ]
    return table(["NAME", "STATE", "MACHINE", "REASON"], rows, numbers=False)


def _witness(witness: Sequence[Witness], wide: bool) -> str:
    """By machine, unless all is asked for: most groups have many members and few machines."""
    if wide:
        rows = [[each.member, each.machine] for each in witness]
        return table(["MEMBER", "MACHINE"], rows, numbers=False)
    machines: dict[str, list[str]] = {}
    for each in witness:
        machines.setdefault(each.machine, []).append(each.member)
    rows = [
        [machine, str(len(members)), _few(members, len(members), wide)]
        for machine, members in sorted(machines.items())
    ]
    return table(["MACHINE", "ROOM FOR", "MEMBERS"], rows, numbers=False)


def _events(group: GroupDetails, now: datetime, wide: bool) -> str:
    if not group.events:
        return ""
    rows = [
        [exact(each.time) if wide else ago(each.time, now), each.kind, each.message]
        for each in group.events
    ]
    return table(["AT" if wide else "AGE", "EVENT", "MESSAGE"], rows, numbers=False)


def _promise(group: GroupDetails, now: datetime) -> str:
    text = expected(group.promised, group.expected_start, now)
    if text == "-":
        return "- (no start is promised)"
    if text == "unknown":
        return "unknown (it waits for work without end)"
    return f"{text} ({exact(group.expected_start)})"


# --- Cells


def _moment(then: datetime | None, now: datetime) -> str:
    return "-" if then is None else f"{exact(then)} ({ago(then, now)} ago)"


def _run_time(seconds: float | None) -> str:
    return "endless" if seconds is None else span(seconds)


def _size(size: int, present: int) -> str:
    return str(size) if present >= size else f"{present}/{size}"


def _shortened(text: str) -> str:
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 3]}..."


def _machines(names: Sequence[str], count: int, wide: bool, *, some: bool = False) -> str:
    """`some` if there may be others that nobody has counted."""
    return _few(names, count, wide) + ("+" if some and names else "")


def _few(names: Sequence[str], count: int, wide: bool) -> str:
    if not names:
        return "-"
    shown = names if wide or count <= _FEW else names[: _FEW - 1]
    others = count - len(shown)
    return ",".join(shown) + (f" and {others:,} more" if others else "")
