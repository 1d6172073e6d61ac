"""One process of afflux for all tests of a file: starting it takes longer than most of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from installation import install, revoke
from scheduler import NAMESPACE, Scheduler, Schedulers
from testbed import ControlPlane


@contextmanager
def shared(
    plane: ControlPlane, rights: Path, directory: Path, **sections: Any
) -> Iterator[Scheduler]:
    """afflux on an empty cluster; sections of the configuration as for `Schedulers.make`."""
    plane.revive()
    plane.delete_everything()
    with Schedulers(plane, rights, directory) as made:
        yield made.start(**sections)


@contextmanager
def installed(
    plane: ControlPlane, release: str, directory: Path, **sections: Any
) -> Iterator[Scheduler]:
    """The same with the rights that the chart grants for these sections, and no more."""
    config = {"leaderElection": {"resourceName": release}, **sections}
    rights = install(plane, NAMESPACE, release=release, config=config)
    with shared(plane, rights, directory, **config) as process:
        yield process
    revoke(plane, release)


def emptied(plane: ControlPlane, process: Scheduler) -> ControlPlane:
    """The cluster with nothing in it but what afflux needs to go on, and afflux well."""
    process.assert_well()
    plane.delete_everything(keep=(NAMESPACE,))
    return plane
