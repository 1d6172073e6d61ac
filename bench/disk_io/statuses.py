"""What the statuses of IO drivers cost the scheduler: CPU time of reader and cycle, without an API
server, while pods come, start and end.

    python -m bench.disk_io.statuses

500 nodes with 4 disks each report every 5 s, each time with other figures. The same pods run
without any disks, with disks that report once, and with disks that report every 5 s; the three take
turns, so that other load on the machine affects all of them.
"""

import argparse
import gc
import json
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from time import process_time

import msgspec

from afflux.app import make_scheduler
from afflux.cluster.state import State
from afflux.config import parse_scheduler_spec
from afflux.cycle.loop import Cycle
from afflux.kube import objects
from afflux.kube.pods import DEFAULT_SCHEDULER
from afflux.kube.reader.cluster_disks import DiskOptions
from afflux.kube.reader.cluster_reader import ClusterReader
from afflux.model.placement import Placement
from bench.ledger.scheduling_loop import nodes

PLAIN, SILENT, REPORTING = "no disks", "disks that report once", "disks that report every 5 s"
_VARIANTS = (PLAIN, SILENT, REPORTING)
_NODES, _DISKS = 500, 4
_INTERVAL_SECONDS, _CYCLE_SECONDS = 5.0, 0.2
_PODS_PER_SECOND, _RUN_SECONDS = 100, 60.0
# One pod in so many states what it does on disks.
_STATED_EVERY = 4
_MB = 1_000_000


@dataclass
class _Cluster:
    """A scheduler, and the watches that feed it, on a virtual clock."""

    variant: str
    reader: ClusterReader
    cycle: Cycle
    now: float = 0.0
    pods: int = 0
    version: int = 0
    running: deque[tuple[float, Placement]] = field(default_factory=deque[tuple[float, Placement]])
    placed: int = 0

    def run(self, seconds: float) -> float:
        """CPU seconds of reader and cycle while so many virtual seconds pass."""
        used, end, due = 0.0, self.now + seconds, 0.0
        while self.now < end:
            self.now += _CYCLE_SECONDS
            changed = self._arrivals()
            ended = self._ends()
            statuses: list[objects.NodeDiskIOInfo] = []
            if self.variant == REPORTING:
                due += _NODES * _CYCLE_SECONDS / _INTERVAL_SECONDS
                statuses = [self._status() for _ in range(int(due))]
                due -= len(statuses)
            began = process_time()
            for pod in (*changed, *ended):
                self.reader.pods.changed(pod)
            for status in statuses:
                self.reader.cluster_disks.infos.changed(status)
            outcome = self.cycle.run(self.reader.take_events(self.now), self.now)
            self.reader.assume(outcome.placements)
            self.reader.register.changes.discard()
            used += process_time() - began
            self.placed += len(outcome.placements)
            for placement in outcome.placements:
                self.running.append((self.now + _RUN_SECONDS, placement))
                pod = self.reader.pods.get(placement.task.name)
                assert pod is not None
                spec = msgspec.structs.replace(pod.spec, node_name=placement.machine)
                self.reader.pods.changed(msgspec.structs.replace(pod, spec=spec))
        return used

    def _arrivals(self) -> Sequence[objects.Pod]:
        count = int(_PODS_PER_SECOND * _CYCLE_SECONDS)
        self.pods += count
        return [_pod(number) for number in range(self.pods - count, self.pods)]

    def _ends(self) -> Sequence[objects.Pod]:
        found: list[objects.Pod] = []
        while self.running and self.running[0][0] <= self.now:
            _, placement = self.running.popleft()
            pod = self.reader.pods.get(placement.task.name)
            assert pod is not None
            found.append(msgspec.structs.replace(pod, status=objects.PodStatus(phase="Succeeded")))
        return found

    def _status(self) -> objects.NodeDiskIOInfo:
        self.version += 1
        return node_disks(self.version % _NODES, self.version)


def node_disks(node: int, version: int) -> objects.NodeDiskIOInfo:
    """The object of a node; what its disks have left differs from version to version."""
    left = {
        f"disk-{disk}": {
            "name": f"/dev/sd{disk}",
            "status": {
                "read": float(400 * _MB + (version * 7 + disk) % 97 * _MB),
                "write": float(300 * _MB + (version * 5 + disk) % 89 * _MB),
                "total": float(500 * _MB + (version * 3 + disk) % 83 * _MB),
            },
        }
        for disk in range(_DISKS)
    }
    found = {
        "metadata": {
            "name": f"n{node}",
            "namespace": "io",
            "uid": f"disks-of-{node}",
            "generation": 1,
            "resourceVersion": str(version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"nodeName": f"n{node}"},
        "status": {"observedGeneration": 1, "allocatableBandwidth": left},
    }
    return msgspec.json.decode(json.dumps(found), type=objects.NodeDiskIOInfo)


def _pod(number: int) -> objects.Pod:
    annotations: dict[str, str] = {}
    if number % _STATED_EVERY == 0:
        stated = {"rbps": f"{number % 3 + 1}M", "wbps": "1M", "blocksize": "64k"}
        annotations["blockio.kubernetes.io/throughput"] = json.dumps(stated)
    requests = {"cpu": f"{100 * (number % 5 + 1)}m", "memory": "256Mi"}
    found = {
        "metadata": {
            "name": f"p{number}",
            "namespace": "default",
            "uid": f"uid-{number}",
            "annotations": annotations,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]},
    }
    return msgspec.json.decode(json.dumps(found), type=objects.Pod)


def _cluster(variant: str) -> _Cluster:
    spec = "cpu-memory@flow" if variant == PLAIN else "cpu-memory+disk-io@flow"
    settings = parse_scheduler_spec(spec)
    counting = settings.disk_counting()
    options = None if counting is None else DiskOptions(counting)
    reader = ClusterReader([DEFAULT_SCHEDULER], takes_all_pending=True, disks=options)
    reader.nodes.replaced(nodes(_NODES))
    if variant != PLAIN:
        reader.cluster_disks.infos.replaced([node_disks(node, node) for node in range(_NODES)])
    state = State()
    return _Cluster(variant, reader, Cycle(state, make_scheduler(settings, state)))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.disk_io.statuses")
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=20.0, help="virtual seconds of each turn")
    parser.add_argument("--json", metavar="FILE", help="write the figures here")
    options = parser.parse_args()
    # The drivers that report once are silent.
    logging.disable(logging.WARNING)
    clusters = [_cluster(variant) for variant in _VARIANTS]
    for each in clusters:
        # Until pods end as fast as they come.
        each.run(_RUN_SECONDS)
    gc.collect()
    gc.freeze()
    used: dict[str, list[float]] = {variant: [] for variant in _VARIANTS}
    for _ in range(options.turns):
        for each in clusters:
            used[each.variant].append(each.run(options.seconds) / options.seconds)
    found = {variant: median(seconds) for variant, seconds in used.items()}
    for variant, seconds in found.items():
        ratio = seconds / found[SILENT] - 1
        print(f"{variant:30} {1000 * seconds:7.1f} ms of CPU per second  {100 * ratio:+6.1f} %")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"cpu_seconds_per_second": found, "nodes": _NODES, "disks": _DISKS}, file)
            file.write("\n")


if __name__ == "__main__":
    main()
