"""Cleaning up: what goes when a group's deadline is over, and everything that must not."""

import asyncio

import pytest
from overdue_cluster import FLEET, KINDS, NOW, PODS, Cluster, cleans, owned_by
from small_api import Fault, run, serving, until

pytestmark = pytest.mark.slow


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

    cleans(prepare, set(), check, notes=1)


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
        cluster.fleet()
        cluster.pod("a", owner=FLEET)

    def check(cluster: Cluster) -> None:
        assert "/apis/example.com/v1/fleets/f" in cluster.server.objects
        (note,) = cluster.notes()
        assert "Fleet f is of no namespace and may have pods in others" in note

    cleans(prepare, set(), check, notes=1)


def test_the_walk_ends_below_an_owner_of_no_namespace() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.fleet()
        cluster.owner("Job", "sum", FLEET)
        cluster.pod("a", owner=owned_by("Job", "sum"))

    # As below any other that has pods elsewhere: otherwise the Job would make its pod anew.
    cleans(prepare, set())


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
