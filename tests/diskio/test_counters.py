"""The kernel's counters of disk IO, from fixtures in the form of several kernels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afflux.diskio.counters import (
    NO_IO,
    DeviceNumber,
    IOCounters,
    device_number,
    parse_blkio,
    parse_diskstats,
    parse_io_stat,
)

SDA, NVME = DeviceNumber(8, 0), DeviceNumber(259, 0)

AMOUNTS = st.integers(0, 2**64 - 1)
COUNTERS = st.builds(IOCounters, AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS)
DEVICES = st.builds(DeviceNumber, st.integers(0, 4095), st.integers(0, 2**20 - 1))
TABLES = st.dictionaries(DEVICES, COUNTERS, max_size=5)

# --- cgroup version 2


def test_io_stat_has_one_line_for_each_device() -> None:
    text = (
        "259:0 rbytes=180224 wbytes=4096 rios=3 wios=1 dbytes=0 dios=0\n"
        "8:0 rbytes=0 wbytes=1073741824 rios=0 wios=1024 dbytes=0 dios=0\n"
    )
    assert parse_io_stat(text) == {
        NVME: IOCounters(180224, 4096, 3, 1),
        SDA: IOCounters(0, 1073741824, 0, 1024),
    }


def test_keys_of_other_controllers_are_skipped() -> None:
    text = (
        "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6 cost.usage=7 cost.wait=8 use_delay=x\n"
    )
    assert parse_io_stat(text) == {SDA: IOCounters(1, 2, 3, 4)}


def test_a_device_without_counters_before_another_one_is_skipped() -> None:
    """Some kernels print both on one line."""
    assert parse_io_stat("259:0 8:0 rbytes=1 wbytes=2 rios=3 wios=4\n") == {
        SDA: IOCounters(1, 2, 3, 4)
    }
    assert parse_io_stat("8:0 \n") == {}
    assert parse_io_stat("") == {}


@given(TABLES)
def test_what_io_stat_says_is_what_is_read(table: dict[DeviceNumber, IOCounters]) -> None:
    text = "".join(
        f"{device} rbytes={c.read_bytes} wbytes={c.write_bytes} rios={c.read_ios}"
        f" wios={c.write_ios} dbytes=0 dios=0\n"
        for device, c in table.items()
    )
    assert parse_io_stat(text) == table


# --- cgroup version 1


def blkio(table: dict[DeviceNumber, IOCounters], *, of_bytes: bool) -> str:
    lines: list[str] = []
    for device, c in table.items():
        read, write = (c.read_bytes, c.write_bytes) if of_bytes else (c.read_ios, c.write_ios)
        total = read + write
        pairs = {"Read": read, "Write": write, "Sync": total, "Async": 0, "Discard": 0}
        lines += [
            f"{device} {name} {amount}" for name, amount in (pairs | {"Total": total}).items()
        ]
    return "\n".join([*lines, "Total 4849664"])


def test_blkio_has_two_files() -> None:
    service_bytes = "254:0 Read 4194304\n254:0 Write 655360\n254:0 Sync 4849664\n254:0 Async 0\n"
    serviced = "254:0 Read 1024\n254:0 Write 10\n254:0 Sync 1034\nTotal 1034\n"
    assert parse_blkio(service_bytes + "254:0 Total 4849664\nTotal 4849664\n", serviced) == {
        DeviceNumber(254, 0): IOCounters(4194304, 655360, 1024, 10)
    }


def test_a_cgroup_without_io_has_only_a_total() -> None:
    assert parse_blkio("Total 0\n", "Total 0\n") == {}


@given(TABLES)
def test_what_blkio_says_is_what_is_read(table: dict[DeviceNumber, IOCounters]) -> None:
    assert parse_blkio(blkio(table, of_bytes=True), blkio(table, of_bytes=False)) == table


# --- Disks


def test_diskstats_counts_in_sectors_of_512_bytes() -> None:
    text = (
        "   8       0 sda 1000 20 16000 500 200 30 8000 900 0 700 1400 0 0 0 0 10 5\n"
        "   8       1 sda1 10 0 80 5 2 0 16 1 0 4 6\n"
        " 259       0 nvme0n1 7 0 56 1 0 0 0 0 0 1 1 38 11827344 5113\n"
    )
    assert parse_diskstats(text) == {
        SDA: IOCounters(16000 * 512, 8000 * 512, 1000, 200),
        DeviceNumber(8, 1): IOCounters(80 * 512, 16 * 512, 10, 2),
        NVME: IOCounters(56 * 512, 0, 7, 0),
    }


def test_the_short_lines_of_old_kernels_are_skipped() -> None:
    assert parse_diskstats("8 1 sda1 10 80 2 16\n") == {}


# --- All of them


@pytest.mark.parametrize("parse", [parse_io_stat, parse_diskstats, lambda t: parse_blkio(t, t)])
@given(text=st.text(st.sampled_from("0123456789: =rwbytesioadTotal\n-x²"), max_size=200))
def test_no_text_is_an_error_and_counters_are_never_negative(parse, text: str) -> None:
    for counters in parse(text).values():
        assert not counters.went_back


@given(COUNTERS, COUNTERS)
def test_sum_and_difference_are_inverse(one: IOCounters, other: IOCounters) -> None:
    assert one + other - other == one
    assert not (one + other - other).went_back
    assert (one - one) == NO_IO


def test_a_device_number_is_two_numbers() -> None:
    assert device_number("8:16") == DeviceNumber(8, 16)
    assert [device_number(text) for text in ("8", "8:", ":1", "a:1", "-1:1", "²:1")] == [None] * 6
