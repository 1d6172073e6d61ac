"""The report: tables of figures, goals and failures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.kube.results import API_SERVER, SCHEDULER, Key, Median, share
from bench.kube.schedulers import AFFLUX, NULL, PEER, SCHEDULERS
from bench.kube.workloads import TRICKLE

HEADER = (
    *("nodes", "workload", "mode", "scheduler", "placed", "pods/s", "p50 ms", "p99 ms"),
    *("CPU s", "API CPU s", "MiB", "events", "cpu dev", "range", "mem dev", "range"),
)
SHARES_HEADER = (
    *("nodes", "workload", "mode", "scheduler"),
    *("pods/s", "p50", "p99", "CPU", "API CPU", "memory", "cpu dev", "mem dev"),
)
EXPLAINED = """\
stream: pods are created as fast as the API server accepts them, while the scheduler works; time
counts from the first creation to the last binding. backlog: all pods exist when the scheduler
becomes leader, and time counts from then. p50, p99: from a pod's creation (backlog: from the
beginning) to its binding. CPU s: of the scheduler's process, and of the API server's, per 1,000
placed pods. MiB: the scheduler's peak. dev, range: standard deviation and range of the requested
share of each machine's CPU and memory, in percent. null: random valid bindings, the ceiling;
null-events posts events too, as every scheduler does."""

CEILING = 0.9
# In a quiet cluster, a pod may wait this much longer than with the null binder.
IDLE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Goal:
    """One workload: whether afflux met the goals for speed and CPU."""

    nodes: int
    workload: str
    mode: str
    of_peer: float | None
    """Pods per second, relative to kube-scheduler."""
    of_ceiling: float | None
    """Pods per second, relative to the null binder."""
    cpu_of_peer: float | None
    """CPU seconds, relative to kube-scheduler."""

    @property
    def fast(self) -> bool:
        """At least as fast as kube-scheduler, or 90 % of the ceiling."""
        return (self.of_peer or 0.0) >= 1.0 or (self.of_ceiling or 0.0) >= CEILING

    @property
    def cheap(self) -> bool:
        """Less CPU than kube-scheduler."""
        return self.cpu_of_peer is not None and self.cpu_of_peer < 1.0


def ordered(found: Mapping[Key, Median]) -> dict[Key, Median]:
    """The cases in the order measured, each with the schedulers in a fixed order."""
    cases = list(dict.fromkeys(key[:3] for key in found))
    names = list(SCHEDULERS)
    return dict(sorted(found.items(), key=lambda i: (cases.index(i[0][:3]), names.index(i[0][3]))))


def rows(found: Mapping[Key, Median]) -> list[list[str]]:
    """The rows of the table of figures."""
    return [[*_names(key), *_figures(one)] for key, one in found.items()]


def _names(key: Key) -> list[str]:
    nodes, workload, mode, scheduler = key
    return [f"{nodes:,}", workload, mode, scheduler]


def _figures(one: Median) -> list[str]:
    return [
        "FAILED" if one.complaints else placed(one),
        number(one.pods_per_second),
        milliseconds(one.p50_seconds),
        milliseconds(one.p99_seconds),
        number(one.cpu_of(SCHEDULER), 2),
        number(one.cpu_of(API_SERVER), 2),
        mebibytes(one.peak_bytes),
        number(one.events),
        percent(one.cpu_deviation),
        percent(one.cpu_range),
        percent(one.memory_deviation),
        percent(one.memory_range),
    ]


def shares(found: Mapping[Key, Median]) -> dict[Key, dict[str, float | None]]:
    """Every figure, relative to the null binder's."""
    parts: dict[Key, dict[str, float | None]] = {}
    for key, one in found.items():
        null = found.get((*key[:3], NULL))
        if null is None or key[3] == NULL:
            continue
        pairs = {
            "pods/s": (one.pods_per_second, null.pods_per_second),
            "p50": (one.p50_seconds, null.p50_seconds),
            "p99": (one.p99_seconds, null.p99_seconds),
            "CPU": (one.cpu_of(SCHEDULER), null.cpu_of(SCHEDULER)),
            "API CPU": (one.cpu_of(API_SERVER), null.cpu_of(API_SERVER)),
            "memory": (one.peak_bytes, null.peak_bytes),
            "cpu dev": (one.cpu_deviation, null.cpu_deviation),
            "mem dev": (one.memory_deviation, null.memory_deviation),
        }
        parts[key] = {name: share(*pair) for name, pair in pairs.items()}
    return parts


def share_rows(found: Mapping[Key, Median]) -> list[list[str]]:
    """The rows of the table of shares."""
    return [
        [*_names(key), *(number(part, 2) for part in parts.values())]
        for key, parts in shares(found).items()
    ]


def goals(found: Mapping[Key, Median]) -> list[Goal]:
    """The goals of every workload that both afflux and kube-scheduler ran."""
    judged: list[Goal] = []
    for (nodes, workload, mode, scheduler), ours in found.items():
        peer = found.get((nodes, workload, mode, PEER))
        ceiling = found.get((nodes, workload, mode, NULL))
        if scheduler != AFFLUX or peer is None:
            continue
        judged.append(
            Goal(
                nodes,
                workload,
                mode,
                share(ours.pods_per_second, peer.pods_per_second),
                share(ours.pods_per_second, ceiling.pods_per_second) if ceiling else None,
                share(ours.cpu_of(SCHEDULER), peer.cpu_of(SCHEDULER)),
            )
        )
    return judged


def idle_delays(found: Mapping[Key, Median]) -> list[tuple[int, float, float]]:
    """Nodes, and by how many seconds the median and the 99th percentile exceed the null binder's.

    Only for the trickle.
    """
    delays: list[tuple[int, float, float]] = []
    for (nodes, workload, mode, scheduler), ours in found.items():
        null = found.get((nodes, workload, mode, NULL))
        if workload != TRICKLE or scheduler != AFFLUX or null is None:
            continue
        pairs = [(ours.p50_seconds, null.p50_seconds), (ours.p99_seconds, null.p99_seconds)]
        known = [one - other for one, other in pairs if one is not None and other is not None]
        if len(known) == 2:
            delays.append((nodes, known[0], known[1]))
    return delays


GOALS_HEADER = ("nodes", "workload", "mode", "of peer", "of ceiling", "", "CPU of peer", "")


def goal_rows(judged: Sequence[Goal]) -> list[list[str]]:
    """The rows of the table of goals. At a trickle only the CPU is meaningful."""
    return [
        [
            *(f"{goal.nodes:,}", goal.workload, goal.mode),
            *(number(goal.of_peer, 2), number(goal.of_ceiling, 2), _met(goal.fast)),
            *(number(goal.cpu_of_peer, 2), _met(goal.cheap)),
        ]
        for goal in judged
    ]


def wrong(found: Mapping[Key, Median], most: int = 10) -> list[str]:
    """The complaints of each case, at most `most` per case."""
    lines: list[str] = []
    for key, one in found.items():
        lines += [f"{', '.join(_names(key))}: {each}" for each in one.complaints[:most]]
        if len(one.complaints) > most:
            lines.append(f"{', '.join(_names(key))}: ... and {len(one.complaints) - most} more")
    return lines


def placed(one: Median) -> str:
    """The number of placed pods, and of all pods if some were not placed."""
    there = one.placed or 0
    return f"{there:,.0f}" if there == one.pods else f"{there:,.0f} of {one.pods:,}"


def number(value: float | None, digits: int = 0) -> str:
    """A number, or a dash if it is unknown."""
    return _shown(value, lambda known: f"{known:,.{digits}f}")


def milliseconds(seconds: float | None) -> str:
    """Seconds as milliseconds."""
    return _shown(seconds, lambda known: f"{known * 1000:,.0f}")


def mebibytes(size: float | None) -> str:
    """Bytes as MiB."""
    return _shown(size, lambda known: f"{known / 2**20:,.0f}")


def percent(value: float | None) -> str:
    """A fraction as percent, with one decimal."""
    return _shown(value, lambda known: f"{known * 100:.1f}")


def _shown(value: float | None, show: Callable[[float], str]) -> str:
    return "-" if value is None else show(value)


def _met(met: bool) -> str:
    return "met" if met else "NOT MET"
