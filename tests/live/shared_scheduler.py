"""One scheduler process for all tests of a file, as its start takes longer than most tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chart_installation import install, revoke
from scheduler_process import NAMESPACE, Scheduler, Schedulers
from testbed import ControlPlane


@contextmanager
def running_scheduler(
    plane: ControlPlane, rights: Path, directory: Path, **sections: Any
) -> Iterator[Scheduler]:
    """A started scheduler on an empty cluster; `sections` as for `Schedulers.make`."""
    plane.restart_dead_parts()
    plane.delete_everything()
    with Schedulers(plane, rights, directory) as made:
        yield made.start(**sections)


@contextmanager
def installed_scheduler(
    plane: ControlPlane, release: str, directory: Path, **sections: Any
) -> Iterator[Scheduler]:
    """The same with exactly the rights that the chart grants for these sections."""
    config = {"leaderElection": {"resourceName": release}, **sections}
    rights = install(plane, NAMESPACE, release=release, config=config)
    with running_scheduler(plane, rights, directory, **config) as process:
        yield process
    revoke(plane, release)


def empty_cluster(plane: ControlPlane, process: Scheduler) -> ControlPlane:
    """Check that the scheduler is healthy and delete all objects but those of its namespace."""
    process.assert_healthy()
    plane.delete_everything(keep=(NAMESPACE,))
    return plane
