"""The report of a driver, and how it is written to the NodeDiskIOInfo object of its node.

The driver writes its own report, or sends it to the aggregator, which writes it in the same way.
The status is replaced as a whole. The models of the disks are written before the first status that
needs them; the measurements less often than the status, as they are for people. A report that
changes nothing in the status is noted by its time in an annotation, because the API server tells
its watchers nothing of a write that changes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from afflux.diskio.remaining_bandwidth import Remaining
from afflux.kube.api.client import MERGE_PATCH, Api
from afflux.kube.disks.disk_reports import DISK_MEASUREMENTS, DISK_MODELS
from afflux.kube.objects import Fields, Int64
from afflux.model.disks import Bandwidth

API_VERSION = "ioi.intel.com/v1"
KIND = "NodeDiskIOInfo"
# When the driver last reported; written when nothing else changes.
REPORTED_AT = "afflux.dev/disk-reported-at"

JSON_PATCH = "application/json-patch+json"

# All annotations of an object together may have 256 KiB.
MAX_MEASUREMENTS_BYTES = 64 << 10
MEASUREMENTS_INTERVAL_SECONDS = 30.0


class BlockIOStatus(Fields, frozen=True):
    total: float
    read: float
    write: float


class DeviceStatus(Fields, frozen=True):
    name: str
    status: BlockIOStatus


class NodeReport(Fields, frozen=True):
    """What a driver reports. `uid` is that of the object, so that a report never goes to a later
    one of the same name; `sequence` grows with every report of a node, over restarts too.
    `is_unacknowledged`: nothing is known yet of the pods; only a sign of life."""

    node: str
    uid: str
    sequence: Int64
    observed_generation: Int64
    devices: dict[str, DeviceStatus]
    models: dict[str, str]
    measurements: str = "{}"
    is_unacknowledged: bool = False


def collection_path(namespace: str) -> str:
    """Where the objects of a namespace are."""
    return f"/apis/{API_VERSION}/namespaces/{namespace}/nodediskioinfos"


def device_status(path: str, left: Bandwidth) -> DeviceStatus:
    """What is left of one disk, in the KEP's form."""
    return DeviceStatus(path, BlockIOStatus(float(left.total), float(left.read), float(left.write)))


def encode_measurements(remaining: Remaining) -> str:
    """`{"podUid": {"deviceId": {"read": n, "write": n}}}` in normalised bytes per second: of the
    pods that do most, as many as fit."""
    by_pod: dict[str, dict[str, dict[str, int]]] = {}
    total: dict[str, int] = {}
    for charge in remaining.charges:
        if charge.measured.total:
            found = {"read": charge.measured.read, "write": charge.measured.write}
            by_pod.setdefault(charge.pod, {})[charge.disk] = found
            total[charge.pod] = total.get(charge.pod, 0) + charge.measured.total
    kept: dict[str, dict[str, dict[str, int]]] = {}
    size = len("{}")
    for pod in sorted(by_pod, key=lambda pod: (-total[pod], pod)):
        size += len(msgspec.json.encode({pod: by_pod[pod]}))
        if size > MAX_MEASUREMENTS_BYTES:
            break
        kept[pod] = by_pod[pod]
    return msgspec.json.encode(dict(sorted(kept.items()))).decode()


def new_object(node: str, namespace: str) -> Mapping[str, object]:
    """The object of a node without any reserved pod."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": node, "namespace": namespace},
        "spec": {"nodeName": node, "reservedPods": []},
    }


@dataclass(frozen=True, slots=True)
class _Written:
    uid: str
    status: object
    models: str
    measurements: str
    measured_at: float


class ReportWriter:
    """Writes reports, for any number of nodes, and remembers what it has written."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._path = collection_path(namespace)
        self._written: dict[str, _Written] = {}

    async def write(self, report: NodeReport, now: float, *, is_urgent: bool = False) -> None:
        """Brings the object up to date with one or two requests; raises as the client does.

        `now` is monotonic. Urgent reports bring their measurements along.
        """
        before = self._written.pop(report.node, None)
        if before is None or before.uid != report.uid:
            before = _Written(report.uid, None, "", "", float("-inf"))
        status = (report.observed_generation, report.devices)
        models = msgspec.json.encode(report.models, order="sorted").decode()
        measures_now = report.measurements != before.measurements and (
            is_urgent or now - before.measured_at >= MEASUREMENTS_INTERVAL_SECONDS
        )
        has_status = not report.is_unacknowledged and status != before.status
        if models != before.models or measures_now or not has_status:
            annotations = {DISK_MODELS: models, REPORTED_AT: _timestamp()}
            if measures_now:
                annotations[DISK_MEASUREMENTS] = report.measurements
            await self._annotate(report, annotations)
        if has_status:
            await self._set_status(report)
        self._written[report.node] = _Written(
            report.uid,
            before.status if report.is_unacknowledged else status,
            models,
            report.measurements if measures_now else before.measurements,
            now if measures_now else before.measured_at,
        )

    def forget(self, nodes: Sequence[str]) -> None:
        """These nodes may have gone: their next reports are written whole."""
        for node in nodes:
            self._written.pop(node, None)

    async def _annotate(self, report: NodeReport, annotations: Mapping[str, str]) -> None:
        # With the uid the server refuses the patch for another object of this name.
        body = {"metadata": {"uid": report.uid, "annotations": annotations}}
        path = f"{self._path}/{report.node}"
        await self._api.send("PATCH", path, body, content_type=MERGE_PATCH)

    async def _set_status(self, report: NodeReport) -> None:
        status = {
            "observedGeneration": report.observed_generation,
            "allocatableBandwidth": report.devices,
        }
        body = [
            {"op": "test", "path": "/metadata/uid", "value": report.uid},
            # Replaces the status as a whole: disks that are not there any more vanish.
            {"op": "add", "path": "/status", "value": status},
        ]
        path = f"{self._path}/{report.node}/status"
        await self._api.send("PATCH", path, body, content_type=JSON_PATCH)


def _timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
