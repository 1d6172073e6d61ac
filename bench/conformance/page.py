"""Writes the table of docs/conformance.md from the recorded results."""

import re
from collections.abc import Sequence

from bench.conformance.results import Record, SpecResult, passed

BEGIN = "<!-- Written by `make conformance`. -->"
END = "<!-- End of what it writes. -->"


def rewritten(page: str, record: Record) -> str:
    """The page with the table of this record in the place of the old one."""
    pattern = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    if not pattern.search(page):
        raise ValueError(f"the page has no lines {BEGIN!r} and {END!r}")
    return pattern.sub(lambda _: f"{BEGIN}\n\n{section(record)}\n{END}", page)


def section(record: Record) -> str:
    """Versions, totals, and a row for each spec."""
    schedulers = list(record.results)
    totals = [
        f"- {scheduler} {record.versions[scheduler]}: {_total(record.results[scheduler])}"
        for scheduler in schedulers
    ]
    header = ["spec", "conformance", *schedulers]
    lines = [header, ["---"] * len(header), *rows(record)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    versions = f"Specs and control plane: Kubernetes {record.kubernetes.removeprefix('v')}."
    return "\n".join((versions, "", *totals, "", table, ""))


def rows(record: Record) -> list[list[str]]:
    """For each spec its title, whether it is a conformance test, and how each scheduler did."""
    by_name = {
        scheduler: {each.name: each for each in found}
        for scheduler, found in record.results.items()
    }
    specs = {each.name: each for found in record.results.values() for each in found}
    return [
        [
            spec.title,
            "yes" if spec.conformance else "",
            *(found[spec.name].state if spec.name in found else "–" for found in by_name.values()),
        ]
        for spec in sorted(specs.values(), key=lambda one: one.title)
    ]


def _total(found: Sequence[SpecResult]) -> str:
    tests = [each for each in found if each.conformance]
    return (
        f"{passed(found)} of {len(found)} specs passed, "
        f"{passed(tests)} of the {len(tests)} conformance tests among them."
    )
