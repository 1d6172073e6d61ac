"""Cleanup after a group's deadline: which pods and owners are deleted, and which never."""

import pytest
from cleanup_cluster import FLEET, KINDS, NOW, PODS, Cluster, cleans, owned_by, template
from small_api import Fault, run, serving, until

pytestmark = pytest.mark.slow


def test_a_group_and_its_job_are_deleted_when_the_deadline_has_passed() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum")
        for name in ("a", "b"):
            cluster.pod(name, owner=owned_by("Job", "sum"))

    def check(cluster: Cluster) -> None:
        assert cluster.announced == [{"uid-a", "uid-b"}]
        first, *_ = cluster.deletions()
        # The owner first, by its uid; the garbage collector deletes its pods.
        assert first.path == f"{KINDS['Job']}/sum"
        assert first.body["preconditions"] == {"uid": "uid-sum"}
        assert first.body["propagationPolicy"] == "Background"
        assert {each.body["preconditions"]["uid"] for each in cluster.deletions()} == {
            "uid-sum",
            "uid-a",
            "uid-b",
        }
        assert set(cluster.notes()) == {
            "The deadline of group default/g has passed; deleted with it: Job default/sum"
        }

    cleans(prepare, set(), check, notes=1)


def test_no_request_is_sent_before_the_deadline() -> None:
    async def test() -> None:
        async with serving() as server:
            cluster = Cluster(server)
            cluster.clock.seconds = 999_959.9  # started at 999,900 with a deadline of 60 s
            cluster.owner("Job", "sum")
            cluster.pod("a", owner=owned_by("Job", "sum"))
            async with cluster.cleaned_up():
                await cluster.changed.wake_and_wait()
                assert server.requests == []
                cluster.clock.seconds = 999_960.0
                await until(lambda: cluster.there() == set())

    run(test)


def test_an_owner_with_other_pods_stays_and_only_the_pods_of_the_group_are_deleted() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum")
        cluster.pod("a", owner=owned_by("Job", "sum"))
        cluster.pod("other", "h", owner=owned_by("Job", "sum"), deadline=None)

    cleans(prepare, {"sum", "other"})


def test_a_pod_of_another_scheduler_and_its_owner_are_never_deleted() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum")
        cluster.pod("a", owner=owned_by("Job", "sum"))
        cluster.pod("theirs", owner=owned_by("Job", "sum"), scheduler="another")

    cleans(prepare, {"sum", "theirs"})


def test_the_highest_owner_all_of_whose_pods_are_in_the_group_is_deleted() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("JobSet", "all")
        for number in (1, 2):
            cluster.owner("Job", f"sum-{number}", owned_by("JobSet", "all"))
            cluster.pod(f"p{number}", owner=owned_by("Job", f"sum-{number}"))

    # A real garbage collector would delete the Jobs, because their owner is gone.
    cleans(prepare, {"sum-1", "sum-2"})


def test_an_owner_with_pods_outside_the_group_is_not_deleted() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("JobSet", "all")
        for number in (1, 2):
            cluster.owner("Job", f"sum-{number}", owned_by("JobSet", "all"))
        cluster.pod("p1", owner=owned_by("Job", "sum-1"))
        cluster.pod("p2", "h", owner=owned_by("Job", "sum-2"), deadline=None)

    cleans(prepare, {"all", "sum-2", "p2"})


def test_an_owner_is_not_deleted_if_another_owner_in_the_namespace_cannot_be_read() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("JobSet", "all")
        cluster.owner("Job", "sum", owned_by("JobSet", "all"))
        cluster.pod("a", owner=owned_by("Job", "sum"))
        # This ReplicaSet might belong to the JobSet.
        cluster.owner("ReplicaSet", "hidden")
        cluster.pod("b", None, owned_by("ReplicaSet", "hidden"), deadline=None)
        cluster.server.fault = lambda request: (
            Fault(status=403) if "replicasets" in request.path else Fault()
        )

    cleans(prepare, {"all", "hidden", "b"})


def test_an_owner_with_other_pods_through_another_owner_is_not_deleted() -> None:
    def prepare(cluster: Cluster) -> None:
        # Workers of its own, and a Job for the launcher: like the controllers of MPI.
        cluster.owner("JobSet", "all")
        cluster.pod("worker", owner=owned_by("JobSet", "all"))
        cluster.owner("Job", "launcher", owned_by("JobSet", "all"))
        cluster.pod("stays", "h", owner=owned_by("Job", "launcher"), deadline=None)

    cleans(prepare, {"all", "launcher", "stays"})


def test_an_owner_that_may_have_pods_through_an_unreadable_owner_is_not_deleted() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("JobSet", "all")
        cluster.pod("worker", owner=owned_by("JobSet", "all"))
        cluster.owner("ReplicaSet", "hidden", owned_by("JobSet", "all"))
        cluster.pod("stays", None, owned_by("ReplicaSet", "hidden"), deadline=None)
        cluster.server.fault = lambda request: (
            Fault(status=403) if "replicasets" in request.path else Fault()
        )

    cleans(prepare, {"all", "hidden", "stays"})


def test_a_cluster_scoped_owner_is_not_deleted() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.fleet()
        cluster.pod("a", owner=FLEET)

    def check(cluster: Cluster) -> None:
        assert "/apis/example.com/v1/fleets/f" in cluster.server.objects
        (note,) = cluster.notes()
        assert "it stays: Fleet f is cluster-scoped and may have pods in other namespaces" in note

    cleans(prepare, {"a"}, check, notes=1)


def test_the_owner_below_a_cluster_scoped_one_is_deleted() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.fleet()
        cluster.owner("Job", "sum", FLEET)
        cluster.pod("a", owner=owned_by("Job", "sum"))

    # Otherwise the Job would recreate its pod.
    cleans(prepare, set())


@pytest.mark.parametrize(
    "name", ["../../elsewhere/jobs/theirs", "..", "a/status", "a?b=c", "a%2Fb", "a b", "a\r\nb"]
)
def test_an_owner_reference_with_an_invalid_name_is_not_followed(name: str) -> None:
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


def test_a_finished_owner_stays_because_it_recreates_nothing() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum", conditions=[{"type": "Failed", "status": "True"}])
        cluster.pod("a", owner=owned_by("Job", "sum"))

    cleans(prepare, {"sum"})


def test_another_owner_of_the_same_name_is_not_deleted() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum")
        cluster.pod("a", owner=owned_by("Job", "sum", uid="an-earlier-one"))

    cleans(prepare, {"sum"})


def test_another_pod_of_the_same_name_is_not_deleted() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.pod("a")
        cluster.pod("b")
        # Recreated, and the watch has not seen it yet.
        cluster.server.objects[f"{PODS}/a"]["metadata"]["uid"] = "a-later-one"

    cleans(prepare, {"a"})


def test_a_pod_created_after_the_deadline_belongs_to_the_next_group() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.pod("a")
        cluster.pod("next", started=None, created="1970-01-12T13:46:39Z")

    cleans(prepare, {"next"})


def test_a_pending_member_of_the_same_controller_is_deleted_with_its_group() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum")
        cluster.pod("a", owner=owned_by("Job", "sum"))
        cluster.pod("late", owner=owned_by("Job", "sum"), started=None)

    cleans(prepare, set())


def test_a_job_is_deleted_although_it_has_replaced_its_pod() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum", made=template(None))
        cluster.pod("a", None, owner=owned_by("Job", "sum"))
        created = "1970-01-12T13:46:00Z"
        cluster.pod("again", None, owned_by("Job", "sum"), started=None, created=created)

    # The garbage collector deletes the replacement, which never ran.
    cleans(prepare, {"again"})


def test_one_of_several_pods_without_a_group_does_not_end_the_job() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum", made=template(None))
        cluster.pod("a", None, owner=owned_by("Job", "sum"))
        later = "1970-01-12T13:46:30Z"
        cluster.pod("b", None, owner=owned_by("Job", "sum"), started=later)

    cleans(prepare, {"sum", "b"})


def test_a_new_group_may_use_the_name_of_a_deleted_one() -> None:
    async def test() -> None:
        async with serving() as server:
            cluster = Cluster(server)
            for name in ("a", "b"):
                cluster.pod(name)
            async with cluster.cleaned_up():
                await until(lambda: cluster.there() == set())
            for name in ("a", "b"):
                pod = cluster.reader.pods.get(f"default/{name}")
                assert pod is not None
                cluster.reader.pods.deleted(pod)
            cluster.reader.take_events(NOW)
            for name in ("c", "d"):
                cluster.pod(name, started=None, created="1970-01-12T13:46:41Z")
            cluster.reader.take_events(NOW)
            group = cluster.reader.register.waiting_group("default/g/uid-c")
            assert group is not None
            assert [task.name for task in group.tasks] == ["default/c", "default/d"]
            assert group.ready_seconds > NOW
            assert cluster.deadlines.next_seconds() is None

    run(test)
