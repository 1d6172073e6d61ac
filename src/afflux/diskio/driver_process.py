"""The process of the driver: watches, samples, reports and serves, until it is stopped.

Two watches follow the node's object and its pods. A sampling loop reads counters every second and
looks for pods that do more than they request. A report is written every interval, at once after a
change of the reserved pods, and at once when a pod exceeds what was charged for it. What fails at
the API server is tried again; the watches find their way back by themselves.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from afflux.control.backoff import Backoff
from afflux.diskio.counter_source import CounterSource
from afflux.diskio.driver_metrics import DriverMetrics
from afflux.diskio.node_driver import NodeDriver
from afflux.diskio.node_reports import NodeReport, collection_path, new_object
from afflux.diskio.remaining_bandwidth import PodCharge
from afflux.kube import objects
from afflux.kube.api.client import Api
from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.kube.api.reflector import Collection, run_reflector
from afflux.web.pages import Pages, Routes
from afflux.web.rate_limited_log import RateLimitedLog

# Without a sample for this long the process has to be started again.
MAX_SAMPLE_AGE_SECONDS = 60.0
# Between two reports, so that a burst of reservations is answered together.
_MIN_REPORT_SECONDS = 0.2
_INITIAL_BACKOFF_SECONDS = 0.5
_MAX_BACKOFF_SECONDS = 30.0

_log = logging.getLogger(__name__)
_repeated = RateLimitedLog(_log)


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    """`namespace` has the NodeDiskIOInfo objects. Port 0 means any free port."""

    node: str
    namespace: str
    report_seconds: float = 5.0
    sample_seconds: float = 1.0
    address: str = ""
    port: int = 10270
    cert_file: str = ""
    key_file: str = ""


class ReportSink(Protocol):
    """Where reports go: the API server or the aggregator. Raises as the client does."""

    async def send(self, report: NodeReport, *, is_urgent: bool) -> None:
        """Deliver one report."""
        ...


async def run_driver(
    api: Api,
    driver: NodeDriver,
    source: CounterSource,
    sink: ReportSink,
    options: ProcessOptions,
    *,
    routes: Sequence[Routes] = (),
    configuration: Mapping[str, object],
) -> None:
    """Runs until cancelled."""
    process = _Process(api, driver, source, sink, options)
    pages = Pages(
        process.metrics.registry,
        live={"sampling": process.sampling_problem},
        ready={"reports": process.report_problem},
        configuration=configuration,
        further=routes,
    )
    async with pages:
        await pages.start(options.address, options.port, options.cert_file, options.key_file)
        await process.run()


class _PodSink:
    def __init__(self, driver: NodeDriver, wake: Callable[[], None]) -> None:
        self._driver = driver
        self._wake = wake
        self.is_synced = False

    def replaced(
        self, items: Sequence[objects.Pod], unreadable: Sequence[objects.Metadata]
    ) -> None:
        self._driver.set_pods(items, frozenset(each.uid or "" for each in unreadable))
        self.is_synced = True
        self._wake()

    def changed(self, item: objects.Pod) -> None:
        if self._driver.set_pod(item):
            self._wake()

    def deleted(self, item: objects.Pod) -> None:
        self._driver.remove_pod(item)


class _InfoSink:
    def __init__(self, driver: NodeDriver, wake: Callable[[], None]) -> None:
        self._driver = driver
        self._wake = wake
        self.is_synced = False

    def replaced(
        self, items: Sequence[objects.NodeDiskIOInfo], unreadable: Sequence[objects.Metadata]
    ) -> None:
        if not unreadable:
            self._driver.set_info(items[0] if items else None)
        self.is_synced = True
        self._wake()

    def changed(self, item: objects.NodeDiskIOInfo) -> None:
        if self._driver.set_info(item):
            self._wake()

    def deleted(self, item: objects.NodeDiskIOInfo) -> None:
        _log.warning("%s was deleted; it will be created again", item.metadata.name)
        self._driver.set_info(None)
        self._wake()


class _Process:
    def __init__(
        self,
        api: Api,
        driver: NodeDriver,
        source: CounterSource,
        sink: ReportSink,
        options: ProcessOptions,
    ) -> None:
        self._api = api
        self._driver = driver
        self._source = source
        self._sink = sink
        self._options = options
        self._pods = _PodSink(driver, self._wake)
        self._infos = _InfoSink(driver, self._wake)
        self._due = asyncio.Event()
        self._is_urgent = False
        self._sampled_at = time.monotonic()
        self._reported_at: float | None = None
        self._told: frozenset[str] = frozenset()
        self.metrics = DriverMetrics()

    # --- Checks

    def sampling_problem(self) -> str | None:
        """Why a restart is needed."""
        age = time.monotonic() - self._sampled_at
        return f"no sample for {age:.0f} s" if age > MAX_SAMPLE_AGE_SECONDS else None

    def report_problem(self) -> str | None:
        """Why there are no reports, or none for a long time."""
        if self._reported_at is None:
            return "no report was accepted yet"
        age = time.monotonic() - self._reported_at
        most = max(3 * self._options.report_seconds, MAX_SAMPLE_AGE_SECONDS)
        return f"no report was accepted for {age:.0f} s" if age > most else None

    # --- Loops

    async def run(self) -> None:
        options = self._options
        self._tell_source()
        infos = Collection(
            collection_path(options.namespace),
            objects.NodeDiskIOInfo,
            field_selector=f"metadata.name={options.node}",
        )
        pods = Collection(
            "/api/v1/pods", objects.Pod, field_selector=f"spec.nodeName={options.node}"
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(
                run_reflector(self._api, infos, self._infos, on_error=_log_error(infos.path))
            )
            tasks.create_task(
                run_reflector(self._api, pods, self._pods, on_error=_log_error(pods.path))
            )
            tasks.create_task(self._sample_for_ever())
            tasks.create_task(self._report_for_ever())

    async def _sample_for_ever(self) -> None:
        while True:
            uids = self._driver.cgroup_uids()
            counters = await asyncio.to_thread(self._source.read, uids)
            self._sampled_at = time.monotonic()
            self._driver.sample(self._sampled_at, counters)
            if excesses := self._driver.excesses(self._driver.remaining()):
                self._tell_excesses(excesses)
                self._is_urgent = True
                self._due.set()
            await asyncio.sleep(self._options.sample_seconds)

    async def _report_for_ever(self) -> None:
        backoff = Backoff(_INITIAL_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS)
        while True:
            try:
                await self._report()
                backoff.reset()
                wait_seconds = self._wait_seconds()
            except (ApiError, UnreachableError) as error:
                self.metrics.failed_reports.inc()
                asked = error.retry_after_seconds if isinstance(error, ApiError) else None
                wait_seconds = backoff.wait_seconds(asked)
                _repeated.warning("not reported, next try in %.1f s: %s", wait_seconds, error)
                # A change does not help a server that does not answer.
                await asyncio.sleep(wait_seconds)
                continue
            await asyncio.sleep(_MIN_REPORT_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_seconds):
                    await self._due.wait()

    def _wait_seconds(self) -> float:
        return max(0.0, self._options.report_seconds - _MIN_REPORT_SECONDS)

    async def _report(self) -> None:
        if not (self._infos.is_synced and self._pods.is_synced):
            await self._due.wait()
        self._due.clear()
        if not (self._infos.is_synced and self._pods.is_synced):
            return
        driver = self._driver
        if driver.info is None:
            await self._create()
            return
        now = time.monotonic()
        if driver.acknowledge(now):
            self._tell_acknowledged(now)
        remaining = driver.remaining()
        report = driver.report(remaining, time.time_ns())
        if report is None:
            return
        is_urgent, self._is_urgent = self._is_urgent, False
        try:
            await self._sink.send(report, is_urgent=is_urgent)
        except (ApiError, UnreachableError):
            self._is_urgent = self._is_urgent or is_urgent
            raise
        if self._reported_at is None:
            _log.info("reporting every %g s", self._options.report_seconds)
        self._reported_at = time.monotonic()
        self.metrics.reported(report, remaining, driver.other_io())

    async def _create(self) -> None:
        node, namespace = self._options.node, self._options.namespace
        path = collection_path(namespace)
        try:
            await self._api.send("POST", path, new_object(node, namespace))
        except ApiError as error:
            if error.is_not_found:
                raise ApiError(
                    error.status,
                    error.reason,
                    "there is no kind NodeDiskIOInfo, or no such namespace; expected the CRD of"
                    f" the chart and namespace {namespace}",
                    request=error.request,
                ) from None
            if not error.is_conflict:
                raise
            # It exists; the watch will show it.
            return
        _log.info("created the object %s/%s", namespace, node)

    # --- Events

    def _tell_source(self) -> None:
        """What cannot be measured here."""
        source, ids = self._source, self._driver.disk_ids
        if source.tree is None:
            _log.warning("pods are not measured: %s", source.problem)
        elif source.tree.version == "v1":
            _log.warning("cgroup version 1: buffered writes are not attributed to pods")
        for number in source.uncounted(ids):
            _log.warning(
                "disk %s: cgroups count nothing of it until a throttle rule for %s was written"
                " once, as docs/disk-io-driver.md shows",
                ids[number],
                number,
            )

    def _wake(self) -> None:
        self._due.set()

    def _tell_acknowledged(self, now: float) -> None:
        _log.info("answering generation %s of the reserved pods", self._driver.generation)
        given_up = frozenset(self._driver.given_up(now))
        for uid in sorted(given_up - self._told):
            _log.warning("reserved pod %s is not on this node; it is charged the default", uid)
        self._told = given_up

    def _tell_excesses(self, excesses: Sequence[PodCharge]) -> None:
        for each in excesses:
            self.metrics.excesses.inc()
            _repeated.warning(
                "pod %s takes %d bytes per second of disk %s, normalised, and requests %d",
                each.pod,
                each.charged.total,
                each.disk,
                each.requested.total,
            )


def _log_error(path: str) -> Callable[[Exception, float], None]:
    def log(error: Exception, wait_seconds: float) -> None:
        _repeated.warning("watching %s, next try in %.1f s: %s", path, wait_seconds, error)

    return log
