"""Machines over time as a heat map, one per scheduler."""

import numpy as np

from afflux.sim.columns import Floats, Ints
from afflux.sim.report.binning import held_over_time
from afflux.sim.report.comparison import Comparison, Subject
from afflux.sim.report.layout import heading, panels, section
from afflux.sim.report.over_time import time_axis
from afflux.sim.report.png import Colour, palette_png, ramp
from afflux.sim.report.svg import Area, coordinate, label, nothing, panel_width, picture, rule
from afflux.sim.report.text import count, percent, plural

CAPTION = (
    "Each row is {row}, its colour the utilisation of whichever resource is fullest there; "
    "look for machines that stay idle while others are full."
)
MOST_ROWS, COLUMNS = 200, 240
LEVELS = 32
LIGHT = ("#e8f3ec", "#a6d9c7", "#4fb3bf", "#1f78b4", "#1d3b7c", "#14173f")
DARK = ("#1b2f45", "#1c4a75", "#2376a3", "#3fa5b5", "#7fcbb9", "#c4ebcd")
IDLE_LIGHT, IDLE_DARK = "#f4f5f7", "#1c2027"


def draw_machines(comparison: Comparison) -> str:
    """The section, one map per scheduler on a common clock."""
    number = len(comparison.workload.machines)
    each = -(-number // MOST_ROWS) if number else 1
    row = "one machine" if each == 1 else f"the mean of {each} neighbouring machines"
    body = _key() + panels(
        (
            heading(s, _note(s)),
            _map(comparison, s, each),
        )
        for s in comparison.subjects
    )
    return section("machines", "Machines", CAPTION.format(row=row), body)


def _note(subject: Subject) -> str:
    share = subject.figure("utilisation")
    return "nothing held" if share is None else f"{percent(share)} on average"


def _map(comparison: Comparison, subject: Subject, each: int) -> str:
    number = len(comparison.workload.machines)
    rows = max(1, -(-number // each))
    tall = max(1.0, min(16.0, 240.0 // rows)) * rows
    area = Area(panel_width(len(comparison.subjects)), tall + 30.0, top=4.0, bottom=26.0)
    title = f"Machines over time under {subject.name}"
    if not number:
        return picture(area, title, "There are no machines.", [nothing(area, "no machines")])
    shares = machine_shares(comparison, subject, each)
    levels = np.where(shares > 0.004, np.ceil(shares.clip(0, 1) * LEVELS), 0).astype(np.uint8)
    place = (
        f'x="{coordinate(area.left)}" y="{coordinate(area.top)}" '
        f'width="{coordinate(area.inner_width)}" height="{coordinate(area.inner_height)}"'
    )
    images = [
        f'<image class="map {scheme}" {place} preserveAspectRatio="none" href="{uri}"/>'
        for scheme, uri in (
            ("in-light", palette_png(levels, _palette(IDLE_LIGHT, LIGHT))),
            ("in-dark", palette_png(levels, _palette(IDLE_DARK, DARK))),
        )
    ]
    idle = float((shares <= 0.004).mean())
    return picture(
        area,
        title,
        f"{plural(number, 'machine')}, {percent(idle)} of machine time idle.",
        [*images, _row_axis(area, number), time_axis(comparison, area)],
    )


def machine_shares(comparison: Comparison, subject: Subject, each: int) -> Floats:
    """Per row of `each` machines and stretch of time, the share of the fullest resource."""
    table = subject.table
    number = len(comparison.workload.machines)
    rows = -(-number // each)
    held = table.held
    fullest = np.zeros((rows, COLUMNS))
    row_of: Ints = np.arange(number, dtype=np.int64) // each
    for name, capacity in table.capacities.items():
        have = np.bincount(row_of, capacity, rows)
        used = held_over_time(
            table.bound[held],
            table.until[held],
            table.amounts[name][held],
            span=comparison.span,
            bins=COLUMNS,
            rows=row_of[table.row[held]],
            row_count=rows,
        )
        share = np.divide(used, have[:, None], out=np.zeros_like(used), where=have[:, None] > 0)
        fullest = np.maximum(fullest, share)
    return fullest


def _row_axis(area: Area, number: int) -> str:
    """The first and the last machine by number: names would not fit."""
    bottom = area.height - area.bottom
    parts = [label(area.left - 8, area.top + 9, "1", anchor="end")]
    if number > 1:
        parts.append(label(area.left - 8, bottom, count(number), anchor="end"))
    parts.append(rule(area.left, area.top, area.left, bottom, "axis"))
    return "".join(parts)


def _palette(idle: str, stops: tuple[str, ...]) -> list[Colour]:
    return ramp([idle], 1) + ramp(list(stops), LEVELS)


def _key() -> str:
    """What the colours mean, in both schemes."""
    light, dark = (
        ", ".join(f"rgb({r} {g} {b})" for r, g, b in ramp(list(stops), 12))
        for stops in (LIGHT, DARK)
    )
    bars = (
        f'<i class="bar in-light" style="background:linear-gradient(90deg, {light})"></i>'
        f'<i class="bar in-dark" style="background:linear-gradient(90deg, {dark})"></i>'
    )
    return (
        '<p class="key"><i class="box idle"></i>idle <span class="gap"></span>'
        f"nearly empty {bars} full</p>"
    )
