"""Reports at the API server: which requests they become."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from afflux.diskio.node_reports import (
    REPORTED_AT,
    NodeReport,
    ReportWriter,
    device_status,
)
from afflux.kube.api.errors import ApiError
from afflux.kube.disks.disk_reports import DISK_MEASUREMENTS as MEASUREMENTS
from afflux.kube.disks.disk_reports import DISK_MODELS as MODELS
from afflux.model.disks import Bandwidth
from kube_api.api_server import answer, client_of, run

PATH = "/apis/ioi.intel.com/v1/namespaces/ns/nodediskioinfos/n"


def report(sequence: int, left: int = 5, **changes: Any) -> NodeReport:
    fields: dict[str, Any] = {
        "node": "n",
        "uid": "o",
        "sequence": sequence,
        "observed_generation": 1,
        "devices": {"d": device_status("/dev/sda", Bandwidth(left, left, left))},
        "models": {"d": "v/m"},
        **changes,
    }
    return NodeReport(**fields)


class Recorded:
    """The requests, and the status of their answers."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, Any]] = []
        self.status = 200

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if self.status != 200:
            return answer({"kind": "Status", "reason": "Busy", "message": "no"}, self.status)
        self.requests.append((request.method, request.path, json.loads(await request.read())))
        return answer({})

    def take(self) -> list[str]:
        """What was written since the last call: status, or the names of annotations."""
        found = [
            "status"
            if path.endswith("/status")
            else ",".join(sorted(body["metadata"]["annotations"]))
            for _, path, body in self.requests
        ]
        self.requests.clear()
        return found


@asynccontextmanager
async def writing() -> AsyncIterator[tuple[Recorded, ReportWriter]]:
    recorded = Recorded()
    async with client_of(recorded.handle) as api:
        yield recorded, ReportWriter(api, "ns")


ALIVE, FIRST = REPORTED_AT, ",".join(sorted([MODELS, REPORTED_AT, MEASUREMENTS]))


def test_models_come_before_the_first_status_that_needs_them() -> None:
    async def test() -> None:
        async with writing() as (recorded, writer):
            await writer.write(report(1), 0.0)
            (_, path, annotations), (_, status_path, status) = recorded.requests
            assert (path, status_path) == (PATH, f"{PATH}/status")
            assert annotations["metadata"]["uid"] == "o"
            assert annotations["metadata"]["annotations"][MODELS] == '{"d":"v/m"}'
            assert status[0] == {"op": "test", "path": "/metadata/uid", "value": "o"}
            assert status[1]["value"] == {
                "observedGeneration": 1,
                "allocatableBandwidth": {
                    "d": {
                        "name": "/dev/sda",
                        "status": {"total": 5.0, "read": 5.0, "write": 5.0},
                    }
                },
            }

    run(test)


def test_a_report_that_changes_nothing_is_a_sign_of_life() -> None:
    async def test() -> None:
        async with writing() as (recorded, writer):
            await writer.write(report(1), 0.0)
            recorded.take()
            await writer.write(report(2), 5.0)
            assert recorded.take() == [f"{MODELS},{REPORTED_AT}"]
            await writer.write(report(3, left=4), 10.0)
            assert recorded.take() == ["status"]
            await writer.write(report(4, left=4, observed_generation=2), 15.0)
            assert recorded.take() == ["status"]

    run(test)


def test_measurements_are_written_seldom_unless_it_is_urgent() -> None:
    async def test() -> None:
        async with writing() as (recorded, writer):
            await writer.write(report(1, measurements='{"a":1}'), 0.0)
            assert recorded.take() == [FIRST, "status"]
            await writer.write(report(2, left=4, measurements='{"a":2}'), 5.0)
            assert recorded.take() == ["status"]
            await writer.write(report(3, left=3, measurements='{"a":3}'), 10.0, is_urgent=True)
            assert recorded.take() == [FIRST, "status"]
            await writer.write(report(4, left=2, measurements='{"a":4}'), 40.0)
            assert recorded.take() == [FIRST, "status"]

    run(test)


def test_before_anything_is_known_only_the_sign_of_life_is_written() -> None:
    async def test() -> None:
        async with writing() as (recorded, writer):
            await writer.write(report(1, is_unacknowledged=True), 0.0)
            assert "status" not in recorded.take()
            await writer.write(report(2), 1.0)
            assert "status" in recorded.take()

    run(test)


def test_what_failed_and_what_is_forgotten_is_written_whole_again() -> None:
    async def test() -> None:
        async with writing() as (recorded, writer):
            await writer.write(report(1), 0.0)
            recorded.take()
            recorded.status = 503
            with pytest.raises(ApiError, match="503"):
                await writer.write(report(2, left=4), 5.0)
            recorded.status = 200
            await writer.write(report(3), 10.0)
            assert "status" in recorded.take()
            await writer.write(report(4), 15.0)
            assert "status" not in recorded.take()
            writer.forget(["n"])
            await writer.write(report(5), 20.0)
            assert "status" in recorded.take()
            # Another object of the same name has no status yet.
            await writer.write(report(6, uid="p"), 25.0)
            assert "status" in recorded.take()

    run(test)
