"""Cleanup when the API server refuses: what stays, what is reported, what is tried again."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from cleanup_cluster import KINDS, OLD, PODS, Cluster, cleans, owned_by, template
from small_api import Fault, Request, run, serving, until

from afflux.kube.live import deadline_cleanup
from afflux.kube.live.write_queue import Retries

pytestmark = pytest.mark.slow


def refuses(method: str, kinds: str, status: int = 403) -> Callable[[Request], Fault]:
    """Requests of this method for objects of this kind fail with the status."""
    return lambda request: (
        Fault(status=status)
        if request.method == method and f"/{kinds}/" in request.path
        else Fault()
    )


FAST_RETRIES = Retries(initial_backoff_seconds=0.001, max_backoff_seconds=0.001)


def retries_fast(cluster: Cluster, retries: int = 3) -> None:
    """Requests are repeated without a pause, and so is the cleanup, so many times."""
    cluster.backoff_seconds = (0.01, 0.04)
    cluster.retries = FAST_RETRIES
    cluster.allow_retries(retries)


@pytest.mark.parametrize("status", [403, 500])
def test_pods_below_an_unreadable_owner_stay_and_an_event_reports_it(status: int) -> None:
    def prepare(cluster: Cluster) -> None:
        retries_fast(cluster)
        cluster.owner("JobSet", "all")
        cluster.owner("Job", "sum", owned_by("JobSet", "all"))
        cluster.pod("a", owner=owned_by("Job", "sum"))
        cluster.server.fault = refuses("GET", "jobsets", status)

    def check(cluster: Cluster) -> None:
        # The Job would recreate a deleted pod, and the JobSet a deleted Job.
        assert cluster.deletions() == []
        note = cluster.notes()[0]
        assert note.startswith(
            "The deadline of group default/g has passed; it could not be cleaned up: "
            "JobSet default/all could not be read: "
        )

    cleans(prepare, {"all", "sum", "a"}, check, notes=1)


def test_pods_of_an_owner_that_may_not_be_deleted_stay_and_an_event_reports_it() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum")
        cluster.pod("a", owner=owned_by("Job", "sum"))
        cluster.server.fault = refuses("DELETE", "jobs")

    def check(cluster: Cluster) -> None:
        assert [request.path for request in cluster.deletions()] == [f"{KINDS['Job']}/sum"]
        (note,) = cluster.notes()
        assert "Job default/sum could not be deleted" in note

    cleans(prepare, {"sum", "a"}, check, notes=1)


def test_only_pods_below_the_unreadable_owner_stay_and_events_name_each_pods_own_owner() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("JobSet", "hidden")
        cluster.pod("a", "g", owned_by("JobSet", "hidden"))
        cluster.owner("Job", "sum", made=template("h"))
        cluster.pod("b", "h", owned_by("Job", "sum"))
        cluster.pod("c", "h")
        cluster.server.fault = refuses("GET", "jobsets")

    def check(cluster: Cluster) -> None:
        notes = {each["regarding"]["name"]: each["note"] for each in cluster.events()}
        assert "JobSet default/hidden could not be read" in notes["a"]
        of_h = "The deadline of group default/h has passed"
        assert (notes["b"], notes["c"]) == (f"{of_h}; deleted with it: Job default/sum", of_h)

    cleans(prepare, {"hidden", "a"}, check)


@pytest.mark.parametrize("status", [400, 405, 422, 429, 500, 503])
@pytest.mark.parametrize("what", ["jobs", "pods"])
def test_an_error_for_one_object_does_not_affect_the_others(what: str, status: int) -> None:
    # A webhook that denies the deletion or is down, a kind that cannot be deleted.
    def prepare(cluster: Cluster) -> None:
        retries_fast(cluster)
        for name in "abc":
            cluster.owner("Job", f"job-{name}", made=template(name))
            cluster.pod(f"pod-{name}", name, owned_by("Job", f"job-{name}"))
        cluster.server.fault = lambda request: (
            Fault(status=status)
            if request.method == "DELETE" and request.path.endswith(f"/{what}/{what[:-1]}-a")
            else Fault()
        )

    def check(cluster: Cluster) -> None:
        (note,) = {
            each["note"]
            for each in cluster.events()
            if each["regarding"]["name"] == "pod-a" and "trying again after 0 s" in each["note"]
        }
        assert f"default/{what[:-1]}-a could not be deleted: a fault of the test" in note

    cleans(prepare, {"job-a", "pod-a"} if what == "jobs" else {"pod-a"}, check)


def test_after_one_object_has_used_up_its_tries_each_further_object_is_tried_once() -> None:

    def prepare(cluster: Cluster) -> None:
        cluster.retries = FAST_RETRIES
        for number in range(10):
            cluster.owner("Job", f"job-{number}", made=template(f"g{number}"))
            cluster.pod(f"pod-{number}", f"g{number}", owned_by("Job", f"job-{number}"))
        cluster.pod("by-itself", None)
        cluster.server.fault = refuses("DELETE", "jobs", 500)

    def check(cluster: Cluster) -> None:
        assert len(cluster.deletions()) == FAST_RETRIES.max_tries + 9 + 1

    left = {f"{what}-{number}" for what in ("job", "pod") for number in range(10)}
    cleans(prepare, left, check)


def test_an_unreadable_owner_above_one_that_stays_anyway_does_not_matter() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("JobSet", "hidden")
        cluster.owner("Job", "sum", owned_by("JobSet", "hidden"))
        cluster.pod("a", owner=owned_by("Job", "sum"))
        cluster.pod("other", "h", owned_by("Job", "sum"), deadline=None)
        cluster.server.fault = refuses("GET", "jobsets")

    cleans(prepare, {"hidden", "sum", "other"})


def test_everything_is_deleted_once_the_permission_is_granted() -> None:
    async def test() -> None:
        async with serving() as server:
            cluster = Cluster(server)
            retries_fast(cluster)
            cluster.owner("Job", "sum")
            cluster.pod("a", owner=owned_by("Job", "sum"))
            server.fault = refuses("GET", "jobs")
            async with cluster.cleaned_up():
                await until(lambda: cluster.has_used_its_permits)
                assert cluster.there() == {"sum", "a"}
                server.fault = lambda _: Fault()
                cluster.allow_retries(1)
                await until(lambda: cluster.there() == set())

    run(test)


def test_the_cleanup_gives_up_an_owner_that_it_may_not_read_when_its_pods_have_ended() -> None:
    async def test() -> None:
        async with serving() as server:
            cluster = Cluster(server)
            retries_fast(cluster)
            cluster.owner("Job", "sum")
            cluster.pod("a", owner=owned_by("Job", "sum"))
            server.fault = refuses("GET", "jobs")
            async with cluster.cleaned_up() as cleanup:
                await until(lambda: cluster.has_used_its_permits)
                assert cleanup.is_busy
                cluster.ended("a")
                # Whether the owner still exists cannot be found out: one attempt is the last.
                cluster.allow_retries(1)
                await until(lambda: not cleanup.is_busy)
                assert cluster.there() == {"sum"}

    run(test)


def test_an_owner_that_could_not_be_read_while_its_pods_ran_is_deleted_later() -> None:
    async def test() -> None:
        async with serving() as server:
            cluster = Cluster(server)
            retries_fast(cluster)
            cluster.owner("Job", "sum")
            cluster.pod("a", owner=owned_by("Job", "sum"))
            server.fault = refuses("GET", "jobs", 500)
            async with cluster.cleaned_up() as cleanup:
                await until(lambda: cluster.has_used_its_permits)
                cluster.ended("a")
                cluster.allow_retries(2)
                await until(lambda: cluster.has_used_its_permits or not cleanup.is_busy)
                # The Job would create another pod, so it has to be deleted.
                server.fault = lambda _: Fault()
                cluster.allow_retries(1)
                await until(lambda: cluster.there() == set())

    run(test)


@pytest.mark.parametrize("group", [None, "g"])
def test_recreated_pods_join_the_running_job_and_cause_no_additional_attempts(
    group: str | None,
) -> None:

    async def test() -> None:
        async with serving() as server:
            cluster = Cluster(server)
            cluster.owner("Job", "sum", made=template(group))
            server.fault = refuses("DELETE", "jobs")
            async with cluster.cleaned_up() as cleanup:
                for number in range(20):
                    created = "1970-01-12T13:46:00Z" if number else OLD
                    cluster.pod(f"p{number}", group, owned_by("Job", "sum"), created=created)
                    cluster.reader.take_events(cluster.clock())
                    await until(lambda number=number: len(cluster.announced) == number + 1)
                    await until(lambda: cluster.has_used_its_permits)
                    if number < 19:
                        cluster.ended(f"p{number}")
                cluster.allow_retries(1)
                await until(lambda: cluster.has_used_its_permits)
                server.fault = lambda _: Fault()
                cluster.allow_retries(1)
                await until(lambda: cluster.there() == set() and not cleanup.is_busy)
            # Three attempts in all, and not one for each of twenty pods.
            job, pod = f"{KINDS['Job']}/sum", f"{PODS}/p19"
            assert [each.path for each in cluster.deletions()] == [job, job, job, pod]

    run(test)


def test_a_pod_that_joins_during_an_attempt_is_deleted_right_after_it() -> None:
    async def test() -> None:
        async with serving() as server:
            cluster = Cluster(server)
            cluster.owner("Job", "sum")
            cluster.pod("a", owner=owned_by("Job", "sum"))
            joined = asyncio.Event()
            server.fault = lambda request: Fault(
                until=joined if request.method == "DELETE" else None
            )
            async with cluster.cleaned_up():
                await until(lambda: bool(cluster.deletions()))
                cluster.pod("b", owner=owned_by("Job", "sum"))
                cluster.reader.take_events(cluster.clock())
                await until(lambda: len(cluster.announced) == 2)
                joined.set()
                await until(lambda: cluster.there() == set())

    run(test)


def test_an_unrelated_group_does_not_wait_for_a_refused_one() -> None:
    async def test() -> None:
        async with serving() as server:
            cluster = Cluster(server)
            cluster.owner("Job", "sum")
            cluster.pod("a", owner=owned_by("Job", "sum"))
            server.fault = refuses("DELETE", "jobs")
            async with cluster.cleaned_up():
                await until(lambda: bool(cluster.deletions()))
                cluster.pod("b", "h")
                cluster.reader.take_events(cluster.clock())
                await until(lambda: cluster.there() == {"sum", "a"})

    run(test)


@pytest.mark.parametrize("owner", [None, owned_by("Job", "next")])
def test_a_new_group_of_the_same_name_does_not_wait_for_what_was_refused_of_the_old_one(
    owner: dict[str, Any] | None,
) -> None:
    async def test() -> None:
        async with serving() as server:
            cluster = Cluster(server)
            cluster.owner("Job", "sum")
            cluster.pod("a", owner=owned_by("Job", "sum"))
            server.fault = lambda request: (
                Fault(status=403)
                if request.method == "DELETE" and request.path.endswith("/sum")
                else Fault()
            )
            async with cluster.cleaned_up():
                await until(lambda: bool(cluster.notes()))
                cluster.ended("a")
                cluster.owner("Job", "next")
                cluster.pod("b", owner=owner, created="1970-01-12T13:46:00Z")
                cluster.reader.take_events(cluster.clock())
                await until(lambda: "b" not in cluster.there())
                assert cluster.there() == ({"sum"} if owner else {"sum", "next"})

    run(test)


def test_a_late_member_joins_the_refused_members_of_its_group() -> None:
    async def test() -> None:
        async with serving() as server:
            cluster = Cluster(server)
            cluster.pod("a")
            server.fault = refuses("DELETE", "pods")
            async with cluster.cleaned_up() as cleanup:
                await until(lambda: cluster.has_used_its_permits)
                cluster.pod("late", created="1970-01-12T13:46:00Z")
                cluster.reader.take_events(cluster.clock())
                await until(lambda: len(cluster.announced) == 2)
                cluster.allow_retries(1)
                await until(lambda: cluster.has_used_its_permits)
                server.fault = lambda _: Fault()
                cluster.allow_retries(1)
                await until(lambda: not cleanup.is_busy)
            # The late member does not cause attempts of its own.
            names = [each.path.removeprefix(f"{PODS}/") for each in cluster.deletions()]
            assert names == ["a", "a", "late", "a", "late"]

    run(test)


def test_jobs_are_compared_by_identity() -> None:
    jobs = [deadline_cleanup._CleanupJob(), deadline_cleanup._CleanupJob()]
    second = jobs[1]
    jobs.remove(second)
    assert jobs[0] is not second


def test_an_invalid_pod_ends_only_the_attempt(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with serving() as server:
            cluster = Cluster(server)
            cluster.owner("Job", "sum", made=template(None))
            cluster.pod("a", None, owned_by("Job", "sum"))
            async with cluster.cleaned_up():
                cluster.pod("b", None, owned_by("Job", "sum"), started=None, created="yesterday")
                cluster.allow_retries(3)
                await until(lambda: cluster.has_used_its_permits)
                assert "(InputError)" in caplog.text
                again = "1970-01-12T13:46:00Z"
                cluster.pod("b", None, owned_by("Job", "sum"), started=None, created=again)
                cluster.allow_retries(1)
                await until(lambda: cluster.there() == {"b"})

    run(test)


def test_a_replica_that_does_not_lead_cleans_up_nothing() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.remaining[0] = 0.0
        cluster.pod("a")

    cleans(prepare, {"a"})


def test_deletions_are_retried_after_server_errors() -> None:
    failures = [Fault(status=500), Fault(hang_up_before=True), Fault(hang_up_after=True)]

    def prepare(cluster: Cluster) -> None:
        cluster.allow_retries(len(failures))
        cluster.owner("Job", "sum")
        cluster.pod("a", owner=owned_by("Job", "sum"))
        cluster.server.fault = lambda request: (
            failures.pop() if failures and request.method == "DELETE" else Fault()
        )

    cleans(prepare, set())


@pytest.mark.parametrize("what", ["pods", "jobs"])
def test_refused_deletions_are_reported_and_retried_until_they_succeed(
    caplog: pytest.LogCaptureFixture, what: str
) -> None:
    refused: list[str] = []

    def fault(request: Request) -> Fault:
        if request.method != "DELETE" or f"/{what}/" not in request.path or len(refused) == 8:
            return Fault()
        refused.append(request.path)
        return Fault(status=403)

    def prepare(cluster: Cluster) -> None:
        cluster.allow_retries(8)
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


def test_backoff_grows_and_the_cleanup_ends_when_nothing_is_left() -> None:
    async def test() -> None:
        async with serving() as server:
            cluster = Cluster(server)
            cluster.pod("a")
            server.fault = lambda request: (
                Fault(status=403) if request.method == "DELETE" else Fault()
            )
            async with cluster.cleaned_up() as cleanup:
                cluster.allow_retries(7)
                await until(lambda: cluster.has_used_its_permits)
                cluster.ended("a")
                cluster.allow_retries(1)
                await until(lambda: not cleanup.is_busy)
            assert len(cluster.deletions()) == 8
            longest = (30, 60, 120, 240, 480, 960, 1800, 1800)
            for pause, most in zip(cluster.pauses, longest, strict=True):
                assert most / 2 <= pause <= most

    run(test)
