"""Utilisation over time: one panel per resource, one line per scheduler."""

import numpy as np

from afflux.sim.columns import Floats
from afflux.sim.report.binning import held_over_time
from afflux.sim.report.comparison import Comparison, Subject
from afflux.sim.report.layout import legend, panels, section
from afflux.sim.report.over_time import Line, draw_over_time
from afflux.sim.report.scale import share_ticks
from afflux.sim.report.svg import Area, panel_width
from afflux.sim.report.text import amount, escape

CAPTION = (
    "What running tasks hold of all machines together; look for lines that stay high while work "
    "is waiting and drop at once when it is done."
)


def draw_utilisation(comparison: Comparison) -> str:
    """The section, one panel for each resource that tasks ask for."""
    resources = comparison.requested
    width = panel_width(max(1, len(resources)))
    area = Area(width, 190.0 if width < 600 else 240.0)
    bins = int(area.inner_width // 3)
    pictures = [
        (
            f'{escape(name)} <span class="note">'
            f"{escape(amount(name, comparison.subjects[0].table.total(name)))}</span>",
            draw_over_time(
                comparison,
                area,
                title=f"Utilisation of {name} over time",
                lines=[
                    Line(subject, _share(comparison, subject, name, bins))
                    for subject in comparison.subjects
                ],
                high=1.0,
                ticks=share_ticks(),
                unit="%",
            ),
        )
        for name in resources
    ]
    body = (
        legend(comparison) + panels(pictures) if pictures else "<p>No task asks for anything.</p>"
    )
    return section("utilisation", "Utilisation", CAPTION, body)


def _share(comparison: Comparison, subject: Subject, name: str, bins: int) -> Floats:
    table = subject.table
    held = table.held & (table.amounts[name] > 0)
    capacity = table.total(name)
    if not capacity or not held.any():
        return np.zeros(bins)
    return held_over_time(
        table.bound[held],
        table.until[held],
        table.amounts[name][held] / capacity,
        span=comparison.span,
        bins=bins,
    )[0]
