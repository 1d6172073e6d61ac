"""The results of the suite as values, and how a run compares with the recorded one."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Self

PASSED = "passed"
_TAG = re.compile(r" ?\[[^\]]*\]")


@dataclass(frozen=True, slots=True)
class SpecResult:
    """How one spec ended with one scheduler."""

    name: str
    conformance: bool
    """Whether the spec is one of Kubernetes' conformance tests."""
    state: str
    """`passed`, `skipped`, or a way to fail: `failed`, `panicked`, `timedout`, ..."""
    failure: str = ""
    seconds: float = field(default=0.0, compare=False)
    """Not recorded: it differs from run to run."""

    @property
    def passed(self) -> bool:
        """Whether the spec passed."""
        return self.state == PASSED

    @property
    def title(self) -> str:
        """The name without its tags, such as `[Serial]`."""
        return _TAG.sub("", self.name).strip()


@dataclass(frozen=True, slots=True)
class Record:
    """The results of each scheduler, with the versions they were made with."""

    kubernetes: str
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    results: Mapping[str, Sequence[SpecResult]] = field(
        default_factory=dict[str, Sequence[SpecResult]]
    )

    def with_results(self, scheduler: str, version: str, results: Sequence[SpecResult]) -> "Record":
        """The record in which these results replace those of the scheduler."""
        return replace(
            self,
            versions={**self.versions, scheduler: version},
            results={**self.results, scheduler: tuple(sorted(results, key=lambda one: one.title))},
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads what `as_json` has written."""
        read = json.loads(text)
        results = {
            scheduler: tuple(SpecResult(**each) for each in found)
            for scheduler, found in read["results"].items()
        }
        return cls(read["kubernetes"], read["versions"], results)

    def as_json(self) -> str:
        """A JSON object with a line for each spec."""
        parts = (
            f"  {json.dumps(scheduler)}: [\n   " + ",\n   ".join(map(_line, found)) + "\n  ]"
            for scheduler, found in self.results.items()
        )
        head = json.dumps({"kubernetes": self.kubernetes, "versions": self.versions}, indent=1)
        return head.removesuffix("\n}") + ',\n "results": {\n' + ",\n".join(parts) + "\n }\n}\n"


def _line(result: SpecResult) -> str:
    fields = asdict(result)
    del fields["seconds"]
    return json.dumps(fields)


def passed(results: Sequence[SpecResult]) -> int:
    """How many specs passed."""
    return sum(each.passed for each in results)


def complaints(
    scheduler: str, results: Sequence[SpecResult], recorded: Sequence[SpecResult], at_least: int
) -> list[str]:
    """What is worse than demanded or recorded, in sentences. Empty: the run is good."""
    states = {each.name: each.state for each in results}
    found = [
        f"{scheduler}: {old.title}: {states.get(old.name, 'did not run')}; it passed in the "
        "recorded run"
        for old in recorded
        if old.passed and states.get(old.name) != PASSED
    ]
    if passed(results) < at_least:
        found.append(
            f"{scheduler}: {passed(results)} of {len(results)} specs passed, want {at_least}"
        )
    return found
