"""Durations in the notation of Go and Kubernetes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afflux.config.durations import Duration, parse_duration, seconds


@pytest.mark.parametrize(
    ("text", "wanted_seconds"),
    [
        ("15s", 15),
        ("1m30s", 90),
        ("1h", 3600),
        ("1h0m0.5s", 3600.5),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("2.s", 2),
        ("500ms", 0.5),
        ("1us", 1e-6),
        ("1µs", 1e-6),
        ("1μs", 1e-6),
        ("7ns", 7e-9),
        ("0", 0),
        ("0s", 0),
        ("30s1m", 90),
    ],
)
def test_they_parse_as_in_go(text: str, wanted_seconds: float) -> None:
    assert parse_duration(text).seconds == pytest.approx(wanted_seconds)


@pytest.mark.parametrize(
    "text",
    ["", "15", "s", "15 s", "1d", "-1s", "1s ", "1S", ".s", "1e3s", "15sec", "9999999h", "١s"],
)
def test_invalid_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration such as 15s, 1m30s or 500ms"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (15 * 10**9, "15s"),
        (90 * 10**9, "1m30s"),
        (600 * 10**9, "10m"),
        (3_600 * 10**9, "1h"),
        (1_500_000_000, "1.5s"),
        (500_000_000, "500ms"),
        (1_500, "1.5us"),
        (7, "7ns"),
        (0, "0s"),
    ],
)
def test_they_are_written_short(nanoseconds: int, text: str) -> None:
    assert str(Duration(nanoseconds)) == text


@given(st.integers(0, (1 << 63) - 1))
def test_written_durations_parse_to_the_same_value(nanoseconds: int) -> None:
    assert parse_duration(str(Duration(nanoseconds))) == nanoseconds


def test_they_can_be_compared() -> None:
    assert seconds(2) < seconds(3)
    assert seconds(90) == parse_duration("1m30s")
