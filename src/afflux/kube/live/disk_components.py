"""What a process runs if disk bandwidth counts: the loader of normalisers, in every replica, and
the disk reserver, in the leader."""

from collections.abc import Callable
from dataclasses import dataclass, field

from afflux.kube.api.client import Api
from afflux.kube.live.content_download import ContentDownload, DownloadLimits
from afflux.kube.live.disk_reserver import DiskReserver
from afflux.kube.live.disk_writer import DiskWriter
from afflux.kube.live.event_recorder import EventReason, EventRecorder
from afflux.kube.live.normaliser_loader import NormaliserLoader
from afflux.kube.live.object_refs import ObjectRef
from afflux.kube.live.watched_kinds import OptionalKind, WatchedKind, config_map_kind, disk_kind
from afflux.kube.reader.cluster_disks import DiskOptions
from afflux.kube.reader.cluster_reader import ClusterReader
from afflux.web.scheduler_metrics import Metrics

NORMALISERS_REFUSED = EventReason("Warning", "NormalisersRefused", "Loading")


@dataclass(frozen=True, slots=True)
class LiveDisks:
    """How disk bandwidth counts; the namespace of the IO drivers' objects, empty for our own; the
    ConfigMap of the normalisers, the path of the trusted keys, the limits of a download."""

    options: DiskOptions
    namespace: str = ""
    config_map: str = "default/normalization-func"
    trusted_keys: str = ""
    downloads: DownloadLimits = field(default_factory=DownloadLimits)


class DiskComponents:
    """The components, for a reader that counts disk bandwidth."""

    def __init__(
        self,
        api: Api,
        reader: ClusterReader,
        recorder: EventRecorder,
        metrics: Metrics,
        disks: LiveDisks,
    ) -> None:
        self._api = api
        self._reader = reader
        self._recorder = recorder
        self._metrics = metrics
        self._disks = disks
        self._download = ContentDownload(disks.downloads)
        self._loader = NormaliserLoader(
            disks.config_map,
            disks.trusted_keys,
            self._download,
            metrics,
            on_change=reader.cluster_disks.set_normalisers,
            on_problems=self._tell_problems,
        )

    def required_kind(self) -> WatchedKind:
        return config_map_kind(self._loader.store, self._disks.config_map)

    def optional_kind(self) -> OptionalKind:
        return disk_kind(self._reader, self._disks.namespace or self._api.config.namespace)

    async def run(self) -> None:
        """Load normalisers until cancelled."""
        async with self._download:
            await self._loader.run()

    def reserver(self, remaining_seconds: Callable[[], float | None]) -> DiskReserver:
        """The reserver of one term of leadership."""
        writer = DiskWriter(
            self._api,
            self._reader.cluster_disks,
            self._metrics,
            remaining_seconds=remaining_seconds,
        )
        return DiskReserver(self._reader, writer, self._recorder, self._metrics)

    def refresh_metrics(self) -> None:
        nodes = self._reader.cluster_disks.nodes
        self._metrics.disk_nodes(len(nodes.nodes()), nodes.silent_nodes())

    def _tell_problems(self, text: str) -> None:
        namespace, _, name = self._disks.config_map.partition("/")
        about = ObjectRef("v1", "ConfigMap", namespace, name)
        self._recorder.event(NORMALISERS_REFUSED, about, text)
