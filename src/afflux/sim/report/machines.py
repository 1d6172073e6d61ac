"""Machines over time as a heat map, one per scheduler."""

import numpy as np

from afflux.sim.report.comparison import ComparedScheduler, Comparison
from afflux.sim.report.page_sections import heading, panels, section
from afflux.sim.report.png import palette_png, ramp
from afflux.sim.report.svg import Area, coordinate, empty_note, label, panel_width, picture, rule
from afflux.sim.report.text_format import count, percent, plural
from afflux.sim.report.time_bins import mean_over_time
from afflux.sim.report.time_chart import time_axis
from afflux.sim.result_columns import Floats, Ints

CAPTION = (
    "Each row is {row}, its colour the utilisation of its fullest resource; "
    "look for machines that stay idle while others are full."
)
MAX_ROWS, COLUMNS = 200, 240
LEVELS = 32
LIGHT = ("#e8f3ec", "#a6d9c7", "#4fb3bf", "#1f78b4", "#1d3b7c", "#14173f")
DARK = ("#1b2f45", "#1c4a75", "#2376a3", "#3fa5b5", "#7fcbb9", "#c4ebcd")
IDLE_LIGHT, IDLE_DARK = "#f4f5f7", "#1c2027"


def draw_machines(comparison: Comparison) -> str:
    """The section, one map per scheduler on a common clock."""
    number = len(comparison.workload.machines)
    each = -(-number // MAX_ROWS) if number else 1
    row = "one machine" if each == 1 else f"the mean of {each} neighbouring machines"
    body = _key() + panels(
        (heading(s, _note(s)), _map(comparison, s, each)) for s in comparison.schedulers
    )
    return section("machines", "Machines", CAPTION.format(row=row), body)


def _note(scheduler: ComparedScheduler) -> str:
    share = scheduler.metric("utilisation")
    return "nothing held" if share is None else f"{percent(share)} on average"


def _map(comparison: Comparison, scheduler: ComparedScheduler, each: int) -> str:
    number = len(comparison.workload.machines)
    rows = max(1, -(-number // each))
    tall = max(1.0, min(16.0, 240.0 // rows)) * rows
    area = Area(panel_width(len(comparison.schedulers)), tall + 30.0, top=4.0, bottom=26.0)
    title = f"Machines over time under {scheduler.name}"
    if not number:
        return picture(area, title, "There are no machines.", [empty_note(area, "no machines")])
    shares = machine_shares(comparison, scheduler, each)
    levels = np.where(shares > 0.004, np.ceil(shares.clip(0, 1) * LEVELS), 0).astype(np.uint8)
    position = (
        f'x="{coordinate(area.left)}" y="{coordinate(area.top)}" '
        f'width="{coordinate(area.inner_width)}" height="{coordinate(area.inner_height)}"'
    )
    images = [
        f'<image class="map {scheme}" {position} preserveAspectRatio="none"'
        f' href="{palette_png(levels, ramp([idle], 1) + ramp(list(stops), LEVELS))}"/>'
        for scheme, idle, stops in (("in-light", IDLE_LIGHT, LIGHT), ("in-dark", IDLE_DARK, DARK))
    ]
    idle = percent(float((shares <= 0.004).mean()))
    parts = f"{plural(number, 'machine')}, {idle} of machine time idle."
    body = [*images, _row_axis(area, number), time_axis(comparison, area)]
    return picture(area, title, parts, body)


def machine_shares(comparison: Comparison, scheduler: ComparedScheduler, each: int) -> Floats:
    """Per row of `each` machines and time bin, the share of the fullest resource."""
    table = scheduler.table
    number = len(comparison.workload.machines)
    rows = -(-number // each)
    held = table.held
    fullest = np.zeros((rows, COLUMNS))
    row_of: Ints = np.arange(number, dtype=np.int64) // each
    for name, capacity in table.capacities.items():
        have = np.bincount(row_of, capacity, rows)
        used = mean_over_time(
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
    """Labels for the first and the last machine by number: names would not fit."""
    bottom = area.height - area.bottom
    parts = [label(area.left - 8, area.top + 9, "1", anchor="end")]
    if number > 1:
        parts.append(label(area.left - 8, bottom, count(number), anchor="end"))
    parts.append(rule(area.left, area.top, area.left, bottom, "axis"))
    return "".join(parts)


def _key() -> str:
    """The legend of the colours, for light and dark schemes."""
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
