"""Rates from counters, over a sliding window."""

from hypothesis import given
from hypothesis import strategies as st

from afflux.diskio.counters import DeviceNumber, IOCounters
from afflux.diskio.sampling import RateSampler
from afflux.model.disks import DEFAULT_BLOCK_BYTES

SDA = DeviceNumber(8, 0)
MIB = 1 << 20


def reads(amount: int, block_bytes: int = 4096) -> dict[DeviceNumber, IOCounters]:
    return {SDA: IOCounters(read_bytes=amount, read_ios=amount // block_bytes)}


def test_a_rate_is_the_mean_over_the_window() -> None:
    sampler = RateSampler[str](10.0)
    for second in range(21):
        # 1 MiB/s for ten seconds, then 3 MiB/s.
        amount = MIB * (second if second <= 10 else 10 + 3 * (second - 10))
        sampler.sample(100.0 + second, {"pod": reads(amount)})
        if second == 10:
            assert sampler.rates("pod")[SDA].read == MIB
        if second == 15:
            assert sampler.rates("pod")[SDA].read == 2 * MIB
    rate = sampler.rates("pod")[SDA]
    assert (rate.read, rate.write, rate.read_block_bytes) == (3 * MIB, 0, 4096)


def test_a_new_pod_is_not_diluted_by_the_time_before_it() -> None:
    sampler = RateSampler[str](10.0)
    for second in range(20):
        sampler.sample(float(second), {"old": reads(0)})
    sampler.sample(20.0, {"old": reads(0), "new": {}})
    assert sampler.rates("new") == {}
    assert not sampler.is_measured("new")
    # Its counters appear with its first IO.
    sampler.sample(21.0, {"old": reads(0), "new": reads(MIB)})
    assert sampler.rates("new")[SDA].read == MIB
    assert sampler.is_measured("old")
    assert not sampler.is_measured("new")


def test_reads_and_writes_have_block_sizes_of_their_own() -> None:
    sampler = RateSampler[str](10.0)
    sampler.sample(0.0, {"pod": {SDA: IOCounters(100, 100, 10, 10)}})
    after = IOCounters(100 + MIB, 100 + MIB, 10 + MIB // 512, 10 + MIB // 65536)
    sampler.sample(1.0, {"pod": {SDA: after}})
    rate = sampler.rates("pod")[SDA]
    assert (rate.read_block_bytes, rate.write_block_bytes) == (512, 65536)
    assert (rate.as_reads().block_bytes, rate.as_reads().write) == (512, 0)
    assert (rate.as_writes().write, rate.as_writes().read) == (MIB, 0)


def test_without_requests_the_block_size_is_the_default() -> None:
    sampler = RateSampler[str](10.0)
    sampler.sample(0.0, {"pod": {SDA: IOCounters()}})
    sampler.sample(1.0, {"pod": {SDA: IOCounters(read_bytes=10)}})
    assert sampler.rates("pod")[SDA].read_block_bytes == DEFAULT_BLOCK_BYTES


def test_counters_that_begin_again_begin_the_window_again() -> None:
    sampler = RateSampler[str](10.0)
    sampler.sample(0.0, {"pod": reads(100 * MIB)})
    sampler.sample(1.0, {"pod": reads(101 * MIB)})
    sampler.sample(2.0, {"pod": reads(5 * MIB)})
    assert sampler.rates("pod") == {}
    sampler.sample(3.0, {"pod": reads(7 * MIB)})
    assert sampler.rates("pod")[SDA].read == 2 * MIB


def test_a_pod_that_has_gone_and_one_of_the_same_name_begin_anew() -> None:
    sampler = RateSampler[str](10.0)
    sampler.sample(0.0, {"pod": reads(MIB)})
    sampler.sample(1.0, {})
    assert sampler.rates("pod") == {}
    sampler.sample(2.0, {"pod": reads(50 * MIB)})
    assert sampler.rates("pod") == {}


def test_a_step_of_the_clock_begins_all_windows_again() -> None:
    sampler = RateSampler[str](10.0)
    sampler.sample(0.0, {"pod": reads(0)})
    # The machine slept.
    sampler.sample(3600.0, {"pod": reads(MIB)})
    assert sampler.rates("pod") == {}
    sampler.sample(3600.0, {"pod": reads(MIB)})
    assert sampler.rates("pod") == {}
    sampler.sample(3601.0, {"pod": reads(3 * MIB)})
    assert sampler.rates("pod")[SDA].read == 2 * MIB


STEPS = st.lists(
    st.tuples(st.floats(0.1, 5.0), st.integers(0, 10 * MIB), st.integers(0, 1000), st.booleans()),
    min_size=2,
    max_size=30,
)


@given(STEPS, st.floats(1.0, 10.0))
def test_a_rate_is_never_more_than_the_fastest_step_nor_less_than_the_slowest(
    steps: list[tuple[float, int, int, bool]], window: float
) -> None:
    """Also with counters that begin again, at random."""
    sampler = RateSampler[str](window)
    now, read_bytes, ios = 0.0, 0, 0
    speeds: list[float] = []
    sampler.sample(now, {"pod": {SDA: IOCounters()}})
    for seconds, more_bytes, more_ios, is_reset in steps:
        now += seconds
        if is_reset and (read_bytes or ios):
            # A reset that the counters show: what they count now is less than before.
            read_bytes, ios = 0, 0
        else:
            read_bytes, ios = read_bytes + more_bytes, ios + more_ios
            speeds.append(more_bytes / seconds)
        sampler.sample(now, {"pod": {SDA: IOCounters(read_bytes, 0, ios, 0)}})
        for rate in sampler.rates("pod").values():
            assert min(speeds, default=0) - 1 <= rate.read <= max(speeds, default=0) + 1
            assert rate.write == 0
            assert rate.seconds <= window + 5.0
