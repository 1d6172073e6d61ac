"""A cluster of groups whose deadlines have passed, and the cleanup that deletes them."""

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from counting_event import CountingEvent
from small_api import Request, SmallApi, run, serving, until

from afflux.kube import objects
from afflux.kube.group_deadlines import GroupDeadlines
from afflux.kube.live.deadline_cleanup import DeadlineCleanup
from afflux.kube.live.event_recorder import EventRecorder
from afflux.kube.live.write_queue import RETRIES, Retries
from afflux.kube.reader.cluster_reader import ClusterReader
from afflux.web.scheduler_metrics import Metrics

PODS = "/api/v1/namespaces/default/pods"
KINDS = {
    "Job": "/apis/batch/v1/namespaces/default/jobs",
    "CronJob": "/apis/batch/v1/namespaces/default/cronjobs",
    "ReplicaSet": "/apis/apps/v1/namespaces/default/replicasets",
    "JobSet": "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets",
    "Pod": PODS,
}
# A cluster-scoped controller.
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
    version = KINDS[kind].removeprefix("/apis/").removeprefix("/api/").partition("/namespaces")[0]
    return {
        "apiVersion": version,
        "kind": kind,
        "name": name,
        "uid": uid or f"uid-{name}",
        "controller": True,
    }


def template(
    group: str | None = "g",
    *,
    size: int = 2,
    scheduler: str = "afflux",
    deadline: int | None = 60,
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Labels and specification of a pod, as a pod and the template of its controller have them."""
    named = {"afflux.dev/group-name": group, "afflux.dev/group-size": str(size)} if group else {}
    return {
        "metadata": {"labels": {**named, **(labels or {})}},
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "c"}],
            "activeDeadlineSeconds": deadline,
        },
    }


@dataclass
class Cluster:
    """An API server, the scheduler's copy of it, and a cleanup.

    The cleanup does not sleep before it tries again: it waits for a permit of `retry_permits`.
    """

    server: SmallApi
    deadlines: GroupDeadlines = field(default_factory=GroupDeadlines)
    clock: Clock = field(default_factory=Clock)
    remaining: list[float | None] = field(default_factory=lambda: [None])
    announced: list[Collection[str]] = field(default_factory=list)
    backoff_seconds: tuple[float, float] = (30.0, 1800.0)
    retries: Retries = RETRIES
    # The seconds that the cleanup would have slept, one entry per failed attempt.
    pauses: list[float] = field(default_factory=list)
    permits: int = 0

    def __post_init__(self) -> None:
        self.retry_permits = asyncio.Semaphore(0)
        self.changed = self.deadlines.changed = CountingEvent()
        self.reader = ClusterReader(["afflux"], deadlines=self.deadlines)
        node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "64", "pods": "99"}}}
        self.reader.nodes.changed(msgspec.convert(node, objects.Node))
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
        started: str | None = OLD,
        created: str = OLD,
        uid: str = "",
        **terms: Any,
    ) -> None:
        """A pod that runs since `started`; `terms` are those of `template`."""
        manifest = template(group, **terms)
        manifest["metadata"] |= {
            "name": name,
            "namespace": "default",
            "uid": uid or f"uid-{name}",
            "creationTimestamp": created,
            "ownerReferences": [owner] if owner else [],
        }
        manifest["spec"]["nodeName"] = "n" if started else ""
        manifest["status"] = {"phase": "Running", "startTime": started} if started else {}
        kept = self.server.put(f"{PODS}/{name}", manifest)
        self.reader.pods.changed(msgspec.json.decode(json.dumps(kept), type=objects.Pod))

    def allow_retries(self, number: int) -> None:
        """Let the cleanup try again so often, without a pause."""
        self.permits += number
        for _ in range(number):
            self.retry_permits.release()

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await self.retry_permits.acquire()

    @property
    def has_used_its_permits(self) -> bool:
        """Whether the cleanup has failed and may not try again."""
        return len(self.pauses) > self.permits

    def ended(self, name: str) -> None:
        """The kubelet has stopped a pod at its own deadline."""
        self._left(name)
        self.server.objects.pop(f"{PODS}/{name}")

    def succeeded(self, *names: str) -> None:
        """These pods have ended by themselves; the scheduler does not watch ended pods."""
        for name in names:
            self._left(name)
            self.server.objects[f"{PODS}/{name}"]["status"] = {"phase": "Succeeded"}

    def _left(self, name: str) -> None:
        pod = self.reader.pods.get(f"default/{name}")
        assert pod is not None
        self.reader.pods.deleted(pod)

    def owner(
        self,
        kind: str,
        name: str,
        above: Any = None,
        *,
        made: Mapping[str, Any] | None = None,
        spec: Mapping[str, Any] | None = None,
        **status: Any,
    ) -> None:
        """A controller whose pod template is `made`, by default that of the pods of group g."""
        self.server.put(
            f"{KINDS[kind]}/{name}",
            {
                "metadata": {
                    "name": name,
                    "uid": f"uid-{name}",
                    "ownerReferences": [above] if above else [],
                },
                "spec": {"template": made or template(), **(spec or {})},
                "status": status,
            },
        )

    def fleet(self) -> None:
        root = "/apis/example.com/v1"
        kinds = [{"name": "fleets", "kind": "Fleet", "namespaced": False}]
        self.server.put(root, {"metadata": {}, "resources": kinds})
        self.server.put(f"{root}/fleets/f", {"metadata": {"name": "f", "uid": "uid-f"}})

    def there(self) -> set[str]:
        """The names of all objects that have not been deleted."""
        paths = KINDS.values()
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
    async def cleaned_up(self) -> AsyncIterator[DeadlineCleanup]:
        """A running cleanup."""
        async with self.server.api() as api:
            recorder = EventRecorder(api, Metrics())
            cleaning = DeadlineCleanup(
                api,
                self.reader,
                self.deadlines,
                recorder,
                remaining_seconds=lambda: self.remaining[0],
                announce=self.announced.append,
                clock=self.clock,
                initial_backoff_seconds=self.backoff_seconds[0],
                max_backoff_seconds=self.backoff_seconds[1],
                retries=self.retries,
                sleep=self.pause,
            )
            self.reader.take_events(self.clock())
            work = asyncio.create_task(cleaning.run())
            try:
                yield cleaning
            finally:
                work.cancel()
                await asyncio.wait([work])
                await recorder.close()


def cleans(prepare: Any, expected: set[str], check: Any = None, *, notes: int = 0) -> None:
    """The cleanup of the cluster that `prepare` makes leaves the `expected` objects.

    It has ended then, or has failed and used up its permits to try again, and has written at least
    so many `notes`.
    """

    async def test() -> None:
        async with serving() as server:
            cluster = Cluster(server)
            prepare(cluster)
            async with cluster.cleaned_up() as cleanup:
                await until(lambda: bool(cluster.announced))
                await until(lambda: not cleanup.is_busy or cluster.has_used_its_permits)
                await until(lambda: len(cluster.notes()) >= notes)
            assert cluster.there() == expected
            if check is not None:
                check(cluster)

    run(test)
