"""A table of coefficients says what a byte in small blocks costs a disk more."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afflux.model.disks import Bandwidth, VolumeIO
from afflux.normalisers.block_size import parse_block_size
from afflux.normalisers.coefficient_table import (
    MAX_BLOCK_SIZES,
    MAX_TABLE_BYTES,
    CoefficientTable,
    parse_table,
)
from afflux.normalisers.errors import NormaliserRefusedError
from afflux.normalisers.normaliser import MAX_BANDWIDTH

# Ratios as measured on a real disk.
READ = {"512": 52, "1k": 18.6, "4k": 5.0, "8k": 3.2, "16k": 1.5, "32k": 1}
WRITE = {"512": 44, "1k": 23.8, "4k": 6.1, "8k": 3.5, "16k": 2.1, "32Ki": 1}
TABLE: dict[str, Any] = {"kind": "DiskCoefficients", "name": "NV100", "read": READ, "write": WRITE}


def table(**changes: object) -> CoefficientTable:
    return parse_table(json.dumps(TABLE | changes).encode())


def taken(read: int, write: int, block_bytes: int) -> Bandwidth:
    return table().estimate(VolumeIO(read, write, block_bytes)).taken


def test_a_request_takes_its_bytes_times_the_factor_of_its_block_size() -> None:
    assert taken(20_000_000, 30_000_000, 4096) == Bandwidth(100_000_000, 183_000_000, 283_000_000)
    assert taken(1, 0, 4096) == Bandwidth(5, 0, 5)
    assert taken(0, 3, 8192) == Bandwidth(0, 11, 11), "10.5, rounded up"
    assert taken(0, 0, 4096) == Bandwidth(0, 0, 0)


def test_below_the_smallest_block_size_the_factor_grows_and_above_the_largest_it_stays() -> None:
    assert taken(1000, 1000, 256) == Bandwidth(104_000, 88_000, 192_000)
    assert taken(1000, 1000, 1 << 20) == Bandwidth(1000, 1000, 2000)


def test_between_block_sizes_the_factor_is_interpolated_on_logarithmic_scales() -> None:
    halfway = table(read={"1k": 16, "4k": 4}).estimate(VolumeIO(1000, 0, 2048)).taken
    assert halfway.read == 8000


def test_what_no_disk_has_is_cut() -> None:
    huge = taken(MAX_BANDWIDTH, MAX_BANDWIDTH, 1)
    assert huge == Bandwidth(MAX_BANDWIDTH, MAX_BANDWIDTH, MAX_BANDWIDTH)


SIZES = st.integers(9, 26).map(lambda power: 1 << power) | st.integers(512, 1 << 26)
FACTORS = st.floats(0.001, 1e6)
TABLES = st.dictionaries(SIZES, FACTORS, min_size=1, max_size=12)
AMOUNTS = st.integers(0, 10**12)


@given(TABLES, TABLES, AMOUNTS, AMOUNTS, AMOUNTS, st.integers(1, 1 << 27))
def test_more_bandwidth_never_takes_less(
    read: dict[int, float], write: dict[int, float], low: int, more: int, other: int, block: int
) -> None:
    made = table(
        read={str(size): factor for size, factor in read.items()},
        write={str(size): factor for size, factor in write.items()},
    )
    less, greater = (
        made.estimate(VolumeIO(amount, other, block)).taken for amount in (low, low + more)
    )
    assert less.read <= greater.read
    assert less.write == greater.write
    assert less.total <= greater.total
    for each in (less, greater):
        assert max(each.read, each.write) <= each.total <= MAX_BANDWIDTH
        assert min(each.read, each.write) >= 0


@given(TABLES, st.data())
def test_factors_are_those_of_the_table_and_in_between_between_the_neighbours(
    factors: dict[int, float], data: st.DataObject
) -> None:
    made = table(read={str(size): factor for size, factor in factors.items()}).read
    sizes = sorted(factors)
    for size in sizes:
        assert made.at(size) == round(factors[size] * 1_000_000)
    for below, above in pairwise(sizes):
        between = made.at(data.draw(st.integers(below, above)))
        assert min(made.at(below), made.at(above)) <= between <= max(made.at(below), made.at(above))
    smaller = data.draw(st.integers(1, sizes[0]))
    assert made.at(smaller) >= made.at(sizes[0])
    assert made.at(data.draw(st.integers(sizes[-1], 1 << 40))) == made.at(sizes[-1])


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"kind": "Table"}, 'kind: "Table", expected "DiskCoefficients"'),
        ({"more": 1}, '"more": unknown field, expected one of kind, name, read, write'),
        ({"name": ""}, 'name: "", expected a text of 1 to 100 printable characters'),
        ({"name": "a\nb"}, 'name: "a\\nb", expected a text of 1 to 100 printable characters'),
        ({"read": {}}, "read: {}, expected an object of factors by block size"),
        ({"read": [1]}, "read: [1], expected an object of factors by block size"),
        ({"write": {"4k": 0}}, "write: '4k': 0, expected a factor from 0.001 to 1e+06"),
        ({"write": {"4k": -1}}, "write: '4k': -1, expected a factor from 0.001 to 1e+06"),
        ({"write": {"4k": 2e6}}, "write: '4k': 2000000.0, expected a factor"),
        ({"write": {"4k": True}}, "write: '4k': true, expected a factor"),
        ({"write": {"4k": "5"}}, "write: '4k': \"5\", expected a factor"),
        ({"read": {"4k": 5, "4096": 5}}, "read: '4096': 4096 bytes are given twice, expected once"),
        ({"read": {"511": 5}}, "read: '511', expected a block size from 512 to 64Mi"),
        ({"read": {"65M": 5}}, "read: '65M', expected a block size from 512 to 64Mi"),
        ({"read": {"4q": 5}}, "read: '4q', expected a block size such as 4k"),
        (
            {"read": {str(512 + size): 1 for size in range(MAX_BLOCK_SIZES + 1)}},
            "read: 65 block sizes, expected at most 64",
        ),
    ],
)
def test_a_wrong_table_is_refused_with_field_value_and_expectation(
    changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(NormaliserRefusedError) as refused:
        table(**changes)
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "expected JSON"),
        (b"[]", "[], expected an object"),
        (b"\xff{}", "byte 0 is not UTF-8, expected JSON"),
        (b'{"kind": NaN}', "NaN, expected a finite number"),
        (b'{"kind": -Infinity}', "-Infinity, expected a finite number"),
        (b'{"kind": 1, "kind": 2}', '"kind": given twice, expected once'),
        (b'{"kind": "DiskCoefficients"}', "name: missing, expected a value"),
        (b"[" * 100_000, f"100000 bytes, expected at most {MAX_TABLE_BYTES}"),
        (b"[" * 60_000, "nested too deeply, expected JSON"),
        (b"1" * 10_000, "a number is too long, expected JSON"),
        (json.dumps(TABLE).replace("52", "1e999").encode(), "Infinity, expected a factor"),
    ],
)
def test_what_is_no_strict_json_is_refused(content: bytes, problem: str) -> None:
    with pytest.raises(NormaliserRefusedError) as refused:
        parse_table(content)
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("written", "size"),
    [("512", 512), ("4k", 4096), ("4K", 4096), ("4Ki", 4096), ("1m", 1 << 20), (4096, 4096)],
)
def test_block_sizes_are_counted_in_1024(written: str | int, size: int) -> None:
    assert parse_block_size(written) == size


@pytest.mark.parametrize("written", ["", "0", "-4k", "4i", "4kk", "1.5k", "4 k", "2G", "٤k", True])
def test_other_texts_are_no_block_sizes(written: str | int) -> None:
    with pytest.raises(NormaliserRefusedError, match="expected a block size"):
        parse_block_size(written)
