"""The queue over time: how many tasks were waiting."""

import numpy as np

from afflux.sim.columns import Floats
from afflux.sim.report.binning import held_over_time
from afflux.sim.report.comparison import Comparison, Subject
from afflux.sim.report.layout import legend, section
from afflux.sim.report.over_time import Line, draw_over_time
from afflux.sim.report.scale import count_ticks
from afflux.sim.report.svg import PAGE_WIDTH, Area

CAPTION = (
    "Tasks that have been submitted and have not started; look for how high the queue gets and "
    "how soon it is empty again."
)


def draw_queue(comparison: Comparison) -> str:
    """The section, one line per scheduler."""
    area = Area(PAGE_WIDTH, 220.0)
    bins = int(area.inner_width // 3)
    lines = [Line(s, _waiting(comparison, s, bins)) for s in comparison.subjects]
    high = max(1.0, max(float(line.values.max()) for line in lines) * 1.05)
    picture = draw_over_time(
        comparison,
        area,
        title="Waiting tasks over time",
        lines=lines,
        high=high,
        ticks=count_ticks(high),
        unit="tasks",
    )
    return section("queue", "Queue", CAPTION, legend(comparison) + picture)


def _waiting(comparison: Comparison, subject: Subject, bins: int) -> Floats:
    table = subject.table
    if not table.submit.size:
        return np.zeros(bins)
    until = np.where(np.isnan(table.start), comparison.end, table.start)
    return held_over_time(
        table.submit, until, np.ones(until.size), span=comparison.span, bins=bins
    )[0]
