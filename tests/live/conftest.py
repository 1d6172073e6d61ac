"""One control plane for all tests of this folder, which one worker runs (see ../conftest.py)."""

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # testbed is not part of the package

from scheduler_process import Schedulers, install_rights
from testbed import ControlPlane

from afflux.ledger.embedded_postgres import EmbeddedPostgres

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here waits for real programs."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """etcd, API server, controller manager and fake machines, started once."""
    with ControlPlane() as plane:
        yield plane


@pytest.fixture
def cluster(control_plane: ControlPlane) -> ControlPlane:
    """The same control plane with all its parts running and no objects in it."""
    control_plane.restart_dead_parts()
    control_plane.delete_everything()
    return control_plane


@pytest.fixture(scope="session")
def rights(control_plane: ControlPlane) -> Path:
    """The kubeconfig of afflux's service account, which outlives the emptying of the cluster."""
    return install_rights(control_plane)


@pytest.fixture
def schedulers(cluster: ControlPlane, rights: Path, tmp_path: Path) -> Iterator[Schedulers]:
    """Starts replicas of afflux with the rights of the chart; ends them after the test."""
    with Schedulers(cluster, rights, tmp_path) as made:
        yield made


@pytest.fixture
def directory() -> Iterator[str]:
    """The directory of an embedded ledger. Paths of `tmp_path` are too long for its socket."""
    with TemporaryDirectory(prefix="ledger-") as name:
        yield name
        # A killed process may have left the server running.
        server = EmbeddedPostgres(name)
        server.start()
        server.stop()
