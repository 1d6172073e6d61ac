"""Groups over time: how long each waited and when it ran, one panel per scheduler."""

import math

import numpy as np

from afflux.sim.columns import Floats
from afflux.sim.report.comparison import Comparison, Subject
from afflux.sim.report.layout import heading, panels, section
from afflux.sim.report.over_time import time_axis, time_scale
from afflux.sim.report.scale import Linear
from afflux.sim.report.svg import Area, coordinate, nothing, panel_width, path, picture
from afflux.sim.report.text import count, duration, escape, percent, plural

CAPTION = (
    "Each row is a group, in the order of submission and the same in every panel: a thin line "
    "while it waits, a solid bar while it runs; look for long thin lines. {sample}"
)
MOST = 150
LONGEST = 15
TONES = 4


def draw_timeline(comparison: Comparison) -> str:
    """The section, one panel per scheduler with the same groups in the same rows."""
    chosen, total = choose(comparison)
    tones, entries = _tones(comparison, chosen)
    body = _key(comparison, entries) + panels(
        (heading(s, _note(s)), _gantt(comparison, s, chosen, tones)) for s in comparison.subjects
    )
    sample = f"All {count(total)} groups are shown." if total != 1 else "There is one group."
    if len(chosen) < total:
        sample = (
            f"{count(len(chosen))} of {count(total)} groups are shown: "
            f"the {LONGEST} that waited longest under any scheduler, the others evenly chosen."
        )
    return section("groups", "Groups", CAPTION.format(sample=sample), body)


def choose(comparison: Comparison) -> tuple[list[str], int]:
    """The groups to show in the order of submission, and how many there are in all."""
    order: dict[str, float] = {}
    longest: dict[str, float] = {}
    for subject in comparison.subjects:
        groups = subject.table.groups
        waits = np.where(np.isnan(groups.wait), math.inf, groups.wait)
        for name, submit, wait in zip(
            groups.names, groups.submit.tolist(), waits.tolist(), strict=True
        ):
            order.setdefault(name, submit)
            longest[name] = max(longest.get(name, 0.0), wait)
    names = sorted(order, key=lambda name: order[name])
    if len(names) <= MOST:
        return names, len(names)
    outliers = set(sorted(names, key=lambda name: -longest[name])[:LONGEST])
    others = [name for name in names if name not in outliers]
    places = np.linspace(0, len(others) - 1, MOST - LONGEST).round().astype(int)
    chosen: set[str] = outliers | {others[int(place)] for place in places}
    return [name for name in names if name in chosen], len(names)


def _tones(
    comparison: Comparison, chosen: list[str]
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The class of each group's bar, and what the classes mean.

    Bars are told apart by priority if there are several, otherwise by kind.
    """
    known = {s.group.name: s.group for s in comparison.workload.submissions}
    shown = {name: known[name] for name in chosen if name in known}
    priorities = sorted({group.priority for group in shown.values()}, reverse=True)
    if len(priorities) <= 1:
        kinds = {name: "t0" if group.is_gang else "t2" for name, group in shown.items()}
        entries = [("t0", "gang"), ("t2", "single task")]
        entries = [entry for entry in entries if entry[0] in kinds.values()]
        return kinds, entries
    # The highest priority has the strongest tone; beyond four, neighbours share one.
    tone = {p: rank * TONES // max(TONES, len(priorities)) for rank, p in enumerate(priorities)}
    entries: list[tuple[str, str]] = []
    for step in sorted(set(tone.values())):
        within = [p for p in priorities if tone[p] == step]
        text = str(within[0]) if len(within) == 1 else f"{within[-1]} to {within[0]}"
        entries.append((f"t{step}", f"priority {text}"))
    return {name: f"t{tone[group.priority]}" for name, group in shown.items()}, entries


def _key(comparison: Comparison, entries: list[tuple[str, str]]) -> str:
    """What the marks mean, of those that occur."""
    tables = [s.table for s in comparison.subjects]
    marks = [
        *((f"box {tone}", text, True) for tone, text in entries),
        ("box wait", "waits", True),
        ("box unstarted", "never started", any(np.isnan(t.groups.start).any() for t in tables)),
        (
            "box part",
            "holds machines, still waits for its rest",
            any((t.working_from > t.bound)[t.held].any() for t in tables),
        ),
        (
            "gang-mark",
            "gangs are taller than single tasks",
            any(len(set((t.groups.size > 1).tolist())) > 1 for t in tables),
        ),
    ]
    items = [
        f'<li><i class="{mark}"></i>{escape(text)}</li>' for mark, text, occurs in marks if occurs
    ]
    return f'<ul class="legend key-list">{"".join(items)}</ul>'


def _note(subject: Subject) -> str:
    waits = subject.table.groups.wait
    if not waits.size:
        return ""
    started = waits[~np.isnan(waits)]
    never = waits.size - started.size
    at_once = percent(float((started <= 0).sum()) / waits.size)
    return f"{at_once} at once" + (f", {count(never)} never" if never else "")


def _gantt(
    comparison: Comparison, subject: Subject, chosen: list[str], tones: dict[str, str]
) -> str:
    row_height = max(3.2, min(14.0, 300.0 / max(1, len(chosen))))
    tall = max(40.0, row_height * len(chosen))
    width = panel_width(len(comparison.subjects))
    area = Area(width, tall + 32.0, left=10.0, top=4.0, bottom=28.0)
    scale = time_scale(comparison, area)
    groups = subject.table.groups
    place = {name: index for index, name in enumerate(groups.names)}
    first_bound = _first_bound(subject)
    bars: list[str] = []
    for row, name in enumerate(chosen):
        index = place.get(name)
        if index is None:
            continue
        times = (
            float(groups.submit[index]),
            float(first_bound[index]),
            float(groups.start[index]),
            float(groups.end[index]),
        )
        size = int(groups.size[index])
        bars.append(
            _bar(
                comparison,
                scale,
                name=name,
                size=size,
                tone=tones.get(name, "t2"),
                times=times,
                middle=area.top + (row + 0.5) * row_height,
                height=row_height * (0.94 if size > 1 else 0.58),
            )
        )
    body = [*bars, time_axis(comparison, area)]
    if not bars:
        body.append(nothing(area, "no groups"))
    said = f"{plural(len(bars), 'group')} of {count(len(groups.names))}; {_note(subject)}."
    return picture(area, f"Groups over time under {subject.name}", said, body)


def _bar(
    comparison: Comparison,
    scale: Linear,
    *,
    name: str,
    size: int,
    tone: str,
    times: tuple[float, float, float, float],
    middle: float,
    height: float,
) -> str:
    """One group: submission, first member placed, start, end; NaN where there was none."""
    submit, bound, start, end = times
    never = math.isnan(start)
    stop = comparison.end if math.isnan(end) else end
    places = [
        scale.place(t - comparison.begin)
        for t in (submit, comparison.end if never else start, stop)
    ]
    y = coordinate(middle)
    parts: list[str] = []
    if places[1] - places[0] > 0.2:
        style = "wait never" if never else "wait"
        parts.append(path(f"M{coordinate(places[0])} {y}H{coordinate(places[1])}", style))
    thick = f' stroke-width="{coordinate(height)}"'
    held = scale.place(bound - comparison.begin) if not math.isnan(bound) else places[1]
    if places[1] - held > 0.2:
        data = f"M{coordinate(held)} {y}H{coordinate(places[1])}"
        parts.append(path(data, f"part {tone}", thick))
    if not never:
        data = f"M{coordinate(places[1])} {y}h{coordinate(max(0.7, places[2] - places[1]))}"
        parts.append(path(data, f"run {tone}", thick))
    said = [f"{name}, {plural(size, 'task')}"]
    said.append("never started" if never else f"waited {duration(start - submit)}")
    if not never:
        said.append("still running" if math.isnan(end) else f"ran {duration(end - start)}")
    return (
        f"<g><title>{escape(': '.join([said[0], ', '.join(said[1:])]))}</title>{''.join(parts)}</g>"
    )


def _first_bound(subject: Subject) -> Floats:
    """Per group when its first member was placed, NaN if none was."""
    table = subject.table
    found = np.full(len(table.groups.names), np.inf)
    np.minimum.at(found, table.group, np.where(np.isnan(table.bound), np.inf, table.bound))
    return np.where(np.isinf(found), np.nan, found)
