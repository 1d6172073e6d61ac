"""Utilisation over time: one panel per resource, one line per scheduler."""

from afflux.sim.report.comparison import Comparison
from afflux.sim.report.page_sections import legend, panels, section
from afflux.sim.report.scales import share_ticks
from afflux.sim.report.svg import Area, panel_width
from afflux.sim.report.text_format import amount, escape
from afflux.sim.report.time_bins import share_over_time
from afflux.sim.report.time_chart import Line, draw_over_time

CAPTION = (
    "The share of all machines that tasks hold; look for lines that stay high while work is "
    "waiting and drop at once when it is done."
)


def draw_utilisation(comparison: Comparison) -> str:
    """The section, one panel for each resource that tasks request."""
    resources = comparison.requested
    width = panel_width(max(1, len(resources)))
    area = Area(width, 190.0 if width < 600 else 240.0)
    bins = int(area.inner_width // 3)

    def draw(name: str) -> tuple[str, str]:
        total = escape(amount(name, comparison.schedulers[0].table.total(name)))
        lines = [
            Line(s, share_over_time(s.table, name, s.table.held, span=comparison.span, bins=bins))
            for s in comparison.schedulers
        ]
        title, ticks = f"Utilisation of {name} over time", share_ticks()
        return f'{escape(name)} <span class="note">{total}</span>', draw_over_time(
            comparison, area, title=title, lines=lines, high=1.0, ticks=ticks, unit="%"
        )

    body = "<p>No task requests any resource.</p>"
    if resources:
        body = legend(comparison) + panels(map(draw, resources))
    return section("utilisation", "Utilisation", CAPTION, body)
