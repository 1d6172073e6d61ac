"""The aggregator: drivers of many nodes send it their reports, and it writes them.

`POST /reports` takes one report, which is checked, queued and answered with 202, or with 409 if it
is stale. Some writers bring the newest report of each node to the API server, at a limited rate.
Nothing is kept over a restart: drivers report every few seconds. Not here: what a report says, and
how it is written (`node_reports`).
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge

from afflux.control.backoff import Backoff
from afflux.diskio.driver_identity import DriverIdentity, RefusedError
from afflux.diskio.node_reports import ReportWriter
from afflux.diskio.report_queue import MAX_NODES, FullError, QueuedReport, ReportQueue
from afflux.diskio.report_sinks import REPORTS_PATH, SentReport
from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.kube.objects import is_name
from afflux.web.pages import Pages
from afflux.web.rate_limited_log import RateLimitedLog

# A report has a few hundred bytes for each disk, and bounded measurements.
MAX_BODY_BYTES = 256 << 10
# A node that is not heard of for this long has gone.
FORGET_SECONDS = 600.0
_WRITERS = 4
_MAX_DEVICES = 256
_INITIAL_BACKOFF_SECONDS = 0.5
_MAX_BACKOFF_SECONDS = 30.0

_log = logging.getLogger(__name__)
_repeated = RateLimitedLog(_log)
_sent = msgspec.json.Decoder(SentReport)


@dataclass(frozen=True, slots=True)
class AggregatorOptions:
    """Where it listens. Port 0 means any free port."""

    address: str = ""
    port: int = 10271
    cert_file: str = ""
    key_file: str = ""
    max_nodes: int = MAX_NODES


class Aggregator:
    def __init__(
        self, writer: ReportWriter, identity: DriverIdentity, max_nodes: int = MAX_NODES
    ) -> None:
        self._writer = writer
        self._identity = identity
        self._queue = ReportQueue(max_nodes)
        self._waiting = asyncio.Event()
        self.registry = CollectorRegistry()
        self._reports = Counter(
            "afflux_disk_aggregator_reports",
            "Reports of drivers, by what became of them.",
            ["result"],
            registry=self.registry,
        )
        self._writes = Counter(
            "afflux_disk_aggregator_writes",
            "Reports brought to the API server, by result.",
            ["result"],
            registry=self.registry,
        )
        pending = Gauge(
            "afflux_disk_aggregator_pending_reports",
            "Nodes whose newest report is not written yet.",
            registry=self.registry,
        )
        pending.set_function(lambda: len(self._queue))
        nodes = Gauge("afflux_disk_aggregator_nodes", "Nodes that report.", registry=self.registry)
        nodes.set_function(lambda: self._queue.nodes)

    # --- Pages

    def add_to(self, app: web.Application) -> None:
        """Adds the page that takes reports."""
        app.router.add_post(REPORTS_PATH, self._take)

    async def _take(self, request: web.Request) -> web.Response:
        try:
            node = await self._identity.node_of(_bearer(request))
            sent = _decoded(await request.read())
            if node is not None and node != sent.report.node:
                message = f"node: {sent.report.node!r:.80}, expected {node}, the sender's own"
                raise RefusedError(403, message)
            is_new = self._queue.put(sent.report, time.monotonic(), is_urgent=sent.is_urgent)
        except RefusedError as error:
            self._reports.labels("refused").inc()
            _repeated.warning("report refused: %s", error)
            return _answer(error.status, str(error))
        except FullError:
            self._reports.labels("refused").inc()
            return _answer(503, "there are more nodes than this aggregator takes")
        if not is_new:
            self._reports.labels("stale").inc()
            return _answer(409, "a newer report was received before")
        self._reports.labels("taken").inc()
        self._waiting.set()
        return _answer(202, "taken")

    # --- Writing

    async def run(self) -> None:
        """Writes until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_WRITERS):
                tasks.create_task(self._write_for_ever())
            tasks.create_task(self._forget_for_ever())

    async def _write_for_ever(self) -> None:
        backoff = Backoff(_INITIAL_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS)
        while True:
            queued = self._queue.take()
            if queued is None:
                self._waiting.clear()
                await self._waiting.wait()
                continue
            is_written = await self._was_written(queued)
            self._queue.done(queued, is_written=is_written)
            # A later report of this node may have waited for this one.
            self._waiting.set()
            if is_written:
                backoff.reset()
            else:
                await asyncio.sleep(backoff.wait_seconds())

    async def _was_written(self, queued: QueuedReport) -> bool:
        """False if it is worth another try."""
        report = queued.report
        try:
            await self._writer.write(report, time.monotonic(), is_urgent=queued.is_urgent)
        except ApiError as error:
            self._writes.labels("failed").inc()
            _repeated.warning("node %s: not written: %s", report.node, error)
            # The driver creates the object, and its next report has the new uid.
            return not (error.is_temporary or error.is_refused)
        except UnreachableError as error:
            self._writes.labels("failed").inc()
            _repeated.warning("node %s: not written: %s", report.node, error)
            return False
        self._writes.labels("written").inc()
        return True

    async def _forget_for_ever(self) -> None:
        while True:
            await asyncio.sleep(FORGET_SECONDS / 10)
            self._writer.forget(self._queue.forget(time.monotonic() - FORGET_SECONDS))


async def run_aggregator(
    aggregator: Aggregator, options: AggregatorOptions, configuration: Mapping[str, object]
) -> None:
    """Runs until cancelled."""
    pages = Pages(
        aggregator.registry,
        live={},
        ready={},
        configuration=configuration,
        further=[aggregator],
        max_body_bytes=MAX_BODY_BYTES,
    )
    async with pages:
        await pages.start(options.address, options.port, options.cert_file, options.key_file)
        await aggregator.run()


def _bearer(request: web.Request) -> str:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise RefusedError(401, "no bearer token; expected that of a driver")
    return token.strip()


def _decoded(body: bytes) -> SentReport:
    try:
        sent = _sent.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RefusedError(400, f"the report cannot be read: {error}"[:400]) from None
    report = sent.report
    # The name becomes a part of the path of a request.
    if not is_name(report.node) or any(letter in report.node for letter in "/?#%"):
        raise RefusedError(400, f"node: {report.node!r:.80}, expected the name of a node")
    if not report.uid or len(report.devices) > _MAX_DEVICES:
        raise RefusedError(
            400, f"{len(report.devices)} devices, expected a uid and at most {_MAX_DEVICES} devices"
        )
    return sent


def _answer(status: int, message: str) -> web.Response:
    # The client reads answers in this form.
    body = {"kind": "Status", "code": status, "message": message}
    return web.json_response(body, status=status)
