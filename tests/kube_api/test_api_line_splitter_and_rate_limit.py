"""Pieces become lines, however they were cut; waits and paces keep their bounds."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from afflux.kube.api.lines import Lines
from afflux.kube.api.pacing import LONGEST_PATIENCE_SECONDS, Backoff, Pace

CONTENT = st.lists(st.binary(max_size=8), max_size=12)
SEPARATOR = st.sampled_from([b"\n", b"\n\n", b"\r\n"])


@given(CONTENT, SEPARATOR, st.lists(st.integers(min_value=0, max_value=120), max_size=10))
def test_lines_do_not_depend_on_where_the_stream_was_cut(
    content: list[bytes], separator: bytes, cuts: list[int]
) -> None:
    whole = b"".join(line + separator for line in content)
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    lines = Lines()
    got = [line for begin, end in pairwise(places) for line in lines.feed(whole[begin:end])]
    assert got == [line for line in whole.split(b"\n") if line.strip()]


@given(CONTENT, st.binary(min_size=1, max_size=8).filter(lambda rest: b"\n" not in rest))
def test_a_line_without_its_end_is_no_line_yet(content: list[bytes], rest: bytes) -> None:
    whole = b"".join(line + b"\n" for line in content)
    lines = Lines()
    before = lines.feed(whole + rest)
    assert before == [line for line in whole.split(b"\n") if line.strip()]
    assert lines.feed(b"") == []
    assert lines.feed(b"x\n") == [rest + b"x"]


@given(st.floats(min_value=0.01, max_value=10), st.floats(min_value=0.01, max_value=100))
def test_waits_double_up_to_the_longest(first: float, longest: float) -> None:
    backoff = Backoff(first, longest)
    bound = first
    for _ in range(12):
        assert bound / 2 <= backoff.wait_seconds() <= bound
        bound = min(bound * 2, longest)
    backoff.reset()
    assert first / 2 <= backoff.wait_seconds() <= first


@given(st.floats(min_value=0, max_value=1e9))
def test_a_server_is_given_the_time_it_asks_for_within_reason(asked: float) -> None:
    waited = Backoff(0.1, 1.0).wait_seconds(asked)
    assert waited >= min(asked, LONGEST_PATIENCE_SECONDS)
    assert waited <= max(0.1, 1.25 * LONGEST_PATIENCE_SECONDS)


@given(
    st.floats(min_value=0.5, max_value=1000),
    st.integers(min_value=1, max_value=50),
    st.lists(st.floats(min_value=0, max_value=2), min_size=1, max_size=200),
)
def test_in_no_stretch_of_time_more_leave_than_the_rate_and_the_burst(
    per_second: float, burst: int, gaps: list[float]
) -> None:
    pace = Pace(per_second, burst)
    now, left = 1000.0, []
    for gap in gaps:
        now += gap
        left.append(now + pace.reserve(now))
    assert left == sorted(left)
    for first in range(len(left)):
        for last in range(first, len(left)):
            allowed = burst + (left[last] - left[first]) * per_second
            assert last - first + 1 <= allowed + 1e-6


@given(st.integers(min_value=1, max_value=50))
def test_a_burst_leaves_at_once(burst: int) -> None:
    pace = Pace(10.0, burst)
    assert [pace.reserve(5.0) for _ in range(burst)] == [0.0] * burst
    assert pace.reserve(5.0) > 0.0
