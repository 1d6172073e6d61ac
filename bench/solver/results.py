"""Measurements of the solvers: their table, goals and JSON."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields

from bench.solver.churn_rounds import Case, Round, Series
from bench.solver.memory_measurement import MemoryRun

HEADER = (
    *("shape", "form", "load", "machines", "arcs"),
    *("cold ms", "OR-Tools", "ratio", "settle"),
    *("churn ms", "applying", "OR-Tools", "faster", "least", "by hand", "parallel"),
    *("10x cold", "10x churn", "bytes/arc"),
)
EXPLAINED = """\
cold: our seconds by OR-Tools' seconds, both from nothing; the median of three.
settle: how many times faster the round is in which all placements of the cold one are priced.
churn: median ms, and the part of ours that goes into applying changes. faster, least: how many
times faster than OR-Tools from nothing on the same network, over the rounds the median and the
least. by hand: the same, had pinned tasks been taken out of the network for OR-Tools. parallel:
the same as faster, had convex arcs been parallel ones for ours as well.
10x: our time by our time with a tenth of the machines."""


@dataclass(frozen=True)
class Goal:
    """A goal, the worst measured value, and its case."""

    what: str
    wanted: str
    reached: float
    met: bool
    where: str


@dataclass(frozen=True)
class Figures:
    """All series, and the memory that was measured separately."""

    series: Sequence[Series]
    memory: dict[Case, MemoryRun]

    def rows(self) -> list[list[str]]:
        """The table."""
        return [self._row(series) for series in self.series]

    def _row(self, series: Series) -> list[str]:
        case, cold, churn = series.case, series.cold, series.churn
        used = self.memory.get(case)
        faster = times_faster(churn)
        applying = sum(r.apply_seconds for r in churn) / max(sum(r.seconds for r in churn), 1e-9)
        return [
            case.shape,
            case.form,
            f"{case.load:g}",
            f"{case.machines:,}",
            f"{cold.arcs:,}",
            _ms(cold.seconds),
            _ms(cold.peer_seconds),
            _ratio(cold_ratio(series)),
            _ratio(_middle(times_faster(series.rounds[1:2]))),
            _ms(_middle([r.seconds for r in churn])),
            f"{applying:.0%}" if churn else "-",
            _ms(_middle([r.peer_seconds for r in churn if r.peer_seconds is not None])),
            _ratio(_middle(faster)),
            _ratio(min(faster, default=None)),
            _ratio(_middle(times_faster(churn, by_hand=True))),
            _ratio(_middle(times_faster(churn, parallel=True))),
            *(_ratio(growth) for growth in self.growth(series)),
            f"{used.bytes_per_arc:.0f}" if used else "-",
        ]

    def growth(self, series: Series) -> tuple[float | None, float | None]:
        """Our time, cold and of churn, by the same with a tenth of the machines."""
        for other in self.series:
            if other.case == _tenth(series.case):
                mine, tenth = (_middle([r.seconds for r in s.churn]) for s in (series, other))
                churn = mine / tenth if mine and tenth else None
                return series.cold.seconds / other.cold.seconds, churn
        return None, None

    def goals(self) -> list[Goal]:
        """The goals, judged over the largest clusters that were measured."""
        largest = max((s.case.machines for s in self.series), default=0)
        here = [s for s in self.series if s.case.machines == largest]
        free = [s for s in here if s.case.form == "free"]
        pinned = [s for s in here if s.case.form == "pinned"]
        found = [
            _goal("cold, ours by OR-Tools", 1.0, ((s, cold_ratio(s)) for s in here)),
            _goal("churn, times faster", 5.0, _medians(free), least=True),
            _goal("churn, times faster: the aim", 20.0, _medians(free), least=True),
            _goal("pinned churn, times faster", 20.0, _medians(pinned), least=True),
            _goal("ten times the machines, cold", 15.0, ((s, self.growth(s)[0]) for s in here)),
            _goal("ten times the machines, churn", 15.0, ((s, self.growth(s)[1]) for s in here)),
            _goal(
                "bytes per arc",
                100.0,
                ((s, self.memory[s.case].bytes_per_arc) for s in here if s.case in self.memory),
            ),
        ]
        return [goal for goal in found if goal is not None]

    def as_json(self) -> list[dict[str, object]]:
        """The JSON: an object for each case, with its rounds as columns."""
        found: list[dict[str, object]] = []
        for series in self.series:
            used = self.memory.get(series.case)
            columns = {
                field.name: [_short(getattr(r, field.name)) for r in series.rounds]
                for field in fields(Round)
            }
            memory = used and {
                "peak_bytes": used.peak_bytes,
                "bytes_per_arc": round(used.bytes_per_arc, 1),
            }
            found.append({**asdict(series.case), "memory": memory, "rounds": columns})
        return found


def cold_ratio(series: Series) -> float | None:
    """Our seconds by OR-Tools'."""
    cold = series.cold
    return cold.seconds / cold.peer_seconds if cold.peer_seconds else None


def times_faster(
    rounds: Sequence[Round], *, by_hand: bool = False, parallel: bool = False
) -> list[float]:
    """OR-Tools' seconds by ours, round by round."""
    theirs = ((r.by_hand_seconds if by_hand else r.peer_seconds) for r in rounds)
    ours = ((r.parallel_seconds if parallel else r.seconds) for r in rounds)
    pairs = zip(theirs, ours, strict=True)
    return [them / us for them, us in pairs if them is not None and us is not None]


def _medians(series: Iterable[Series]) -> Iterable[tuple[Series, float | None]]:
    return ((s, _middle(times_faster(s.churn))) for s in series)


def _goal(
    what: str, bound: float, values: Iterable[tuple[Series, float | None]], *, least: bool = False
) -> Goal | None:
    """The worst of these values against the bound; None if there are none."""
    known = [(value, str(s.case)) for s, value in values if value is not None]
    if not known:
        return None
    worst, where = min(known) if least else max(known)
    wanted = f"at least {bound:g}" if least else f"at most {bound:g}"
    return Goal(what, wanted, worst, worst >= bound if least else worst <= bound, where)


def _tenth(case: Case) -> Case:
    return Case(case.shape, case.form, case.load, case.machines // 10)


def _middle(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:,.{0 if seconds >= 0.1 else 1}f}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.{2 if value < 10 else 1}f}"


def _short(value: float | None) -> float | None:
    return round(value, 7) if isinstance(value, float) else value
