"""Cleaning up: what goes when a group's deadline is over, and everything that must not."""

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from small_api import Fault, Request, SmallApi, run, serving, until

from afflux.kube import objects
from afflux.kube.live import cleaning
from afflux.kube.live.cleaning import Cleaning
from afflux.kube.live.deadlines import Deadlines
from afflux.kube.live.mirror import Mirror
from afflux.kube.live.recording import Recorder
from afflux.web.metrics import Metrics

pytestmark = pytest.mark.slow

PODS = "/api/v1/namespaces/default/pods"
KINDS = {
    "Job": "/apis/batch/v1/namespaces/default/jobs",
    "CronJob": "/apis/batch/v1/namespaces/default/cronjobs",
    "ReplicaSet": "/apis/apps/v1/namespaces/default/replicasets",
    "JobSet": "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets",
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

    def notes(self) -> list[str]:
        return [
            request.body["note"]
            for request in self.server.requests
            if request.method == "POST" and request.path.endswith("/events")
        ]

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
    prepare: Any, expected: set[str], check: Any = None, *, settle_seconds: float = 0.1
) -> None:
    """After cleaning up what `prepare` has made, these are left."""

    async def test() -> None:
        async with serving() as server:
            cluster = Cluster(server)
            prepare(cluster)
            async with cluster.cleaned_up():
                await until(lambda: cluster.there() == expected)
                await asyncio.sleep(settle_seconds)
            assert cluster.there() == expected
            if check is not None:
                check(cluster)

    run(test)


def test_a_group_and_its_job_go_when_the_deadline_is_over() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum")
        for name in ("a", "b"):
            cluster.pod(name, owner=owned_by("Job", "sum"))

    def check(cluster: Cluster) -> None:
        assert cluster.announced == [{"uid-a", "uid-b"}]
        first, *_ = cluster.deletions()
        # The owner first, by its uid, and it takes along what it has made.
        assert first.path == f"{KINDS['Job']}/sum"
        assert first.body["preconditions"] == {"uid": "uid-sum"}
        assert first.body["propagationPolicy"] == "Background"
        assert {each.body["preconditions"]["uid"] for each in cluster.deletions()} == {
            "uid-sum",
            "uid-a",
            "uid-b",
        }
        assert set(cluster.notes()) == {
            "The deadline of group default/g is over; deleted with it: Job default/sum"
        }

    cleans(prepare, set(), check)


def test_nothing_goes_before_its_time_and_nothing_is_asked_meanwhile() -> None:
    async def test() -> None:
        async with serving() as server:
            cluster = Cluster(server)
            cluster.clock.seconds = 999_959.9  # started at 999,900 with a deadline of 60 s
            cluster.owner("Job", "sum")
            cluster.pod("a", owner=owned_by("Job", "sum"))
            async with cluster.cleaned_up():
                await asyncio.sleep(0.05)
                assert server.requests == []
                cluster.clock.seconds = 999_960.0
                await until(lambda: cluster.there() == set())

    run(test)


def test_an_owner_with_other_pods_stays_and_only_the_pods_of_the_group_go() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum")
        cluster.pod("a", owner=owned_by("Job", "sum"))
        cluster.pod("other", "h", owner=owned_by("Job", "sum"), deadline=None)

    cleans(prepare, {"sum", "other"})


def test_a_pod_of_another_scheduler_is_never_deleted_nor_its_owner() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum")
        cluster.pod("a", owner=owned_by("Job", "sum"))
        cluster.pod("theirs", owner=owned_by("Job", "sum"), scheduler="another")

    cleans(prepare, {"sum", "theirs"})


def test_the_walk_goes_up_as_far_as_everything_is_in_the_group() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("JobSet", "all")
        for number in (1, 2):
            cluster.owner("Job", f"sum-{number}", owned_by("JobSet", "all"))
            cluster.pod(f"p{number}", owner=owned_by("Job", f"sum-{number}"))

    # The garbage collector of this server would take the Jobs: they are owned by what is gone.
    cleans(prepare, {"sum-1", "sum-2"})


def test_the_walk_ends_below_an_owner_that_has_pods_elsewhere() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("JobSet", "all")
        for number in (1, 2):
            cluster.owner("Job", f"sum-{number}", owned_by("JobSet", "all"))
        cluster.pod("p1", owner=owned_by("Job", "sum-1"))
        cluster.pod("p2", "h", owner=owned_by("Job", "sum-2"), deadline=None)

    cleans(prepare, {"all", "sum-2", "p2"})


def test_the_walk_ends_where_somebody_else_cannot_be_seen() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("JobSet", "all")
        cluster.owner("Job", "sum", owned_by("JobSet", "all"))
        cluster.pod("a", owner=owned_by("Job", "sum"))
        # Whose this is nobody can tell: it might be the JobSet's.
        cluster.owner("ReplicaSet", "hidden")
        cluster.pod("b", None, owned_by("ReplicaSet", "hidden"), deadline=None)
        cluster.server.fault = lambda request: (
            Fault(status=403) if "replicasets" in request.path else Fault()
        )

    cleans(prepare, {"all", "hidden", "b"})


def test_an_owner_stays_that_has_pods_by_way_of_another_one() -> None:
    def prepare(cluster: Cluster) -> None:
        # Workers of its own, and a Job beside them: as controllers of MPI have it.
        cluster.owner("JobSet", "all")
        cluster.pod("worker", owner=owned_by("JobSet", "all"))
        cluster.owner("Job", "launcher", owned_by("JobSet", "all"))
        cluster.pod("stays", "h", owner=owned_by("Job", "launcher"), deadline=None)

    cleans(prepare, {"all", "launcher", "stays"})


def test_an_owner_stays_of_which_nobody_can_tell_whether_it_has_other_pods() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("JobSet", "all")
        cluster.pod("worker", owner=owned_by("JobSet", "all"))
        cluster.owner("ReplicaSet", "hidden", owned_by("JobSet", "all"))
        cluster.pod("stays", None, owned_by("ReplicaSet", "hidden"), deadline=None)
        cluster.server.fault = lambda request: (
            Fault(status=403) if "replicasets" in request.path else Fault()
        )

    cleans(prepare, {"all", "hidden", "stays"})


def test_an_owner_of_no_namespace_stays_as_its_other_pods_are_not_seen() -> None:
    def prepare(cluster: Cluster) -> None:
        root = "/apis/example.com/v1"
        kinds = [{"name": "fleets", "kind": "Fleet", "namespaced": False}]
        cluster.server.put(root, {"metadata": {}, "resources": kinds})
        cluster.server.put(f"{root}/fleets/f", {"metadata": {"name": "f", "uid": "uid-f"}})
        owner = {"apiVersion": "example.com/v1", "kind": "Fleet", "name": "f", "uid": "uid-f"}
        cluster.pod("a", owner={**owner, "controller": True})

    def check(cluster: Cluster) -> None:
        assert "/apis/example.com/v1/fleets/f" in cluster.server.objects
        (note,) = cluster.notes()
        assert "Fleet f is of no namespace and may have pods in others" in note

    cleans(prepare, set(), check)


@pytest.mark.parametrize(
    "name", ["../../elsewhere/jobs/theirs", "..", "a/status", "a?b=c", "a%2Fb", "a b", "a\r\nb"]
)
def test_a_reference_to_no_name_leads_nowhere(name: str) -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.server.put(
            "/apis/batch/v1/namespaces/elsewhere/jobs/theirs", {"metadata": {"uid": "uid-theirs"}}
        )
        cluster.pod("a", owner=owned_by("Job", name, uid="uid-theirs"))

    def check(cluster: Cluster) -> None:
        assert [request.path for request in cluster.deletions()] == [f"{PODS}/a"]
        assert not any(
            request.path.startswith("/apis/batch") for request in cluster.server.requests
        )

    cleans(prepare, set(), check)


def test_a_cron_job_is_not_deleted_for_one_of_its_jobs() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("CronJob", "nightly")
        cluster.owner("Job", "sum", owned_by("CronJob", "nightly"))
        cluster.pod("a", owner=owned_by("Job", "sum"))

    cleans(prepare, {"nightly"})


def test_an_owner_that_has_ended_makes_nothing_anew_and_stays() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum", conditions=[{"type": "Failed", "status": "True"}])
        cluster.pod("a", owner=owned_by("Job", "sum"))

    cleans(prepare, {"sum"})


def test_another_owner_of_the_same_name_is_not_meant() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum")
        cluster.pod("a", owner=owned_by("Job", "sum", uid="an-earlier-one"))

    cleans(prepare, {"sum"})


def test_another_pod_of_the_same_name_is_not_meant() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.pod("a")
        cluster.pod("b")
        # Made anew, and the watch is behind.
        cluster.server.objects[f"{PODS}/a"]["metadata"]["uid"] = "a-later-one"

    cleans(prepare, {"a"})


def test_a_pod_that_came_later_under_the_name_is_of_the_next_group() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.pod("a")
        cluster.pod("next", started=None, created="1970-01-12T13:46:39Z")

    cleans(prepare, {"next"})


def test_a_member_that_still_waits_goes_with_its_group() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.pod("a")
        cluster.pod("late", started=None)

    cleans(prepare, set())


def test_a_replacement_does_not_save_the_job() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum")
        cluster.pod("a", None, owner=owned_by("Job", "sum"))
        created = "1970-01-12T13:46:00Z"
        cluster.pod("again", None, owned_by("Job", "sum"), started=None, created=created)

    # The garbage collector takes the replacement, which never ran.
    cleans(prepare, {"again"})


def test_one_of_several_pods_without_a_group_does_not_end_the_job() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum")
        cluster.pod("a", None, owner=owned_by("Job", "sum"))
        cluster.pod("b", None, owner=owned_by("Job", "sum"), deadline=100_000)

    cleans(prepare, {"sum", "b"})


def test_an_owner_that_we_may_not_see_stays_and_the_pod_says_so() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("JobSet", "all")
        cluster.owner("Job", "sum", owned_by("JobSet", "all"))
        cluster.pod("a", owner=owned_by("Job", "sum"))
        cluster.server.fault = lambda request: (
            Fault(status=403) if "jobsets" in request.path else Fault()
        )

    def check(cluster: Cluster) -> None:
        (note,) = cluster.notes()
        assert "JobSet default/all could not be read" in note

    cleans(prepare, {"all", "sum"}, check)


def test_an_owner_that_we_may_not_delete_stays_and_the_pod_says_so() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum")
        cluster.pod("a", owner=owned_by("Job", "sum"))
        cluster.server.fault = lambda request: (
            Fault(status=403) if request.method == "DELETE" and "jobs" in request.path else Fault()
        )

    def check(cluster: Cluster) -> None:
        (note,) = cluster.notes()
        assert "Job default/sum could not be deleted" in note

    cleans(prepare, {"sum"}, check)


def test_who_leads_no_longer_deletes_nothing() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.remaining[0] = 0.0
        cluster.pod("a")

    cleans(prepare, {"a"})


def test_a_server_in_trouble_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "FIRST_PAUSE_SECONDS", 0.01)
    failures = [Fault(status=500), Fault(hang_up_before=True), Fault(hang_up_after=True)]

    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum")
        cluster.pod("a", owner=owned_by("Job", "sum"))
        cluster.server.fault = lambda request: (
            failures.pop() if failures and request.method == "DELETE" else Fault()
        )

    cleans(prepare, set())


@pytest.mark.parametrize("what", ["pods", "jobs"])
def test_what_is_refused_is_told_and_tried_again_until_it_is_gone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    monkeypatch.setattr(cleaning, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(cleaning, "LONGEST_PAUSE_SECONDS", 0.04)
    refused: list[str] = []

    def fault(request: Request) -> Fault:
        if request.method != "DELETE" or f"/{what}/" not in request.path or len(refused) == 8:
            return Fault()
        refused.append(request.path)
        return Fault(status=403)

    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum")
        cluster.pod("a", owner=owned_by("Job", "sum"))
        cluster.server.fault = fault

    def check(cluster: Cluster) -> None:
        assert len(refused) == 8
        assert any("could not be deleted" in note for note in cluster.notes())
        told = [record.message for record in caplog.records if "trying again" in record.message]
        assert len(told) == 8
        assert f"/{'a' if what == 'pods' else 'sum'} could not be deleted" in told[0]

    cleans(prepare, set(), check)


def test_it_waits_longer_each_time_and_stops_when_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cleaning, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(cleaning, "LONGEST_PAUSE_SECONDS", 0.16)

    async def test() -> None:
        async with serving() as server:
            cluster = Cluster(server)
            cluster.pod("a")
            server.fault = lambda request: (
                Fault(status=403) if request.method == "DELETE" else Fault()
            )
            async with cluster.cleaned_up():
                await asyncio.sleep(0.6)
                # 0.01, 0.02, 0.04, 0.08, 0.16, 0.16, ... and not as fast as it can.
                assert 5 <= len(cluster.deletions()) <= 9
                kubelet = cluster.mirror.pods.get("default/a")
                assert kubelet is not None
                # The kubelet has stopped it: its time was over for the kubelet, too.
                cluster.mirror.pods.deleted(kubelet)
                await asyncio.sleep(0.3)
                tried = len(cluster.deletions())
                await asyncio.sleep(0.4)
                assert len(cluster.deletions()) == tried

    run(test)


def test_what_was_cleaned_up_leaves_its_name_to_others() -> None:
    # What the prototype got wrong: cleanup on the deadline did not free the group's name.
    async def test() -> None:
        async with serving() as server:
            cluster = Cluster(server)
            for name in ("a", "b"):
                cluster.pod(name)
            async with cluster.cleaned_up():
                await until(lambda: cluster.there() == set())
            for name in ("a", "b"):
                pod = cluster.mirror.pods.get(f"default/{name}")
                assert pod is not None
                cluster.mirror.pods.deleted(pod)
            cluster.mirror.drain(NOW)
            for name in ("c", "d"):
                cluster.pod(name, started=None, created="1970-01-12T13:46:41Z")
            cluster.mirror.drain(NOW)
            group = cluster.mirror.gathering.waiting("default/g")
            assert group is not None
            assert [task.name for task in group.tasks] == ["default/c", "default/d"]
            assert group.ready_seconds > NOW
            assert cluster.deadlines.next_seconds() is None

    run(test)
