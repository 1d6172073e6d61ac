"""Disks over time: the throughput that tasks lose to other tasks of the same disk."""

import numpy as np

from afflux.sim.report.comparison import ComparedScheduler, Comparison
from afflux.sim.report.page_sections import legend, section
from afflux.sim.report.scales import share_ticks
from afflux.sim.report.svg import PAGE_WIDTH, Area
from afflux.sim.report.time_bins import mean_over_time
from afflux.sim.report.time_chart import Line, draw_over_time
from afflux.sim.result_columns import Floats

CAPTION = (
    "The share of the disk throughput that running tasks want and lose, because other tasks keep "
    "the same disk busy; look for how high it gets where disks are not counted."
)


def draw_disk_throughput(comparison: Comparison) -> str:
    """The section, one line per scheduler; empty if no task does anything on a disk."""
    if not comparison.workload.disks.reports:
        return ""
    area = Area(PAGE_WIDTH, 220.0)
    bins = int(area.inner_width // 3)
    lines = [Line(s, _lost_share(comparison, s, bins)) for s in comparison.schedulers]
    picture = draw_over_time(
        comparison,
        area,
        title="Disk throughput lost over time",
        lines=lines,
        high=1.0,
        ticks=share_ticks(),
        unit="%",
    )
    return section("disks", "Disks", CAPTION, legend(comparison) + picture)


def _lost_share(comparison: Comparison, scheduler: ComparedScheduler, bins: int) -> Floats:
    found = scheduler.disk_contention
    if found is None:
        return np.zeros(bins)
    wanted, lost = (
        mean_over_time(found.starts, found.stops, rates, span=comparison.span, bins=bins)[0]
        for rates in (found.wanted, found.lost)
    )
    return np.divide(lost, wanted, out=np.zeros(bins), where=wanted > 0)
