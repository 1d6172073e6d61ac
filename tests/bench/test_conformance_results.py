"""Results of the conformance suite: totals, comparison with the record, JSON, and the page."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # bench is not part of the package

from bench.conformance import page
from bench.conformance.results import Record, SpecResult, complaints, passed

BINPACK = "[sig-scheduling] Predicates [Serial] respects limits [Conformance]"
SPREAD = "[sig-scheduling] Multi-AZ spreads pods"


def spec(name: str = BINPACK, state: str = "passed") -> SpecResult:
    failure = "" if state == "passed" else 'want "a | b"\ngot c'
    return SpecResult(name, "[Conformance]" in name, state, failure, 1.5)


def record() -> Record:
    made = Record("v1.37.1").with_results("peer", "1", [spec(SPREAD), spec()])
    return made.with_results("ours", "2", [spec(), spec(SPREAD, "failed")])


def test_a_title_has_no_tags() -> None:
    assert spec().title == "Predicates respects limits"


def test_a_record_survives_json() -> None:
    assert Record.from_json(record().as_json()) == record()


def test_new_results_replace_those_of_the_same_scheduler_only() -> None:
    newer = record().with_results("ours", "3", [spec()])
    assert newer.results["peer"] == record().results["peer"]
    assert newer.versions == {"peer": "1", "ours": "3"}
    assert passed(newer.results["ours"]) == 1


@pytest.mark.parametrize("state", ["failed", "skipped", "timedout"])
def test_a_spec_that_used_to_pass_is_complained_about(state: str) -> None:
    (complaint,) = complaints("ours", [spec(state=state)], [spec()], 0)
    assert "Predicates respects limits" in complaint
    assert state in complaint


def test_a_recorded_spec_that_did_not_run_is_complained_about() -> None:
    (complaint,) = complaints("ours", [spec()], [spec(), spec(SPREAD)], 0)
    assert "did not run" in complaint


def test_a_spec_that_never_passed_is_not_complained_about() -> None:
    assert complaints("ours", [spec(state="failed")], [spec(state="failed")], 0) == []


def test_too_few_passed_specs_are_complained_about() -> None:
    found = [spec(), spec(SPREAD, "skipped")]
    assert complaints("ours", found, [], 1) == []
    (complaint,) = complaints("ours", found, [], 2)
    assert complaint == "ours: 1 of 2 specs passed, want 2"


def test_the_page_has_a_row_for_each_spec_and_keeps_its_text() -> None:
    text = page.rewritten(f"# Title\n\n{page.BEGIN}\nold\n{page.END}\n\nmore\n", record())
    assert text.startswith("# Title\n")
    assert text.endswith("\n\nmore\n")
    assert "old" not in text
    assert "| Predicates respects limits | yes | passed | passed |" in text
    assert "| Multi-AZ spreads pods |  | passed | failed |" in text
    assert "- ours 2: 1 of 2 specs passed, 1 of the 1 conformance tests among them." in text
    assert page.rewritten(text, record()) == text


def test_a_page_without_the_marked_section_is_refused() -> None:
    with pytest.raises(ValueError, match="no lines"):
        page.rewritten("# Title\n", record())
