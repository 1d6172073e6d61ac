"""Where a driver sends its reports: to the API server itself, or to an aggregator."""

import time

from afflux.diskio.node_reports import NodeReport, ReportWriter
from afflux.kube.api.client import Api
from afflux.kube.objects import Fields

REPORTS_PATH = "/reports"


class DirectSink:
    """Writes to the API server."""

    def __init__(self, writer: ReportWriter) -> None:
        self._writer = writer

    async def send(self, report: NodeReport, *, is_urgent: bool) -> None:
        """Write one report."""
        await self._writer.write(report, time.monotonic(), is_urgent=is_urgent)


class SentReport(Fields, frozen=True):
    """The body of a POST to the aggregator."""

    report: NodeReport
    is_urgent: bool = False


class AggregatorSink:
    """Sends to an aggregator, whose client this is."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def send(self, report: NodeReport, *, is_urgent: bool) -> None:
        """Send one report."""
        await self._api.send("POST", REPORTS_PATH, SentReport(report, is_urgent))
