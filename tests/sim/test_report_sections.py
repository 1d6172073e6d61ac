"""The summary and timeline of the report, and how it computes and formats values."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_parser import visible
from report_results import NEVER, PAGE, RAN, RESULTS, STRANDED, tiny

from afflux.sim.report import render
from afflux.sim.report.scales import time_ticks
from afflux.sim.report.text_format import duration
from afflux.sim.report.time_bins import mean_over_time


class TestTheSummary:
    def rows(self, page: str) -> dict[str, list[str]]:
        found = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', page)
        return {
            re.sub("<small>.*", "", name): re.findall(r"<td.*?</td>", cells)
            for name, cells in found
        }

    def test_marks_the_best_value_of_a_row(self):
        fast, slow = tiny([RAN], "fast"), tiny([(20.0, 20.0, 30.0)], "slow")
        mean = self.rows(render([slow, fast]))["Mean wait"]
        assert "best" not in mean[0]
        assert "20.0 s" in mean[0]
        assert "best" in mean[1]

    def test_a_scheduler_with_more_unplaced_tasks_cannot_win(self):
        picky = tiny([RAN, NEVER], "picky")
        patient = tiny([RAN, (40.0, 40.0, 50.0)], "patient")
        page = render([picky, patient])
        rows = self.rows(page)
        for name in ("Mean wait", "Longest wait", "Makespan", "Unplaced"):
            assert ["best" in cell for cell in rows[name]] == [False, True], name
        assert "picky left 1 task unplaced" in visible(page)
        assert "cannot win a row" in visible(page)

    def test_utilisation_without_work_cannot_win(self):
        holding = tiny([STRANDED, RAN], "holding")
        working = tiny([RAN, RAN], "working")
        rows = self.rows(render([holding, working]))
        assert not any("best" in cell for cell in rows["Utilisation"])
        assert ["best" in cell for cell in rows["of it at work"]] == [False, True]
        assert ["best" in cell for cell in rows["of it stranded"]] == [False, True]

    def test_equal_values_have_no_winner(self):
        page = render([tiny([RAN], "a"), tiny([RAN], "b")])
        assert 'class="best"' not in page
        assert "No scheduler is better than another" in visible(page)

    def test_a_single_scheduler_has_no_best_values(self):
        assert 'class="best"' not in render(RESULTS[:1])


class TestTheTimeline:
    def test_shows_a_sample_with_the_longest_waits(self):
        lives = [(float(i % 7), float(i % 7), 20.0) for i in range(400)]
        lives[123] = (90.0, 90.0, 95.0)
        page = render([tiny(lives)])
        assert "g123, 1 task: waited 1 min 30 s, ran 5.00 s" in page
        assert "150 of 400 groups are shown" in visible(page)

    def test_shows_all_groups_if_they_are_few(self):
        assert "All 120 groups are shown" in visible(PAGE)


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.floats(0, 50), st.floats(0, 50), st.floats(0, 9)),
        max_size=8,
    ),
    st.integers(1, 9),
)
def test_means_over_time_equal_the_sum_of_overlaps(
    intervals: list[tuple[int, float, float, float]], bins: int
):
    span = (5.0, 45.0)
    width = (span[1] - span[0]) / bins
    expected = np.zeros((4, bins))
    for row, start, length, weight in intervals:
        for index in range(bins):
            low, high = span[0] + index * width, span[0] + (index + 1) * width
            overlap = max(0.0, min(start + length, high) - max(start, low))
            expected[row, index] += weight * overlap / width
    rows, starts, lengths, weights = (
        np.array(column) for column in (zip(*intervals, strict=True) if intervals else [()] * 4)
    )
    found = mean_over_time(
        starts.astype(float),
        (starts + lengths).astype(float),
        weights.astype(float),
        span=span,
        bins=bins,
        rows=rows.astype(np.int64),
        row_count=4,
    )
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (2.5e-7, "0.250 µs"),
        (0.0123, "12.3 ms"),
        (0.9999, "1.00 s"),
        (4.25, "4.25 s"),
        (59.96, "1 min"),
        (185, "3 min 5 s"),
        (3599.7, "1 h"),
        (4321, "1 h 12 min"),
        (86399, "1 d"),
        (183600, "2 d 3 h"),
        (1e9, "11,574 d 2 h"),
    ],
)
def test_durations_have_at_most_two_units(seconds: float, text: str):
    assert duration(seconds) == text


@given(st.floats(1e-6, 1e9))
def test_ticks_are_few_and_within_the_scale(seconds: float):
    ticks = time_ticks(seconds)
    assert 1 <= len(ticks) <= 8
    assert all(0 <= at <= seconds * (1 + 1e-6) for at, _ in ticks)
    assert len({text for _, text in ticks}) == len(ticks)
