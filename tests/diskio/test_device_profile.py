"""Profiles of disks: the file, the capacity, the coefficients."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afflux.diskio.device_profile import (
    DeviceProfile,
    decode_profile,
    encode_profile,
    find_profile,
)
from afflux.diskio.normaliser_pages import normaliser_content
from afflux.model.disks import Bandwidth, VolumeIO
from afflux.model.errors import InputError
from afflux.normalisers.normaliser import load_normaliser

WRITTEN: dict[str, Any] = {
    "kind": "DiskProfile",
    "model": "intel/p4510",
    "read": {"512": 10e6, "4k": 100e6, "32k": 500e6},
    "write": {"4k": 80e6, "32Ki": 400e6},
    "total": 450e6,
}


def decoded(**changes: Any) -> DeviceProfile:
    fields = {key: value for key, value in (WRITTEN | changes).items() if value is not None}
    return decode_profile(json.dumps(fields).encode(), "p.json")


def test_the_capacity_is_the_bandwidth_in_the_largest_blocks() -> None:
    profile = decoded()
    assert profile.capacity == Bandwidth(500_000_000, 400_000_000, 450_000_000)
    assert decoded(total=None).capacity.total == 500_000_000


def test_the_coefficients_say_by_how_much_small_blocks_cost_more() -> None:
    assert decoded().coefficients() == {
        "kind": "DiskCoefficients",
        "name": "intel/p4510",
        "read": {"512": 50.0, "4096": 5.0, "32768": 1.0},
        "write": {"4096": 5.0, "32768": 1.0},
    }


def test_noise_does_not_make_larger_blocks_cost_more() -> None:
    found = decoded(read={"4k": 300e6, "8k": 100e6, "16k": 210e6, "32k": 200e6}).coefficients()
    assert found["read"] == {"4096": 2.0, "8192": 2.0, "16384": 1.0, "32768": 1.0}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "DiskCoefficients"}, "kind: 'DiskCoefficients', expected DiskProfile"),
        ({"model": "p4510"}, "model: 'p4510', expected vendor/model"),
        ({"model": ""}, "model: '', expected vendor/model"),
        ({"read": {}}, "read: 0 block sizes, expected from 1 to 64"),
        ({"read": {"4q": 1}}, "read: '4q', expected a block size such as 4k"),
        ({"read": {"0": 1}}, "read: '0', expected a block size from"),
        ({"read": {"4k": 1, "4096": 1}}, "the block size is there twice"),
        ({"write": {"4k": 0}}, "write[4k]: 0.0, expected bytes per second, at least 1"),
        ({"write": {"4k": -5}}, "write[4k]: -5.0, expected bytes per second"),
        ({"write": {"4k": 1e300}}, "expected bytes per second"),
        ({"total": 0.1}, "total: 0.1, expected bytes per second"),
        ({"write": {"4k": "fast"}}, 'write'),
        ({"totals": 1}, "totals"),
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_profile_names_the_field(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as refused:
        decoded(**changes)
    assert str(refused.value).startswith("p.json: ")
    assert words in str(refused.value)


def test_a_model_may_be_unknown_if_the_disk_is_named() -> None:
    assert decoded(model="", devices=["vda"]).is_for("vda", "")
    assert not decoded(model="", devices=["vda"]).is_for("vdb", "")


def test_another_kind_of_file_is_refused_as_such() -> None:
    table = b'{"kind": "DiskCoefficients", "name": "n", "read": {}, "write": {}}'
    with pytest.raises(InputError, match=r"kind: 'DiskCoefficients', expected DiskProfile$"):
        decode_profile(table, "p.json")


def test_text_that_is_not_json_is_refused() -> None:
    with pytest.raises(InputError, match=r"p\.json: not valid JSON"):
        decode_profile(b"{", "p.json")


def test_a_profile_of_the_disk_comes_before_one_of_its_model() -> None:
    of_model, of_disk = decoded(), decoded(devices=["d1"])
    assert find_profile([of_model, of_disk], "d1", "intel/p4510") is of_disk
    assert find_profile([of_model, of_disk], "d2", "intel/p4510") is of_model
    assert find_profile([of_model, of_disk], "d2", "other/disk") is None
    assert find_profile([of_model], "d2", "") is None


BY_BLOCK = st.dictionaries(
    st.integers(512, 64 << 20), st.integers(1, 2**53), min_size=1, max_size=8
)
PROFILES = st.builds(
    DeviceProfile,
    st.just("v/m"),
    BY_BLOCK,
    BY_BLOCK,
    st.integers(1, 2**53),
    st.lists(st.text("abc", min_size=1), max_size=2).map(tuple),
    st.booleans(),
    st.just("there"),
)


@given(PROFILES)
def test_a_profile_survives_its_written_form(profile: DeviceProfile) -> None:
    assert decode_profile(encode_profile(profile), "there") == profile


@given(PROFILES)
def test_factors_fall_with_the_block_size_and_end_at_one(profile: DeviceProfile) -> None:
    for direction in ("read", "write"):
        table = profile.coefficients()[direction]
        assert isinstance(table, dict)
        factors = list(table.values())
        assert factors == sorted(factors, reverse=True)
        assert factors[-1] == 1.0
        assert all(math.isfinite(factor) and factor >= 1 for factor in factors)


@given(PROFILES)
def test_the_coefficients_are_a_normaliser(profile: DeviceProfile) -> None:
    """Bandwidth in the largest blocks counts as it is, and never less."""
    normaliser = load_normaliser(normaliser_content(profile))
    assert normaliser.name == "v/m"
    largest = VolumeIO(1000, 0, max(profile.read)), VolumeIO(0, 1000, max(profile.write))
    for volume, figure in zip(largest, ("read", "write"), strict=True):
        assert getattr(normaliser.estimate(volume).taken, figure) == 1000
    small = normaliser.estimate(VolumeIO(1000, 1000, 512)).taken
    assert min(small.read, small.write) >= 1000
