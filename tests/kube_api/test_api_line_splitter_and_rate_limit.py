"""Lines of a stream, pauses of the backoff, the limits of the rate limiter."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from afflux.control.backoff import MAX_RETRY_AFTER_SECONDS, Backoff
from afflux.kube.api.line_splitter import LineSplitter
from afflux.kube.api.rate_limit import RateLimiter

CONTENT = st.lists(st.binary(max_size=8), max_size=12)
SEPARATOR = st.sampled_from([b"\n", b"\n\n", b"\r\n"])


@given(CONTENT, SEPARATOR, st.lists(st.integers(min_value=0, max_value=120), max_size=10))
def test_lines_do_not_depend_on_where_the_stream_was_cut(
    content: list[bytes], separator: bytes, cuts: list[int]
) -> None:
    whole = b"".join(line + separator for line in content)
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    lines = LineSplitter()
    got = [line for begin, end in pairwise(places) for line in lines.feed(whole[begin:end])]
    assert got == [line for line in whole.split(b"\n") if line.strip()]


@given(CONTENT, st.binary(min_size=1, max_size=8).filter(lambda rest: b"\n" not in rest))
def test_a_line_without_its_end_is_no_line_yet(content: list[bytes], rest: bytes) -> None:
    whole = b"".join(line + b"\n" for line in content)
    lines = LineSplitter()
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
def test_retry_after_is_obeyed_up_to_a_maximum(asked: float) -> None:
    waited = Backoff(0.1, 1.0).wait_seconds(asked)
    assert waited >= min(asked, MAX_RETRY_AFTER_SECONDS)
    assert waited <= max(0.1, 1.25 * MAX_RETRY_AFTER_SECONDS)


@given(
    st.floats(min_value=0.5, max_value=1000),
    st.integers(min_value=1, max_value=50),
    st.lists(st.floats(min_value=0, max_value=2), min_size=1, max_size=200),
)
def test_no_interval_has_more_requests_than_rate_and_burst_allow(
    qps: float, burst: int, gaps: list[float]
) -> None:
    limiter = RateLimiter(qps, burst)
    now, left = 1000.0, []
    for gap in gaps:
        now += gap
        left.append(now + limiter.reserve(now))
    assert left == sorted(left)
    for first in range(len(left)):
        for last in range(first, len(left)):
            allowed = burst + (left[last] - left[first]) * qps
            assert last - first + 1 <= allowed + 1e-6


@given(st.integers(min_value=1, max_value=50))
def test_a_burst_leaves_at_once(burst: int) -> None:
    limiter = RateLimiter(10.0, burst)
    assert [limiter.reserve(5.0) for _ in range(burst)] == [0.0] * burst
    assert limiter.reserve(5.0) > 0.0
