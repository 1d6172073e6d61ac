"""A fake API server with nodes and pods, which feeds a `ClusterReader` and a `Cycle`."""

import json

import msgspec

from afflux.cluster.state import State
from afflux.cycle.decision import NOTHING_DECIDED
from afflux.cycle.loop import Cycle
from afflux.kube import objects
from afflux.kube.reader.cluster_reader import ClusterReader
from afflux.model.placement import Placement

OURS = "afflux"
DEADLINE = {"activeDeadlineSeconds": 60, "terminationGracePeriodSeconds": 5}

# The kinds of objects, and the store of the reader for each.
KINDS = {
    "Node": "nodes",
    "Pod": "pods",
    "Namespace": "namespaces",
    "Service": "services",
    "ReplicaSet": "replica_sets",
}


class Idle:
    """A scheduler that never places a pod."""

    def policies_of(self, shape):
        return ()

    def decide(self, state, queue, *when):
        return NOTHING_DECIDED


def node(name, cpu="4", **spec):
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": spec,
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}},
    }


def pod(name, uid, cpu="1", labels=None, scheduler=OURS, **more):
    spec = {
        "schedulerName": scheduler,
        "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
        **more,
    }
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": uid,
        "labels": labels or {},
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {}}


def decoded(manifest):
    kind = getattr(objects, manifest["kind"])
    return msgspec.json.decode(json.dumps(manifest), type=kind)


class FakeApiServer:
    """The objects of an API server. The reader gets each change as a watch event or, while the
    watch is cut, all of them with the next list."""

    def __init__(self):
        self.reader = ClusterReader([OURS])
        self._ends = record_ends(self.reader)
        self.cycle = Cycle(State(), Idle())
        self.items = {kind: {} for kind in KINDS}
        self.cut = dict.fromkeys(KINDS, False)
        self._version = 0

    def store(self, kind):
        return getattr(self.reader, KINDS[kind])

    def put(self, manifest):
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        self._version += 1
        manifest["metadata"]["resourceVersion"] = str(self._version)
        self.items[kind][name] = json.loads(json.dumps(manifest))
        if not self.cut[kind]:
            self.store(kind).changed(decoded(manifest))

    def delete(self, kind, name):
        manifest = self.items[kind].pop(name)
        if not self.cut[kind]:
            self.store(kind).deleted(decoded(manifest))

    def relist(self, kind):
        self.cut[kind] = False
        self.store(kind).replaced([decoded(m) for m in self.items[kind].values()])

    def catch_up(self):
        for kind in self.items:
            self.relist(kind)
        return self.take_events()

    def take_ends(self):
        """The ends that were reported since the last call."""
        ends = list(self._ends)
        self._ends.clear()
        return ends

    def take_events(self):
        events = self.reader.take_events()
        self.cycle.run(events)
        return events


def record_ends(reader):
    """The list that gets the ends of pods of which the reader tells the register."""
    recorded, take = [], reader.ended_pods.take

    def take_and_record(now_seconds):
        ends = take(now_seconds)
        recorded.extend(ends)
        return ends

    reader.ended_pods.take = take_and_record
    return recorded


def event_types(events):
    return [type(event) for event in events]


def placement(server, name, machine):
    return Placement(server.reader._tracked[f"default/{name}"].task, machine)


def server_with_assumed_pod():
    server = FakeApiServer()
    server.put(node("n"))
    server.put(pod("p", "u"))
    server.take_events()
    placed = placement(server, "p", "n")
    server.reader.assume([placed])
    server.cycle.state.place(placed.task, "n")
    return server, placed


def running_pod(name, uid, start="1970-01-01T00:16:40Z", scheduler=OURS, **more):
    """A pod that runs since second 1,000."""
    found = pod(name, uid, scheduler=scheduler, nodeName="n", **more)
    found["status"] = {"phase": "Running", "startTime": start}
    return found
