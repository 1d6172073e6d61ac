"""A few groups at a fixed time, and an inspection that serves them."""

from afflux.cycle.inspection_types import (
    GroupDetails,
    GroupEvent,
    GroupMeta,
    HistoryLine,
    HistoryList,
    ListMeta,
    ListQuery,
    Member,
    QueueLine,
    QueueList,
    ReservationLine,
    ReservationList,
    Witness,
    to_datetime,
)

NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z


def line(name: str, **more: object) -> QueueLine:
    usual: dict[str, object] = {
        "namespace": "team-a",
        "name": name,
        "queue": "default",
        "position": 1,
        "size": 4,
        "present": 4,
        "priority": 0,
        "state": "waiting",
        "waiting_since": to_datetime(NOW - 312),
        "run_seconds": 3600.0,
        "promised": False,
        "expected_start": None,
        "reason": "",
    }
    return QueueLine(**(usual | more))


LINES = (
    line(
        "train",
        promised=True,
        expected_start=to_datetime(NOW + 312),
        reason="0/5 nodes are available: 5 Insufficient cpu.",
    ),
    line(
        "sweep",
        position=2,
        size=16,
        present=16,
        promised=True,
        expected_start=to_datetime(NOW - 30),
    ),
    line(
        "serve",
        position=3,
        size=1,
        present=1,
        promised=True,
        run_seconds=None,
        reason="behind others in the queue; 2/5 nodes have room for it.",
    ),
    line(
        "wide",
        namespace="team-b",
        position=4,
        size=100,
        present=100,
        priority=-5,
        state="unsatisfiable",
        waiting_since=to_datetime(NOW - 200_000),
        reason="group wide needs 800 cpu, and all 5 machines together have 160, which is less than"
        " it needs",
    ),
    line(
        "half",
        position=None,
        present=3,
        state="provisional",
        waiting_since=to_datetime(NOW - 95),
        reason="group half has 3 of 4 members",
    ),
    line("\x1b[31mevil", namespace="team-b", queue="night", size=1, present=1, reason="a\nb"),
)
RESERVATIONS = (
    ReservationLine(
        namespace="team-a",
        name="sweep",
        queue="default",
        size=16,
        priority=0,
        start=to_datetime(NOW - 30),
        end=to_datetime(NOW + 570),
        witness=tuple(Witness(member=f"sweep-{n}", machine=f"node-{n % 4}") for n in range(16)),
    ),
    ReservationLine(
        namespace="team-a",
        name="train",
        queue="default",
        size=4,
        priority=10,
        start=to_datetime(NOW + 312),
        end=None,
        witness=tuple(Witness(member=f"train-{n}", machine=f"node-{n // 2}") for n in range(4)),
    ),
    ReservationLine(
        namespace="team-b",
        name="serve",
        queue="default",
        size=1,
        priority=0,
        start=None,
        end=None,
        witness=(),
    ),
)
HISTORY = (
    HistoryLine(
        namespace="team-a",
        name="prep",
        queue="default",
        size=4,
        priority=0,
        created=to_datetime(NOW - 10_100),
        ready=to_datetime(NOW - 10_000),
        started=to_datetime(NOW - 9_700),
        ended=to_datetime(NOW - 40),
        how="finished",
        machine_count=2,
        machines=("node-0", "node-1"),
    ),
    HistoryLine(
        namespace="team-b",
        name="runaway",
        queue="night",
        size=500,
        priority=-10,
        created=to_datetime(NOW - 100_000),
        ready=to_datetime(NOW - 100_000),
        started=to_datetime(NOW - 90_000),
        ended=to_datetime(NOW - 3_600),
        how="deadline",
        machine_count=250,
        machines=tuple(f"node-{n:03d}" for n in range(100)),
    ),
    HistoryLine(
        namespace="team-a",
        name="mistake",
        queue="default",
        size=2,
        priority=0,
        created=to_datetime(NOW - 5_000),
        ready=None,
        started=None,
        ended=to_datetime(NOW - 4_990),
        how="deleted",
        machine_count=0,
        machines=(),
    ),
)
GROUP = GroupDetails(
    metadata=GroupMeta(time=to_datetime(NOW), members=4, events=7),
    namespace="team-a",
    name="train",
    queue="default",
    position=1,
    size=4,
    priority=10,
    state="waiting",
    reason="0/5 nodes are available: 5 Insufficient cpu.",
    created=to_datetime(NOW - 400),
    ready=to_datetime(NOW - 312),
    started=None,
    until=None,
    ended=None,
    how=None,
    run_seconds=3600.0,
    promised=True,
    expected_start=to_datetime(NOW + 312),
    witness=RESERVATIONS[1].witness,
    members=tuple(
        Member(
            name=f"train-{n}",
            uid=f"uid-{n}",
            state="waiting",
            machine=None,
            reason="0/5 nodes are available: 5 Insufficient cpu.",
        )
        for n in range(4)
    ),
    events=(
        GroupEvent(time=to_datetime(NOW - 312), kind="Ready", message="4 of 4 members"),
        GroupEvent(time=to_datetime(NOW - 300), kind="Promised", message="starts at 08:05:12"),
    ),
)
ENDED = GroupDetails(
    metadata=GroupMeta(time=to_datetime(NOW), members=1, events=4),
    namespace="team-a",
    name="prep",
    queue="default",
    position=None,
    size=1,
    priority=0,
    state="finished",
    reason="",
    created=to_datetime(NOW - 10_100),
    ready=to_datetime(NOW - 10_000),
    started=to_datetime(NOW - 9_700),
    until=to_datetime(NOW + 100),
    ended=to_datetime(NOW - 40),
    how="deadline",
    run_seconds=None,
    promised=False,
    expected_start=None,
    witness=(),
    members=(
        Member(name="prep-0", uid=None, state="ended", machine="node-0", reason="", how="deadline"),
    ),
    events=(
        GroupEvent(time=to_datetime(NOW - 10_100), kind="Created", message="with prep-0"),
        GroupEvent(time=to_datetime(NOW - 10_000), kind="Ready", message="it waits"),
        GroupEvent(time=to_datetime(NOW - 9_700), kind="Started", message="it is bound"),
        GroupEvent(time=to_datetime(NOW - 40), kind="Ended", message="deadline"),
    ),
    full_name="prep",
    namesake="fluxnetes-group-team-a-prep",
    present=0,
)


def queue(*lines: QueueLine) -> QueueList:
    return QueueList(metadata=ListMeta(time=to_datetime(NOW)), items=lines)


class Known:
    """An inspection that serves the values above, in short pages."""

    def __init__(self, page: int = 1_000) -> None:
        self.page = page
        self.asked: list[ListQuery] = []

    async def queue(self, asked: ListQuery) -> QueueList:
        meta, items = self._page(asked, LINES)
        return QueueList(metadata=meta, items=items)

    async def reservations(self, asked: ListQuery) -> ReservationList:
        meta, items = self._page(asked, RESERVATIONS)
        return ReservationList(metadata=meta, items=items)

    async def history(self, asked: ListQuery) -> HistoryList:
        meta, items = self._page(asked, HISTORY)
        return HistoryList(metadata=meta, items=items)

    async def group(self, namespace: str, name: str) -> GroupDetails | None:
        known = {(each.namespace, each.name): each for each in (GROUP, ENDED)}
        return known.get((namespace, name))

    def _page(self, asked: ListQuery, lines):
        self.asked.append(asked)
        ours = [each for each in lines if asked.namespace in (None, each.namespace)]
        start = int(asked.continue_token or 0)
        end = start + min(asked.limit, self.page)
        left = max(0, len(ours) - end)
        meta = ListMeta(
            time=to_datetime(NOW),
            continue_token=str(end) if left else "",
            remaining_item_count=left,
        )
        return meta, tuple(ours[start:end])
