"""The metrics of the driver: what each disk has left, what it does, and how reports go."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge

from afflux.diskio.node_reports import NodeReport
from afflux.diskio.remaining_bandwidth import Remaining
from afflux.diskio.sampling import IORate


class DriverMetrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._left = Gauge(
            "afflux_disk_left_bytes_per_second",
            "Normalised bandwidth that the reserved pods leave, by disk and figure.",
            ["disk", "figure"],
            registry=self.registry,
        )
        self._other = Gauge(
            "afflux_disk_other_io_bytes_per_second",
            "What a disk does besides the pods of the node, by disk and direction.",
            ["disk", "direction"],
            registry=self.registry,
        )
        self._charged = Gauge(
            "afflux_disk_charged_pods",
            "Reserved pods that are charged for a disk.",
            ["disk"],
            registry=self.registry,
        )
        self._generation = Gauge(
            "afflux_disk_observed_generation",
            "The generation of reserved pods that the last report answers.",
            registry=self.registry,
        )
        self._reports = Counter(
            "afflux_disk_reports", "Reports that were accepted.", registry=self.registry
        )
        self.failed_reports = Counter(
            "afflux_disk_failed_reports", "Reports that failed.", registry=self.registry
        )
        self.excesses = Counter(
            "afflux_disk_excesses",
            "How often a pod did more than it requests and had been charged for.",
            registry=self.registry,
        )

    def reported(
        self, report: NodeReport, remaining: Remaining, others: Mapping[str, IORate]
    ) -> None:
        """A report was accepted."""
        self._reports.inc()
        self._generation.set(report.observed_generation)
        for disk, left in remaining.left.items():
            for figure in ("read", "write", "total"):
                self._left.labels(disk, figure).set(getattr(left, figure))
            pods = sum(1 for charge in remaining.charges if charge.disk == disk)
            self._charged.labels(disk).set(pods)
        for disk, rate in others.items():
            self._other.labels(disk, "read").set(rate.read)
            self._other.labels(disk, "write").set(rate.write)
