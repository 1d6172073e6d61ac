"""The example for vendors: a module that is built from its C source in docs/examples/normaliser."""

import hashlib
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afflux.model.disks import Bandwidth, VolumeIO
from afflux.normalisers.coefficient_table import parse_table
from afflux.normalisers.normaliser import load_normaliser
from afflux.normalisers.sandbox import FUEL_PER_CALL

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples" / "normaliser"
MODULE = (EXAMPLES / "normaliser.wasm").read_bytes()
LARGE = 32 * 1024


def normalised(bytes_per_second: int, block_bytes: int) -> int:
    """What the source says, in other words."""
    if block_bytes >= LARGE:
        return bytes_per_second
    return -(-bytes_per_second * (block_bytes + LARGE) // (2 * block_bytes))


@given(st.integers(0, 2**40 - 1), st.integers(0, 2**40 - 1), st.integers(512, 1 << 27))
def test_the_module_answers_as_its_source_says(read: int, write: int, block_bytes: int) -> None:
    estimate = load_normaliser(MODULE).estimate(VolumeIO(read, write, block_bytes))
    taken_read, taken_write = normalised(read, block_bytes), normalised(write, block_bytes)
    total = taken_read + taken_write + min(taken_read, taken_write) // 2
    assert estimate.taken == Bandwidth(taken_read, taken_write, total)
    assert estimate.fuel < FUEL_PER_CALL // 100


def test_the_module_is_the_one_whose_digest_is_kept() -> None:
    digest, name = (EXAMPLES / "normaliser.wasm.sha256").read_text().split()
    assert (digest, name) == (hashlib.sha256(MODULE).hexdigest(), "normaliser.wasm")
    assert f"sha256:{digest}" in (ROOT / "docs" / "disk-io-vendors.md").read_text()


@pytest.mark.long
def test_the_module_is_built_from_its_source(tmp_path: Path) -> None:
    build = ["make", "--silent", "-C", str(ROOT), "example-normaliser"]
    built = tmp_path / "built.wasm"
    done = subprocess.run(
        [*build, f"NORMALISER={built}"], capture_output=True, text=True, check=False
    )
    if done.returncode and "ziglang" in done.stderr:
        pytest.skip("the package ziglang cannot be installed here")
    assert done.returncode == 0, done.stderr
    assert built.read_bytes() == MODULE


def test_the_table_of_the_example_is_valid() -> None:
    made = parse_table((EXAMPLES / "coefficients.json").read_bytes())
    assert made.estimate(VolumeIO(1000, 1000, 4096)).taken == Bandwidth(5000, 6100, 11100)
