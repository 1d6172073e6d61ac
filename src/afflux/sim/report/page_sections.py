"""The parts of a section: heading, caption, legend, panels."""

from collections.abc import Iterable

from afflux.sim.report.comparison import ComparedScheduler, Comparison
from afflux.sim.report.svg import panels_across
from afflux.sim.report.text_format import escape


def section(key: str, title: str, caption: str, body: str) -> str:
    """A section with a heading, a caption that says what to look for, and the pictures."""
    return (
        f'<section id="{key}" aria-labelledby="{key}-title"><h2 id="{key}-title">{title}</h2>'
        f"<figure><figcaption>{caption}</figcaption>{body}</figure></section>\n"
    )


def legend(comparison: Comparison) -> str:
    """The colours of the schedulers; empty for a single scheduler."""
    if len(comparison.schedulers) == 1:
        return ""
    items = "".join(
        f'<li class="{s.style}" data-s="{s.index}">{line_sample(s)}{escape(s.name)}</li>'
        for s in comparison.schedulers
    )
    return f'<ul class="legend" aria-label="Schedulers">{items}</ul>'


def mark_legend(entries: Iterable[tuple[str, str, bool]]) -> str:
    """The legend of marks; each entry is a CSS class, a text, and whether the mark occurs."""
    items = [
        f'<li><i class="{mark}"></i>{escape(text)}</li>' for mark, text, occurs in entries if occurs
    ]
    return f'<ul class="legend key-list">{"".join(items)}</ul>'


def line_sample(scheduler: ComparedScheduler) -> str:
    """A short piece of the scheduler's line as drawn in the charts."""
    return (
        f'<svg class="swatch {scheduler.style}" viewBox="0 0 18 8" aria-hidden="true">'
        '<path class="line" d="M1 4H17"/></svg>'
    )


def panels(pictures: Iterable[tuple[str, str]]) -> str:
    """Pictures side by side; each has a heading, already HTML."""
    drawn = [f'<div class="panel"><h3>{head}</h3>{body}</div>' for head, body in pictures]
    return f'<div class="panels across-{panels_across(len(drawn))}">{"".join(drawn)}</div>'


def heading(scheduler: ComparedScheduler, note: str = "") -> str:
    """The heading of one scheduler's panel."""
    name = f"{line_sample(scheduler)}{escape(scheduler.name)}"
    shown = f' <span class="note">{note}</span>' if note else ""
    return f'<span class="{scheduler.style} named">{name}</span>{shown}'
