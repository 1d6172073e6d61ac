"""The kernel of this machine, as far as it allows: a skip says what could not be tried."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from afflux.diskio.block_devices import BlockDevice, BlockDevices
from afflux.diskio.counter_source import CounterSource
from afflux.diskio.counters import NO_IO
from afflux.diskio.pod_cgroups import CgroupTree, find_tree, read_counters
from afflux.model.errors import InputError

AMOUNT, BLOCK = 1 << 20, 1 << 16
# Writes past the page cache, from a buffer that is aligned as O_DIRECT requires.
WRITER = f"""
import mmap, os, sys
file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY | os.O_DIRECT)
buffer = mmap.mmap(-1, {BLOCK})
for _ in range({AMOUNT // BLOCK}):
    os.write(file, buffer)
"""
# Enters the cgroup first.
INSIDE = "import os, sys; open(sys.argv[2], 'w').write(str(os.getpid()))\n" + WRITER


@pytest.fixture
def disk(tmp_path: Path) -> BlockDevice:
    """The disk of the temporary directory, which takes O_DIRECT."""
    try:
        found = BlockDevices().of_path(str(tmp_path))
    except InputError as error:
        pytest.skip(f"no local disk: {error}")
    probe = tmp_path / "probe"
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_WRONLY | os.O_DIRECT))
    except OSError as error:
        pytest.skip(f"O_DIRECT: {error}")
    return found


@contextmanager
def own_cgroup(tree: CgroupTree, disk: BlockDevice) -> Iterator[Path]:
    directory = tree.root / "afflux-test"
    try:
        directory.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup of its own: {error}")
    try:
        if tree.version == "v1":
            # Newer kernels count only once a rule was set; this one limits nothing.
            rule = directory / "blkio.throttle.write_bps_device"
            rule.write_text(f"{disk.number} {1 << 40}")
        yield directory
    finally:
        directory.rmdir()


def test_diskstats_counts_what_is_written_past_the_page_cache(
    tmp_path: Path, disk: BlockDevice
) -> None:
    source = CounterSource(Path("/proc"), tmp_path)
    before = source.read({}).disks[disk.number]
    subprocess.run([sys.executable, "-c", WRITER, tmp_path / "file"], check=True)
    done = source.read({}).disks[disk.number] - before
    assert done.write_bytes >= AMOUNT
    assert done.write_ios >= 1


def test_a_cgroup_counts_what_its_processes_write(tmp_path: Path, disk: BlockDevice) -> None:
    try:
        tree = find_tree(Path("/sys/fs/cgroup"))
    except InputError as error:
        pytest.skip(str(error))
    with own_cgroup(tree, disk) as directory:
        assert (read_counters(tree, directory) or {}).get(disk.number, NO_IO) == NO_IO
        procs = str(directory / "cgroup.procs")
        subprocess.run([sys.executable, "-c", INSIDE, tmp_path / "file", procs], check=True)
        found = (read_counters(tree, directory) or {})[disk.number]
    assert AMOUNT <= found.write_bytes <= 2 * AMOUNT
    assert AMOUNT // BLOCK <= found.write_ios <= 2 * AMOUNT // BLOCK
