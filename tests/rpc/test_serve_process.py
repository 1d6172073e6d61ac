"""`afflux serve` as a process: its pages, its end, its state over a kill, its ledger."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import grpc.aio
import pytest

from afflux.rpc.proto.firmament import scheduler_pb2 as pb
from rpc.firmament_client import FirmamentClient, gang_task, node, task
from rpc.serve_process import CONFIGURATION, ServeProcess

pytestmark = pytest.mark.slow

T = TypeVar("T")


def _ask(served: ServeProcess, story: Callable[[FirmamentClient], Awaitable[T]]) -> T:
    async def connected() -> T:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{served.port}") as channel:
            return await story(FirmamentClient(channel))

    return asyncio.run(connected())


def test_pages_metrics_and_sigterm(tmp_path: Path):
    async def story(client: FirmamentClient) -> None:
        await client.add(node("a", max_pods=1))
        await client.submit(task(1), task(2))
        assert len((await client.schedule())[0]) == 1

    with ServeProcess(tmp_path) as served:
        for page in ("livez", "readyz", "healthz"):
            assert served.page(page) == "ok"
        _ask(served, story)
        metrics = served.page("metrics")
        assert 'scheduler_schedule_attempts_total{profile="",result="scheduled"} 1.0' in metrics
        assert 'scheduler_pending_pods{queue="unschedulable"} 1.0' in metrics
        assert json.loads(served.page("configz"))["afflux.dev"]["policies"]
        assert served.stop() == 0
        assert "stopping" in served.log
        assert "Traceback" not in served.log


def test_a_killed_service_knows_what_runs(tmp_path: Path):
    state = ("--state", str(tmp_path / "state"))

    async def before(client: FirmamentClient) -> None:
        await client.add(node("a", max_pods=1))
        await client.submit(task(1))
        assert await client.schedule() == ({1: "a-pu"}, [])

    async def after(client: FirmamentClient) -> None:
        await client.submit(task(2))
        assert await client.schedule() == ({}, [2])
        await client.TaskRemoved(pb.TaskUID(task_uid=1))
        assert await client.schedule() == ({2: "a-pu"}, [])

    with ServeProcess(tmp_path / "first", *state) as served:
        _ask(served, before)
        served.kill()
    with ServeProcess(tmp_path / "second", *state) as served:
        _ask(served, after)


def test_the_ledger_keeps_the_order_of_the_queue_over_a_kill(tmp_path: Path):
    async def before(client: FirmamentClient) -> None:
        await client.submit(gang_task(1, "first", 2))
        assert await client.schedule() == ({}, [1])
        await client.submit(gang_task(2, "second", 2), gang_task(3, "second", 2))
        assert await client.schedule() == ({}, [1, 2, 3])

    async def after(client: FirmamentClient) -> None:
        # The second group was complete before the first.
        await client.submit(gang_task(4, "first", 2))
        await client.add(node("a", max_pods=2))
        places, waiting = await client.schedule()
        assert (sorted(places), waiting) == ([2, 3], [1, 4])

    with TemporaryDirectory(prefix="ledger-") as directory:
        config = tmp_path / "ledger.yaml"
        ledger = {"directory": directory}
        strategy = {"strategy": "fcfs"}
        config.write_text(json.dumps({**CONFIGURATION, **strategy, "ledger": ledger}))
        options = ("--config", str(config), "--state", str(tmp_path / "state"))
        with ServeProcess(tmp_path / "first", *options) as served:
            _ask(served, before)
            assert served.stop() == 0
        with ServeProcess(tmp_path / "second", *options) as served:
            assert "2 groups" in served.log
            _ask(served, after)
            assert served.stop() == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--listen", "0.0.0.0:9090"), "--listen: 0.0.0.0:9090 is not on loopback"),
        (("--listen", "9090"), "--listen: '9090', expected HOST:PORT"),
        (("--policy", "no-such"), "no-such"),
        (("--token-file", "/no/such"), "--token-file: '/no/such': No such file"),
        (("--state", "/no/such/state"), "--state: '/no/such/state': No such file"),
    ],
)
def test_wrong_options_are_refused_in_one_line(
    tmp_path: Path, options: tuple[str, ...], complaint: str
):
    listen = () if "--listen" in options else ("--listen", "127.0.0.1:0")
    config: tuple[str, ...] = ()
    if "--policy" not in options:
        path = tmp_path / "config.yaml"
        path.write_text(json.dumps(CONFIGURATION))
        config = ("--config", str(path))
    command = (sys.executable, "-m", "afflux.cli", "serve", *listen, *config, *options)
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    errors = [line for line in done.stderr.decode().splitlines() if "afflux serve: " in line]
    assert (done.returncode, len(errors)) == (2, 1)
    assert complaint in errors[0]
    assert done.returncode != -signal.SIGKILL
