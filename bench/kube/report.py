"""The runs as people read them: tables, what was to be reached, what went wrong."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.kube.contestants import AFFLUX, CONTESTANTS, NULL, PEER
from bench.kube.figures import API_SERVER, SCHEDULER, Key, Middle, share
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
stream: pods are created as fast as the API server takes them, while the scheduler works; from the
first creation to the last binding. backlog: all pods are there when the scheduler begins to lead;
from then on. p50, p99: from a pod's creation (backlog: from the beginning) to its binding. CPU s:
of the scheduler's process, and of the API server's, for 1,000 pods placed. MiB: the scheduler's
peak. dev, range: standard deviation, and most less least, of the requested part of each machine's
processors and memory, in hundredths. null: random valid bindings without any thought, the ceiling;
null-events posts events too, as every scheduler does."""

CEILING = 0.9
# Placing one pod in a quiet cluster may take so much longer than binding it takes anybody.
IDLE_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Goal:
    """One workload: whether afflux was fast enough, and cheap enough, beside the peer."""

    nodes: int
    workload: str
    mode: str
    of_peer: float | None
    """Pods per second by the peer's."""
    of_ceiling: float | None
    """Pods per second by the null binder's."""
    cpu_of_peer: float | None
    """CPU seconds of the process by those of the peer's."""

    @property
    def fast(self) -> bool:
        """At least as fast as the peer, or 90 % of the ceiling."""
        return (self.of_peer or 0.0) >= 1.0 or (self.of_ceiling or 0.0) >= CEILING

    @property
    def cheap(self) -> bool:
        """With less CPU than the peer."""
        return self.cpu_of_peer is not None and self.cpu_of_peer < 1.0


def ordered(found: Mapping[Key, Middle]) -> dict[Key, Middle]:
    """Cases as they came, and in each of them the contestants in one order, whoever began."""
    cases = list(dict.fromkeys(key[:3] for key in found))
    names = list(CONTESTANTS)
    return dict(sorted(found.items(), key=lambda i: (cases.index(i[0][:3]), names.index(i[0][3]))))


def rows(found: Mapping[Key, Middle]) -> list[list[str]]:
    """The table of figures, in the order of their keys."""
    return [[*_names(key), *_figures(one)] for key, one in found.items()]


def _names(key: Key) -> list[str]:
    nodes, workload, mode, scheduler = key
    return [f"{nodes:,}", workload, mode, scheduler]


def _figures(one: Middle) -> list[str]:
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


def shares(found: Mapping[Key, Middle]) -> dict[Key, dict[str, float | None]]:
    """Every figure by the null binder's: of what the API server can take, and of what it costs."""
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


def share_rows(found: Mapping[Key, Middle]) -> list[list[str]]:
    """The table of shares."""
    return [
        [*_names(key), *(number(part, 2) for part in parts.values())]
        for key, parts in shares(found).items()
    ]


def goals(found: Mapping[Key, Middle]) -> list[Goal]:
    """Of every workload that both afflux and the peer had."""
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


def idle_delays(found: Mapping[Key, Middle]) -> list[tuple[int, float, float]]:
    """At a trickle, how many seconds longer than the null binder: nodes, the median, the 99th."""
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
    """A line for each workload. At a trickle nobody is fast: there only the CPU counts."""
    return [
        [
            *(f"{goal.nodes:,}", goal.workload, goal.mode),
            *(number(goal.of_peer, 2), number(goal.of_ceiling, 2), _met(goal.fast)),
            *(number(goal.cpu_of_peer, 2), _met(goal.cheap)),
        ]
        for goal in judged
    ]


def wrong(found: Mapping[Key, Middle], most: int = 10) -> list[str]:
    """What went wrong, where."""
    lines: list[str] = []
    for key, one in found.items():
        lines += [f"{', '.join(_names(key))}: {each}" for each in one.complaints[:most]]
        if len(one.complaints) > most:
            lines.append(f"{', '.join(_names(key))}: ... and {len(one.complaints) - most} more")
    return lines


def placed(one: Middle) -> str:
    """How many, and of how many if some were left."""
    there = one.placed or 0
    return f"{there:,.0f}" if there == one.pods else f"{there:,.0f} of {one.pods:,}"


def number(value: float | None, digits: int = 0) -> str:
    """A figure, or a dash."""
    return _shown(value, lambda known: f"{known:,.{digits}f}")


def milliseconds(seconds: float | None) -> str:
    """Of seconds."""
    return _shown(seconds, lambda known: f"{known * 1000:,.0f}")


def mebibytes(size: float | None) -> str:
    """Of bytes."""
    return _shown(size, lambda known: f"{known / 2**20:,.0f}")


def percent(value: float | None) -> str:
    """Of a fraction, to a tenth."""
    return _shown(value, lambda known: f"{known * 100:.1f}")


def _shown(value: float | None, show: Callable[[float], str]) -> str:
    return "-" if value is None else show(value)


def _met(met: bool) -> str:
    return "met" if met else "NOT MET"
