"""Cleanup of groups that completed: which pods and owners are deleted, and which never."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from cleanup_cluster import FLEET, KINDS, PODS, Cluster, owned_by, template
from small_api import Fault, run, serving, until

from afflux.groups.entries import EndedGroup, GroupEntry, MemberEntry
from afflux.groups.group_id import GroupId
from afflux.groups.states import EndReason
from afflux.kube.live.event_recorder import EventRecorder
from afflux.kube.live.finished_cleanup import MAX_TRIES, FinishedCleanup
from afflux.kube.live.write_queue import Retries
from afflux.web.scheduler_metrics import Metrics

pytestmark = pytest.mark.slow

COMPLETE = [{"type": "Complete", "status": "True"}]
FAILED = [{"type": "Failed", "status": "True"}]


def ended(*names: str, how: EndReason = "succeeded", **hows: EndReason) -> EndedGroup:
    """The group g of these pods; `hows` are the ends of its other pods."""
    ends = dict.fromkeys(names, "succeeded") | hows
    members = tuple(
        MemberEntry(f"uid-{name}", f"default/{name}", machine="n", how=each)
        for name, each in ends.items()
    )
    entry = GroupEntry(GroupId("default", "g", members[0].uid), size=len(members))
    return EndedGroup(entry, members, how, 1_000_000.0)


def cleans(
    prepare: Callable[[Cluster], None],
    group: EndedGroup,
    expected: set[str],
    *,
    notes: set[str] | None = None,
    pauses: int = 0,
    during: Callable[[Cluster], None] = lambda _: None,
) -> None:
    """The cleanup of the group leaves the `expected` objects, tells what `notes` say, and pauses
    so often before it tries again; `during` each of these pauses something happens."""

    async def test() -> None:
        async with serving() as server, server.api() as api:
            cluster = Cluster(server)
            prepare(cluster)
            slept: list[float] = []

            async def sleep(seconds: float) -> None:
                slept.append(seconds)
                during(cluster)

            recorder = EventRecorder(api, Metrics())
            cleanup = FinishedCleanup(
                api,
                cluster.reader,
                recorder,
                remaining_seconds=lambda: cluster.remaining[0],
                retries=Retries(initial_backoff_seconds=0.001, max_backoff_seconds=0.001),
                sleep=sleep,
            )
            cleanup.finished(group)
            work = asyncio.create_task(cleanup.run())
            try:
                await until(lambda: not cleanup.is_busy)
                await until(lambda: len(cluster.notes()) >= len(notes or ()))
            finally:
                work.cancel()
                await asyncio.wait([work])
                await recorder.close()
            assert notes is None or set(cluster.notes()) == notes
            assert cluster.there() == expected
            assert len(slept) == pauses

    run(test)


def pods_of_job(cluster: Cluster, *names: str, job: str = "sum", **terms: Any) -> None:
    for name in names:
        cluster.pod(name, owner=owned_by("Job", job), **terms)
    cluster.succeeded(*names)


def test_a_completed_group_is_deleted_with_its_job() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum", conditions=COMPLETE)
        pods_of_job(cluster, "a", "b")

    # A real garbage collector deletes the pods, because their owner is gone.
    notes = {"Group default/g has completed; deleted: Job default/sum"}
    cleans(prepare, ended("a", "b"), {"a", "b"}, notes=notes)


def test_the_root_owner_is_deleted() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("JobSet", "all", conditions=[{"type": "Completed", "status": "True"}])
        cluster.owner("Job", "sum", owned_by("JobSet", "all"), conditions=COMPLETE)
        pods_of_job(cluster, "a", "b")

    cleans(prepare, ended("a", "b"), {"sum", "a", "b"})


def test_pods_without_a_controller_are_deleted_by_uid() -> None:
    def prepare(cluster: Cluster) -> None:
        for name in ("a", "b", "other"):
            cluster.pod(name)
        cluster.succeeded("a", "b", "other")
        cluster.server.objects[f"{PODS}/b"]["metadata"]["uid"] = "a-later-one"

    notes = {"Group default/g has completed; deleted"}
    cleans(prepare, ended("a", "b"), {"b", "other"}, notes=notes)


@pytest.mark.parametrize("how", ["deadline", "deleted", "rejected"])
def test_a_group_that_did_not_end_by_itself_stays(how: EndReason) -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum", conditions=COMPLETE)
        pods_of_job(cluster, "a")

    cleans(prepare, ended("a", how=how), {"sum", "a"})


def failed(cluster: Cluster, *names: str) -> None:
    for name in names:
        cluster.server.objects[f"{PODS}/{name}"]["status"] = {"phase": "Failed"}


def test_a_job_that_replaced_a_failed_pod_and_completed_is_deleted() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum", conditions=COMPLETE)
        pods_of_job(cluster, "a", "b")
        failed(cluster, "b")

    cleans(prepare, ended("a", b="failed", how="failed"), {"a", "b"})


def test_a_job_that_failed_although_some_pods_succeeded_stays_without_an_event() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum", conditions=FAILED)
        pods_of_job(cluster, "a", "b")
        failed(cluster, "b")

    group = ended("a", b="failed", how="failed")
    cleans(prepare, group, {"sum", "a", "b"}, notes=set())


def test_pods_without_a_controller_stay_if_one_of_their_group_failed() -> None:
    def prepare(cluster: Cluster) -> None:
        for name in ("a", "b"):
            cluster.pod(name)
        cluster.succeeded("a", "b")
        failed(cluster, "b")

    cleans(prepare, ended("a", b="failed", how="failed"), {"a", "b"})


def test_a_pod_that_has_not_succeeded_or_is_of_another_scheduler_stays() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.pod("runs")
        cluster.pod("theirs", scheduler="another")
        cluster.succeeded("theirs")

    cleans(prepare, ended("runs", "theirs"), {"runs", "theirs"})


def test_a_job_that_completes_a_moment_later_is_deleted_then() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum")
        pods_of_job(cluster, "a", "b")

    def during(cluster: Cluster) -> None:
        cluster.owner("Job", "sum", conditions=COMPLETE)

    cleans(prepare, ended("a", "b"), {"a", "b"}, pauses=1, during=during)


def test_a_job_with_more_pods_to_make_stays() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum")
        pods_of_job(cluster, "a", "b")

    notes = {"Group default/g has completed; it stays: Job default/sum has not succeeded"}
    there = {"sum", "a", "b"}
    cleans(prepare, ended("a", "b"), there, notes=notes, pauses=MAX_TRIES - 1)


def test_a_job_that_failed_stays_as_a_record() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum", conditions=FAILED)
        pods_of_job(cluster, "a")

    notes = {"Group default/g has completed; it stays: Job default/sum has not succeeded"}
    cleans(prepare, ended("a"), {"sum", "a"}, notes=notes)


def test_a_job_below_an_owner_that_is_not_done_stays_because_it_would_be_recreated() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("JobSet", "all")
        cluster.owner("Job", "sum", owned_by("JobSet", "all"), conditions=COMPLETE)
        pods_of_job(cluster, "a")

    cleans(prepare, ended("a"), {"all", "sum", "a"}, pauses=MAX_TRIES - 1)


def test_a_job_below_a_cluster_scoped_owner_stays() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.fleet()
        cluster.owner("Job", "sum", FLEET, conditions=COMPLETE)
        pods_of_job(cluster, "a")

    why = "Fleet f is cluster-scoped and may have pods in other namespaces"
    notes = {f"Group default/g has completed; it stays: {why}"}
    cleans(prepare, ended("a"), {"sum", "a"}, notes=notes)


def test_a_cron_job_stays_and_its_job_is_deleted() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("CronJob", "nightly")
        cluster.owner("Job", "sum", owned_by("CronJob", "nightly"), conditions=COMPLETE)
        pods_of_job(cluster, "a")

    cleans(prepare, ended("a"), {"nightly", "a"})


def test_owners_with_pods_that_are_left_to_run_stay() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum", conditions=COMPLETE)
        pods_of_job(cluster, "a")
        cluster.pod("runs", "h", owner=owned_by("Job", "sum"))

    there = {"sum", "a", "runs"}
    cleans(prepare, ended("a"), there, pauses=MAX_TRIES - 1)


@pytest.mark.parametrize(
    "made",
    [
        template(scheduler="another"),
        template("h"),
        template(size=3),
        template(deadline=None),
    ],
)
def test_a_controller_that_does_not_confirm_the_pods_is_not_deleted(made: dict[str, Any]) -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "theirs", made=made, conditions=COMPLETE)
        pods_of_job(cluster, "forged", job="theirs")
        cluster.owner("Job", "sum", conditions=COMPLETE)
        pods_of_job(cluster, "own")

    cleans(prepare, ended("forged", "own"), {"theirs", "forged", "own"})


def test_a_pod_that_is_named_as_owner_is_not_deleted() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.pod("victim", scheduler="another")
        cluster.pod("forged", owner=owned_by("Pod", "victim"))
        cluster.succeeded("victim", "forged")

    why = "Pod default/victim is no controller of pods"
    notes = {f"Group default/g has completed; it stays: {why}"}
    cleans(prepare, ended("forged"), {"victim", "forged"}, notes=notes)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_what_the_server_refuses_is_tried_again(method: str) -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum", conditions=COMPLETE)
        pods_of_job(cluster, "a")
        cluster.pod("bare")
        cluster.succeeded("bare")
        cluster.server.fault = lambda request: Fault(
            status=403 if request.method == method else None
        )

    def during(cluster: Cluster) -> None:
        cluster.server.fault = lambda _: Fault()

    cleans(prepare, ended("a", "bare"), {"a"}, pauses=1, during=during)


def test_what_the_server_always_refuses_is_reported_with_its_words() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum", conditions=COMPLETE)
        pods_of_job(cluster, "a")
        job = f"{KINDS['Job']}/sum"
        cluster.server.fault = lambda request: Fault(
            status=403 if (request.method, request.path) == ("DELETE", job) else None
        )

    why = "Job default/sum could not be deleted: a fault of the test"
    notes = {f"Group default/g has completed; it stays: {why}"}
    cleans(prepare, ended("a"), {"sum", "a"}, notes=notes, pauses=MAX_TRIES - 1)


def test_a_replica_that_does_not_lead_deletes_nothing() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.pod("a")
        cluster.succeeded("a")
        cluster.remaining[0] = 0.0

    cleans(prepare, ended("a"), {"a"}, pauses=MAX_TRIES - 1)
