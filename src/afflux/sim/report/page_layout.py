"""How a section of the page is put together."""

from collections.abc import Iterable

from afflux.sim.report.comparison import Comparison, Subject
from afflux.sim.report.svg import panels_across
from afflux.sim.report.text import escape


def section(key: str, title: str, caption: str, body: str) -> str:
    """A heading, one sentence that says what to look for, and the pictures."""
    return (
        f'<section id="{key}" aria-labelledby="{key}-title"><h2 id="{key}-title">{title}</h2>'
        f"<figure><figcaption>{caption}</figcaption>{body}</figure></section>\n"
    )


def legend(comparison: Comparison) -> str:
    """Which colour is which scheduler; a single one needs no legend."""
    if len(comparison.subjects) == 1:
        return ""
    items = "".join(
        f'<li class="{s.style}" data-s="{s.index}">{swatch(s)}{escape(s.name)}</li>'
        for s in comparison.subjects
    )
    return f'<ul class="legend" aria-label="Schedulers">{items}</ul>'


def marks(entries: Iterable[tuple[str, str, bool]]) -> str:
    """What marks mean: their class, the words, and whether they occur."""
    items = [
        f'<li><i class="{mark}"></i>{escape(text)}</li>' for mark, text, occurs in entries if occurs
    ]
    return f'<ul class="legend key-list">{"".join(items)}</ul>'


def swatch(subject: Subject) -> str:
    """The scheduler's line as it is drawn in the charts."""
    return (
        f'<svg class="swatch {subject.style}" viewBox="0 0 18 8" aria-hidden="true">'
        '<path class="line" d="M1 4H17"/></svg>'
    )


def panels(pictures: Iterable[tuple[str, str]]) -> str:
    """Pictures side by side, each under its heading (already HTML)."""
    drawn = [f'<div class="panel"><h3>{head}</h3>{body}</div>' for head, body in pictures]
    return f'<div class="panels across-{panels_across(len(drawn))}">{"".join(drawn)}</div>'


def heading(subject: Subject, note: str = "") -> str:
    """The heading of a panel that belongs to one scheduler."""
    said = f' <span class="note">{note}</span>' if note else ""
    return (
        f'<span class="{subject.style} named">{swatch(subject)}{escape(subject.name)}</span>{said}'
    )
