"""The queue over time: how many tasks were waiting."""

import numpy as np

from afflux.sim.report.comparison import ComparedScheduler, Comparison
from afflux.sim.report.page_sections import legend, section
from afflux.sim.report.scales import count_ticks
from afflux.sim.report.svg import PAGE_WIDTH, Area
from afflux.sim.report.time_bins import mean_over_time
from afflux.sim.report.time_chart import Line, draw_over_time
from afflux.sim.result_columns import Floats

CAPTION = (
    "Tasks that have been submitted and have not started; look for how high the queue gets and "
    "how soon it is empty again."
)


def draw_queue(comparison: Comparison) -> str:
    """The section, one line per scheduler."""
    area = Area(PAGE_WIDTH, 220.0)
    bins = int(area.inner_width // 3)
    lines = [Line(s, _waiting(comparison, s, bins)) for s in comparison.schedulers]
    high = max(1.0, max(float(line.values.max()) for line in lines) * 1.05)
    title, ticks = "Waiting tasks over time", count_ticks(high)
    picture = draw_over_time(
        comparison, area, title=title, lines=lines, high=high, ticks=ticks, unit="tasks"
    )
    return section("queue", "Queue", CAPTION, legend(comparison) + picture)


def _waiting(comparison: Comparison, scheduler: ComparedScheduler, bins: int) -> Floats:
    table = scheduler.table
    if not table.submit.size:
        return np.zeros(bins)
    until = np.where(np.isnan(table.start), comparison.end, table.start)
    ones = np.ones(until.size)
    return mean_over_time(table.submit, until, ones, span=comparison.span, bins=bins)[0]
