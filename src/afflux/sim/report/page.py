"""Renders and writes the whole page."""

import os
from collections.abc import Sequence
from importlib.resources import files

from afflux.atomic_write import atomic_write
from afflux.sim.report.backfilled_share import draw_backfilling
from afflux.sim.report.comparison import Comparison, compare
from afflux.sim.report.cycle_times import draw_cycles
from afflux.sim.report.disk_throughput import draw_disk_throughput
from afflux.sim.report.distributions import draw_distributions
from afflux.sim.report.machines import draw_machines
from afflux.sim.report.summary import draw_summary
from afflux.sim.report.text_format import amount, escape, listing, plural
from afflux.sim.report.timeline import draw_timeline
from afflux.sim.report.timeline_excerpt import draw_excerpt
from afflux.sim.report.utilisation import draw_utilisation
from afflux.sim.report.waiting_tasks import draw_queue
from afflux.sim.result import Result

SECTIONS = (
    draw_summary,
    draw_utilisation,
    draw_disk_throughput,
    draw_distributions,
    draw_queue,
    draw_machines,
    draw_backfilling,
    draw_excerpt,
    draw_timeline,
    draw_cycles,
)


# The browser refuses to load anything from outside the page.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def write_report(results: Sequence[Result], path: str | os.PathLike[str]) -> None:
    """Writes the page that compares these results, atomically."""
    page = render(results)
    with atomic_write(path) as file:
        file.write(page)


def render(results: Sequence[Result]) -> str:
    """The page as self-contained HTML."""
    comparison = compare(results)
    name = escape(comparison.workload.name)
    sections = "".join(draw(comparison) for draw in SECTIONS)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{name} · afflux</title>\n<style>\n{_asset('page.css')}</style>\n</head>\n"
        f"<body>\n<main>\n{_header(comparison, name)}{sections}</main>\n{_footer()}"
        f"<script>\n{_asset('page.js')}</script>\n</body>\n</html>\n"
    )


def _asset(name: str) -> str:
    return files("afflux.sim.report").joinpath(name).read_text(encoding="utf-8")


def _header(comparison: Comparison, name: str) -> str:
    names = [f"<b>{escape(scheduler.name)}</b>" for scheduler in comparison.schedulers]
    verb = "compared" if len(names) > 1 else "alone"
    return (
        f'<header><p class="over">afflux simulation</p><h1>{name}</h1>'
        f'<p class="lead">{listing(names)}, {verb} on {_facts(comparison)}.</p></header>\n'
    )


def _facts(comparison: Comparison) -> str:
    workload, table = comparison.workload, comparison.schedulers[0].table
    gangs = int((table.groups.size > 1).sum())
    among = f" ({plural(gangs, 'gang')})" if gangs else ""
    have = [amount(name, table.total(name)) for name in comparison.requested]
    offered = f" with {escape(listing(have))}" if have else ""
    return (
        f"{plural(int(table.submit.size), 'task')} in {plural(len(table.groups.names), 'group')}"
        f"{among} and {plural(len(workload.machines), 'machine')}{offered}"
    )


def _footer() -> str:
    return (
        "<footer><p>Waits and slowdowns are per group; a single task is a group of one. "
        "Percentiles are interpolated linearly. Times are those of the virtual clock and start at "
        "the first submission; only the time per cycle is real.</p></footer>\n"
    )
