"""Fake IO drivers: they write the objects of their nodes as real ones do, without any disk.

A driver answers a list of reserved pods when it knows all of them, with what their requests leave
of the capacity. What a pod takes is what it states; a pod that states nothing takes 5 MiB/s.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self

from scheduler_process import NAMESPACE
from testbed import ControlPlane, Manifest
from testbed.api import ApiError

MI = 2**20
PATH = f"/apis/ioi.intel.com/v1/namespaces/{NAMESPACE}/nodediskioinfos"
THROUGHPUT = "blockio.kubernetes.io/throughput"
DEVICES = "afflux.dev/disk-devices"
RESERVED = "afflux.dev/reserved-disks"
MODELS = "afflux.dev/disk-models"
DEFAULT = 10 * MI


def stating(mib: int) -> dict[str, str]:
    """The annotation of a pod that reads so many MiB per second."""
    return {THROUGHPUT: json.dumps({"rbps": f"{mib}Mi", "blocksize": "32k"})}


def taken(pod: Manifest) -> int:
    """What a pod takes in all."""
    text = pod["metadata"].get("annotations", {}).get(THROUGHPUT)
    return int(json.loads(text)["rbps"].removesuffix("Mi")) * MI if text else DEFAULT


class Drivers:
    """The drivers of some nodes, each with these disks of this capacity in MiB per second."""

    def __init__(
        self, plane: ControlPlane, capacity: Mapping[str, Mapping[str, int]], model: str = ""
    ) -> None:
        self.plane = plane
        self.capacity = capacity
        self._model = model
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._beat = 0
        # Called with the name of each node before its status is written.
        self.before_write: Callable[[str], None] = lambda _: None

    def __enter__(self) -> Self:
        for node in self.capacity:
            self.create(node)
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        for node in self.capacity:
            with suppress(ApiError):
                # The test may have deleted it.
                self.plane.api.delete(f"{PATH}/{node}")

    def create(self, node: str) -> None:
        # Before the first status: without its model a disk would take requests as they are stated.
        models = {MODELS: json.dumps(dict.fromkeys(self.capacity[node], self._model))}
        self.plane.api.create(
            PATH,
            {
                "apiVersion": "ioi.intel.com/v1",
                "kind": "NodeDiskIOInfo",
                "metadata": {"name": node, "namespace": NAMESPACE, "annotations": models},
                "spec": {"nodeName": node},
            },
        )

    def start(self) -> None:
        self._stop.clear()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def info(self, node: str) -> Manifest:
        return self.plane.api.get(f"{PATH}/{node}")

    def reserved(self, node: str) -> set[str]:
        return set(self.info(node)["spec"].get("reservedPods", []))

    def disks_of(self, pod: Manifest) -> list[str]:
        """The disks that a bound pod was given."""
        return list(json.loads(pod["metadata"]["annotations"][DEVICES]).values())

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            for node in self.capacity:
                try:
                    self.report(node)
                except (ApiError, OSError):
                    # The server was restarted, or the object has changed; the next turn reports.
                    time.sleep(0.1)

    def report(self, node: str) -> None:
        """Write the status of one node, if every reserved pod is known."""
        info = self.info(node)
        pods = {each["metadata"]["uid"]: each for each in self.plane.pods()}
        noted = json.loads(info["metadata"].get("annotations", {}).get(RESERVED, "{}"))
        left = {disk: mib * MI for disk, mib in self.capacity[node].items()}
        for uid in info["spec"].get("reservedPods", []):
            if uid not in pods:
                continue
            amount = taken(pods[uid])
            # Of a pod of another scheduler it is not known which disk it has.
            disk = next(iter(noted.get(uid, [])), max(left, key=lambda each: left[each]))
            left[disk] -= amount
        figures = {
            disk: {"name": f"/dev/{disk}", "status": dict.fromkeys(("total", "read", "write"), n)}
            for disk, n in ((disk, max(amount, 0)) for disk, amount in left.items())
        }
        status = {
            "observedGeneration": info["metadata"]["generation"],
            "allocatableBandwidth": figures,
        }
        self.before_write(node)
        self.plane.api.patch(f"{PATH}/{node}/status", {"status": status})
        self._beat += 1
        annotations = {"afflux.dev/disk-reported-at": str(self._beat)}
        self.plane.api.patch(f"{PATH}/{node}", {"metadata": {"annotations": annotations}})
