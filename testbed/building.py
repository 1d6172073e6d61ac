"""Builds the programs of the testbed once, into a cache outside the repository.

The folder's name is a hash of versions, sources, flags and the compiler. If one of them changes,
the programs are built into a new folder.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from testbed.toolchain import BuildError, Go, environment, find_go, needed_version

HERE = Path(__file__).parent
KUBERNETES_VERSION = "v1.37.1"
FLAGS = (
    "-trimpath",
    "-buildvcs=false",
    f"-ldflags=-s -w -X k8s.io/component-base/version.gitVersion={KUBERNETES_VERSION}",
)


@dataclass(frozen=True, slots=True)
class Binaries:
    """The programs of a testbed by name: the folder of the control plane, and the fake machines."""

    control_plane: Path
    machines: Path

    def __getitem__(self, name: str) -> str:
        return str(self.machines if name == self.machines.name else self.control_plane / name)


def build() -> Binaries:
    """The control plane's programs, kubectl and the fake machines."""
    # Go names a program after the last element of its path, which is `server` for etcd.
    return Binaries(_build(HERE, [], ["tool"], {"server": "etcd"}), _build_own("machines"))


def build_helm() -> Path:
    """helm, from a separate module: its dependencies must not change those of Kubernetes."""
    return _build(HERE / "helm", [], ["tool"], {}) / "helm"


def build_load() -> Path:
    """The load generator."""
    return _build_own("load")


def build_e2e() -> Path:
    """The scheduling specs of Kubernetes' end-to-end tests."""
    return _build_own("e2e")


def cache_directory() -> Path:
    """The folder of all built programs."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "afflux" / "testbed"


def _build_own(name: str) -> Path:
    """A program of the testbed, built separately: a change to it does not link the others again."""
    return _build(HERE, sorted((HERE / name).glob("*.go")), [f"./{name}"], {}) / name


def _build(
    module: Path, sources: Sequence[Path], packages: Sequence[str], names: dict[str, str]
) -> Path:
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    with _lock(cache / "lock"):
        go = find_go(needed_version(module / "go.mod"), cache)
        target = cache / _digest([module / "go.mod", module / "go.sum", *sources], go)
        if not target.exists():
            _compile(module, packages, names, go, target)
    return target


def _compile(
    module: Path, packages: Sequence[str], names: dict[str, str], go: Go, target: Path
) -> None:
    what = (module / packages[0]).relative_to(HERE.parent)
    print(
        f"building {what} (once, up to several minutes) with Go {go.version} ...", file=sys.stderr
    )
    began = time.monotonic()
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    built = subprocess.run(
        [go.path, "build", *FLAGS, "-o", f"{partial}/", *packages],
        cwd=module,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if built.returncode != 0:
        raise BuildError(f"go build in {module} failed:\n{built.stderr[-4000:]}")
    for old, new in names.items():
        (partial / old).rename(partial / new)
    partial.rename(target)
    print(f"built {what} in {time.monotonic() - began:.0f} s: {target}", file=sys.stderr)


def _digest(files: Sequence[Path], go: Go) -> str:
    digest = hashlib.sha256()
    for text in (go.version, *FLAGS):
        digest.update(text.encode() + b"\0")
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@contextmanager
def _lock(path: Path) -> Generator[None]:
    """Locks the cache: a second process waits until the first has built the programs."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
