"""A cluster in which deadlines are over, and somebody who cleans up."""

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from small_api import Request, SmallApi, run, serving, until

from afflux.kube import objects
from afflux.kube.live.cleaning import Cleaning
from afflux.kube.live.deadlines import Deadlines
from afflux.kube.live.mirror import Mirror
from afflux.kube.live.recording import Recorder
from afflux.web.metrics import Metrics

PODS = "/api/v1/namespaces/default/pods"
KINDS = {
    "Job": "/apis/batch/v1/namespaces/default/jobs",
    "CronJob": "/apis/batch/v1/namespaces/default/cronjobs",
    "ReplicaSet": "/apis/apps/v1/namespaces/default/replicasets",
    "JobSet": "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets",
}
# A controller that is of no namespace.
FLEET = {
    "apiVersion": "example.com/v1",
    "kind": "Fleet",
    "name": "f",
    "uid": "uid-f",
    "controller": True,
}
NOW = 1_000_000.0
OLD = "1970-01-12T13:45:00Z"  # 999,900


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.seconds = NOW

    def __call__(self) -> float:
        return self.seconds


def owned_by(kind: str, name: str, uid: str = "") -> dict[str, Any]:
    version = KINDS[kind].removeprefix("/apis/").partition("/namespaces")[0]
    return {
        "apiVersion": version,
        "kind": kind,
        "name": name,
        "uid": uid or f"uid-{name}",
        "controller": True,
    }


@dataclass
class Cluster:
    """An API server, what a scheduler knows of it, and somebody who cleans up."""

    server: SmallApi
    deadlines: Deadlines = field(default_factory=Deadlines)
    clock: Clock = field(default_factory=Clock)
    remaining: list[float | None] = field(default_factory=lambda: [None])
    announced: list[Collection[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.mirror = Mirror(["afflux"], deadlines=self.deadlines)
        node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "64", "pods": "99"}}}
        self.mirror.nodes.changed(msgspec.convert(node, objects.Node))
        for kind, path in KINDS.items():
            root, _, rest = path.partition("/namespaces/default/")
            known = self.server.objects.get(root, {"metadata": {}, "resources": []})
            known["resources"] += [
                {"name": rest, "kind": kind, "namespaced": True},
                {"name": f"{rest}/status", "kind": kind, "namespaced": True},
            ]
            self.server.put(root, known)

    def pod(
        self,
        name: str,
        group: str | None = "g",
        owner: Mapping[str, Any] | None = None,
        *,
        scheduler: str = "afflux",
        deadline: int | None = 60,
        started: str | None = OLD,
        created: str = OLD,
        uid: str = "",
    ) -> None:
        labels = {"afflux.dev/group-name": group, "afflux.dev/group-size": "2"} if group else {}
        manifest: dict[str, Any] = {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": uid or f"uid-{name}",
                "labels": labels,
                "creationTimestamp": created,
                "ownerReferences": [owner] if owner else [],
            },
            "spec": {
                "schedulerName": scheduler,
                "nodeName": "n" if started else "",
                "containers": [{"name": "c"}],
                "activeDeadlineSeconds": deadline,
            },
            "status": {"phase": "Running", "startTime": started} if started else {},
        }
        kept = self.server.put(f"{PODS}/{name}", manifest)
        self.mirror.pods.changed(msgspec.json.decode(json.dumps(kept), type=objects.Pod))

    def ended(self, name: str) -> None:
        """The kubelet has stopped a pod: its time was over for the kubelet, too."""
        pod = self.mirror.pods.get(f"default/{name}")
        assert pod is not None
        self.mirror.pods.deleted(pod)
        self.server.objects.pop(f"{PODS}/{name}")

    def owner(self, kind: str, name: str, above: Any = None, **status: Any) -> None:
        self.server.put(
            f"{KINDS[kind]}/{name}",
            {
                "metadata": {
                    "name": name,
                    "uid": f"uid-{name}",
                    "ownerReferences": [above] if above else [],
                },
                "status": status,
            },
        )

    def fleet(self) -> None:
        root = "/apis/example.com/v1"
        kinds = [{"name": "fleets", "kind": "Fleet", "namespaced": False}]
        self.server.put(root, {"metadata": {}, "resources": kinds})
        self.server.put(f"{root}/fleets/f", {"metadata": {"name": "f", "uid": "uid-f"}})

    def there(self) -> set[str]:
        """Names of what has not been deleted."""
        paths = (*KINDS.values(), PODS)
        return {
            path.rpartition("/")[2]
            for path in self.server.objects
            if path.rpartition("/")[0] in paths
        }

    def deletions(self) -> list[Request]:
        return [request for request in self.server.requests if request.method == "DELETE"]

    def events(self) -> list[Any]:
        return [
            request.body
            for request in self.server.requests
            if request.method == "POST" and request.path.endswith("/events")
        ]

    def notes(self) -> list[str]:
        return [event["note"] for event in self.events()]

    @asynccontextmanager
    async def cleaned_up(self) -> AsyncIterator[None]:
        """Somebody at work."""
        async with self.server.api() as api:
            recorder = Recorder(api, Metrics())
            cleaning = Cleaning(
                api,
                self.mirror,
                self.deadlines,
                recorder,
                remaining_seconds=lambda: self.remaining[0],
                announce=self.announced.append,
                clock=self.clock,
            )
            self.mirror.drain(self.clock())
            work = asyncio.create_task(cleaning.run())
            try:
                yield
            finally:
                work.cancel()
                await asyncio.wait([work])
                await recorder.close()


def cleans(
    prepare: Any,
    expected: set[str],
    check: Any = None,
    *,
    notes: int = 0,
    settle_seconds: float = 0.1,
) -> None:
    """After cleaning up what `prepare` has made, these are left, and so many notes are written."""

    async def test() -> None:
        async with serving() as server:
            cluster = Cluster(server)
            prepare(cluster)
            async with cluster.cleaned_up():
                await until(lambda: cluster.there() == expected and len(cluster.notes()) >= notes)
                await asyncio.sleep(settle_seconds)
            assert cluster.there() == expected
            if check is not None:
                check(cluster)

    run(test)
