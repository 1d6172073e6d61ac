"""Which disk a directory is on, in a machine whose /proc and /sys are directories."""

from pathlib import Path

import pytest

from afflux.diskio.block_devices import BlockDevices, mount_of, parse_mountinfo
from afflux.diskio.counters import DeviceNumber, parse_diskstats
from afflux.model.errors import InputError
from fake_kernel import FakeKernel

NVME = {
    "device__model": "INTEL SSDPE2KX040T8",
    "device__serial": "PHYF922500U3480BGN  ",
}


@pytest.fixture
def kernel(tmp_path: Path) -> FakeKernel:
    return FakeKernel(tmp_path)


@pytest.fixture
def devices(kernel: FakeKernel) -> BlockDevices:
    return BlockDevices(kernel.proc, kernel.sys)


def test_a_partition_leads_to_its_whole_disk(kernel: FakeKernel, devices: BlockDevices) -> None:
    kernel.add_disk("nvme0n1", "259:0", **NVME)
    kernel.add_partition("nvme0n1", "nvme0n1p2", "259:2")
    kernel.mount("/", "0:30")
    kernel.mount("/var/lib/kubelet", "259:2")
    found = devices.of_path("/var/lib/kubelet/pods")
    assert (found.number, found.name, found.path) == (
        DeviceNumber(259, 0), "nvme0n1", "/dev/nvme0n1",
    )  # fmt: skip
    assert found.id == "INTEL_PHYF922500U3480BGN"
    assert found.model == "INTEL/SSDPE2KX040T8"


def test_a_device_mapper_device_leads_to_the_disk_below(
    kernel: FakeKernel, devices: BlockDevices
) -> None:
    kernel.add_disk("sda", "8:0", device__vendor="SEAGATE ", device__model="ST 1000")
    kernel.add_partition("sda", "sda3", "8:3")
    kernel.stack("dm-0", "253:0", "sda3")
    kernel.stack("dm-1", "253:1", "dm-0")
    kernel.mount("/", "253:1")
    found = devices.of_path("/")
    assert (found.name, found.model) == ("sda", "SEAGATE/ST-1000")
    assert devices.mounted_parts(found) == ["/"]


def test_an_array_of_several_disks_is_none(kernel: FakeKernel, devices: BlockDevices) -> None:
    kernel.add_disk("sda", "8:0")
    kernel.add_disk("sdb", "8:16")
    kernel.stack("md0", "9:0", "sda", "sdb")
    kernel.mount("/", "9:0", "/dev/md0")
    with pytest.raises(InputError, match=r"/dev/md0' \(9:0\), which is not on one disk"):
        devices.of_path("/")


def test_a_file_system_with_a_number_of_its_own_is_found_by_its_source(
    kernel: FakeKernel, devices: BlockDevices
) -> None:
    """As btrfs, whose numbers are of no device."""
    kernel.add_disk("sdb", "8:16")
    kernel.add_partition("sdb", "sdb1", "8:17")
    kernel.mount("/", "0:44", "/dev/sdb1")
    assert devices.of_path("/").name == "sdb"


def test_a_file_system_in_memory_is_refused(kernel: FakeKernel, devices: BlockDevices) -> None:
    kernel.mount("/", "0:20", "tmpfs")
    with pytest.raises(InputError, match="expected a directory on a file system of a single local"):
        devices.of_path("/")


def test_a_disk_without_a_model_has_its_name_for_an_id(
    kernel: FakeKernel, devices: BlockDevices
) -> None:
    """As virtual disks."""
    kernel.add_disk("vda", "254:0", device__vendor="0x1af4", serial="")
    assert (devices.named("/dev/vda").id, devices.named("vda").model) == ("vda", "")
    with pytest.raises(InputError, match="'vdb': no such block device"):
        devices.named("vdb")
    with pytest.raises(InputError, match="no such block device"):
        devices.named("../vda")


def test_vendor_model_and_serial_of_a_sata_disk(kernel: FakeKernel, devices: BlockDevices) -> None:
    kernel.add_disk("sda", "8:0", device__vendor="ATA", device__model="Samsung SSD 860")
    page = kernel.sys / "block/sda/device/vpd_pg80"
    page.write_bytes(b"\x00\x80\x00\x0fS3Z9NB0K123456A")
    found = devices.named("sda")
    assert (found.model, found.id) == ("Samsung/SSD-860", "Samsung_S3Z9NB0K123456A")


def test_mounts_hide_each_other() -> None:
    text = (
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "2 1 8:2 / /var\\040lib rw shared:1 master:2 - ext4 /dev/sda2 rw\n"
        "3 1 8:3 / /data rw - ext4 /dev/sda3 rw\n"
        "4 3 8:4 / /data rw - xfs /dev/sda4 rw\n"
        "garbage\n"
    )
    mounts = parse_mountinfo(text)
    found = {
        path: mount.device.minor if (mount := mount_of(path, mounts)) else None
        for path in ("/", "/var", "/var lib", "/var lib/x", "/var lib2", "/data/x", "/database")
    }
    assert found == {
        "/": 1, "/var": 1, "/var lib": 2, "/var lib/x": 2, "/var lib2": 1, "/data/x": 4,
        "/database": 1,
    }  # fmt: skip


def test_the_disks_of_this_machine_are_those_of_its_diskstats() -> None:
    """The real /proc and /sys, whatever they are."""
    counted = parse_diskstats(Path("/proc/diskstats").read_text())
    for directory in Path("/sys/block").iterdir():
        if not any((directory / "slaves").iterdir()):
            found = BlockDevices().named(directory.name)
            assert found.name == directory.name
            assert found.number in counted
