"""Parses and checks a report page strictly."""

import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

SECTIONS = ("summary", "utilisation", "waiting", "queue", "machines", "groups", "cycles")
VOID = {"meta", "wbr", "br", "img", "link", "hr", "input"}


class Outline(HTMLParser):
    """Parses a page; every element must be closed by its own end tag."""

    def __init__(self, page: str):
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), (tag, attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def with_id(self, key: str) -> bool:
        return any(attributes.get("id") == key for _, attributes in self.elements)


def pictures(page: str) -> list[ElementTree.Element]:
    drawn = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    return [ElementTree.fromstring(svg) for svg in drawn]  # noqa: S314, it is our own page


def visible(page: str) -> str:
    """The text of a page without its tags."""
    body = re.sub(r"<(style|script)>.*?</\1>", "", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body))


def check(page: str) -> None:
    """Checks that hold for every page."""
    outline = Outline(page)
    for key in SECTIONS:
        assert outline.with_id(key), key
    for svg in pictures(page):
        if svg.get("aria-hidden") != "true":
            assert svg.get("role") == "img"
            assert svg.get("aria-label")
            assert svg[0].tag == "title"
            assert svg[0].text
            assert svg[1].tag == "desc"
            assert svg[1].text
    ids = [attributes["id"] for _, attributes in outline.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    assert not re.search(r"\b(nan|inf|infinity|None)\b", visible(page))
    assert not re.search(r'[ "](nan|-?inf)[ "]', page)
