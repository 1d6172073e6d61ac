"""Which disks a driver manages, and where their profiles come from; fio, where it is installed."""

import asyncio
import json
import logging
import shutil
from pathlib import Path

import pytest

from afflux.diskio import fio_benchmark
from afflux.diskio.block_devices import BlockDevices
from afflux.diskio.device_profile import DeviceProfile, encode_profile
from afflux.diskio.driver_setup import (
    KEPT_PROFILE,
    DiskOptions,
    PreparedDisks,
    measure_once,
    prepare_disks,
)
from afflux.diskio.fio_benchmark import BenchmarkOptions, measure_profile
from afflux.model.disks import Bandwidth, VolumeIO
from afflux.model.errors import InputError
from fake_kernel import FakeKernel

needs_fio = pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed here")
MIB = 1 << 20


@pytest.fixture
def kernel(tmp_path: Path) -> FakeKernel:
    kernel = FakeKernel(tmp_path / "kernel")
    kernel.add_disk("sda", "8:0", device__vendor="V", device__model="m", serial="1")
    kernel.add_disk("sdb", "8:16", device__vendor="V", device__model="m", serial="2")
    kernel.mount("/", "8:0")
    return kernel


def profile(path: Path, model: str = "V/m", *devices: str, speed: int = MIB) -> str:
    made = DeviceProfile(model, {4096: speed, 32768: 2 * speed}, {4096: speed}, speed, devices)
    path.write_bytes(encode_profile(made))
    return str(path)


def prepare(kernel: FakeKernel, options: DiskOptions) -> PreparedDisks:
    return asyncio.run(prepare_disks(BlockDevices(kernel.proc, kernel.sys), options))


def test_the_disks_are_those_of_directories_and_devices(kernel: FakeKernel, tmp_path: Path) -> None:
    of_model = profile(tmp_path / "model.json")
    of_disk = profile(tmp_path / "disk.json", "V/m", "V_2", speed=3 * MIB)
    options = DiskOptions([str(tmp_path), "/"], ["sdb"], [of_model, of_disk])
    prepared = prepare(kernel, options)
    found = {each.disk.id: (each.disk.path, each.disk.capacity) for each in prepared.disks}
    assert found == {
        "V_1": ("/dev/sda", Bandwidth(2 * MIB, MIB, MIB)),
        "V_2": ("/dev/sdb", Bandwidth(6 * MIB, 3 * MIB, 3 * MIB)),
    }
    assert prepared.normalise("V/m", VolumeIO(100, 0, 4096)) == Bandwidth(200, 0, 200)
    assert prepared.normalise("V/other", VolumeIO(100, 0)) is None


def test_a_model_can_be_given_or_withheld(kernel: FakeKernel, tmp_path: Path) -> None:
    given = profile(tmp_path / "p.json", "W/n")
    options = DiskOptions([str(tmp_path)], profiles=[given], models={"V_1": "W/n"})
    assert [each.disk.model for each in prepare(kernel, options).disks] == ["W/n"]
    options = DiskOptions([str(tmp_path)], profiles=[given], models={"V_1": "W/n"}, as_stated=True)
    prepared = prepare(kernel, options)
    assert [each.disk.model for each in prepared.disks] == [""]
    assert prepared.normalise("", VolumeIO(100, 0, 4096)) == Bandwidth(100, 0, 100)
    with pytest.raises(InputError, match=r"the model of V_1: 'n', expected vendor/model"):
        prepare(kernel, DiskOptions([str(tmp_path)], models={"V_1": "n"}))


def test_a_given_normaliser_comes_before_the_table_of_the_profile(
    kernel: FakeKernel, tmp_path: Path
) -> None:
    table = {"kind": "DiskCoefficients", "name": "m", "read": {"4k": 7}, "write": {"4k": 7}}
    (tmp_path / "table.json").write_text(json.dumps(table))
    options = DiskOptions(
        [str(tmp_path)],
        profiles=[profile(tmp_path / "p.json")],
        normalisers={"V/m": str(tmp_path / "table.json")},
    )
    prepared = prepare(kernel, options)
    assert prepared.normalise("V/m", VolumeIO(100, 0, 4096)) == Bandwidth(700, 0, 700)
    assert prepared.contents["V/m"] == (tmp_path / "table.json").read_bytes()


def test_a_device_is_never_measured(kernel: FakeKernel) -> None:
    with pytest.raises(InputError, match="no --profile names V_2 or its model"):
        prepare(kernel, DiskOptions(devices=["sdb"]))


def test_the_profile_that_was_measured_before_is_used(kernel: FakeKernel, tmp_path: Path) -> None:
    profile(tmp_path / KEPT_PROFILE, "", "V_1")
    prepared = prepare(kernel, DiskOptions([str(tmp_path)]))
    assert [each.disk.capacity for each in prepared.disks] == [Bandwidth(2 * MIB, MIB, MIB)]
    # By now the model is known.
    assert [each.disk.model for each in prepared.disks] == ["V/m"]


def test_a_raw_device_that_is_mounted_is_refused(kernel: FakeKernel) -> None:
    devices = BlockDevices(kernel.proc, kernel.sys)
    with pytest.raises(InputError, match="--raw-device: /dev/sda: / is mounted from it"):
        asyncio.run(measure_once(devices, DiskOptions(), raw_device="sda"))


def test_a_model_for_another_disk_is_refused_before_anything_is_measured(
    kernel: FakeKernel,
) -> None:
    devices = BlockDevices(kernel.proc, kernel.sys)
    options = DiskOptions(models={"typo": "v/m"})
    with pytest.raises(InputError, match=r"^--model: 'typo', expected .+, the disk's id$"):
        asyncio.run(measure_once(devices, options, raw_device="sda"))


def test_without_fio_a_profile_is_asked_for(
    kernel: FakeKernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="fio: not found; expected it to be installed, or a prof"):
        prepare(kernel, DiskOptions([str(tmp_path)]))


# --- fio


def small(directory: Path, **changes: object) -> BenchmarkOptions:
    fields: dict[str, object] = {
        "model": "v/m",
        "device_id": "d",
        "directory": str(directory),
        "file_bytes": 4 * MIB,
        "step_seconds": 1,
        "block_sizes": (512, 4096, 32768),
        "logical_block_bytes": 4096,
    }
    return BenchmarkOptions(**(fields | changes))  # pyright: ignore[reportArgumentType]


@needs_fio
@pytest.mark.slow
def test_fio_measures_a_file_of_its_own_and_leaves_nothing(tmp_path: Path) -> None:
    steps: list[str] = []
    found = asyncio.run(measure_profile(small(tmp_path), steps.append))
    # Blocks smaller than those of the disk are left out.
    assert set(found.read) == set(found.write) == {4096, 32768}
    assert min(*found.read.values(), *found.write.values(), found.total) > 1
    assert found.devices == ("d",)
    assert len(steps) == 5
    assert list(tmp_path.iterdir()) == []


@needs_fio
def test_a_failure_of_fio_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fio_benchmark, "_common", lambda target: ["--name=x", "--rw=never"])
    with pytest.raises(InputError, match="fio: exit code 1"):
        asyncio.run(measure_profile(small(tmp_path)))
    assert list(tmp_path.iterdir()) == []


@needs_fio
def test_a_file_that_would_fill_the_disk_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"bytes free, expected \d+ for a file of \d+ bytes"):
        asyncio.run(measure_profile(small(tmp_path, file_bytes=_too_much(tmp_path))))
    with pytest.raises(InputError, match="expected from 1 MiB"):
        asyncio.run(measure_profile(small(tmp_path, file_bytes=1)))
    assert list(tmp_path.iterdir()) == []


def _too_much(directory: Path) -> int:
    free = shutil.disk_usage(directory).free
    too_much = free // 2 + MIB
    if too_much > fio_benchmark.MAX_FILE_BYTES:
        pytest.skip("the disk has more room than the largest file could fill")
    return too_much


@needs_fio
@pytest.mark.slow
def test_without_o_direct_the_page_cache_is_measured_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As on a file system that refuses O_DIRECT."""
    monkeypatch.setattr(fio_benchmark, "opens_directly", lambda path: False)
    with caplog.at_level(logging.WARNING):
        found = asyncio.run(measure_profile(small(tmp_path, block_sizes=(32768,))))
    assert not found.is_direct
    assert "refuses O_DIRECT" in caplog.text
