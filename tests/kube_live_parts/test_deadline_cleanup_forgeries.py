"""Cleanup against forged claims: a pod's author may write any labels and any owner reference."""

from typing import Any

import pytest
from cleanup_cluster import KINDS, NOW, PODS, Cluster, cleans, owned_by, template
from small_api import run, serving, until

pytestmark = pytest.mark.slow

OF_JOB = {"batch.kubernetes.io/controller-uid": "uid-sum"}
SELECTOR = {"selector": {"matchLabels": OF_JOB}}


def notes_of(cluster: Cluster, pod: str) -> list[str]:
    return [each["note"] for each in cluster.events() if each["regarding"]["name"] == pod]


def test_a_pod_that_is_named_as_owner_is_not_deleted() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.pod("victim", None, scheduler="another", deadline=None)
        cluster.pod("forged", owner=owned_by("Pod", "victim"))

    def check(cluster: Cluster) -> None:
        assert cluster.deletions() == []
        (note,) = notes_of(cluster, "forged")
        assert note == (
            "The deadline of group default/g has passed; it stays: Pod default/victim is no "
            "controller of pods"
        )

    cleans(prepare, {"victim", "forged"}, check, notes=1)


def test_the_owner_of_a_pod_that_is_named_as_owner_is_not_deleted() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "theirs", made=template(None, scheduler="another", deadline=None))
        cluster.pod("middle", owner=owned_by("Job", "theirs"))
        cluster.pod("forged", owner=owned_by("Pod", "middle"))

    cleans(prepare, {"theirs", "middle", "forged"})


@pytest.mark.parametrize(
    ("made", "field"),
    [
        (template(scheduler="another"), "spec.schedulerName: 'afflux'"),
        (template("h"), "label afflux.dev/group-name: 'g'"),
        (template(None), "label afflux.dev/group-name: 'g'"),
        (template(size=3), "label afflux.dev/group-size: '2'"),
        (template(labels={"afflux.dev/queue": "q"}), "label afflux.dev/queue: none"),
        (template(deadline=3600), "spec.activeDeadlineSeconds: 60"),
        (template(deadline=None), "spec.activeDeadlineSeconds: 60"),
    ],
)
def test_a_controller_whose_template_states_other_terms_is_not_deleted(
    made: dict[str, Any], field: str
) -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum", made=made)
        cluster.pod("forged", owner=owned_by("Job", "sum"))

    def check(cluster: Cluster) -> None:
        assert cluster.deletions() == []
        (note,) = notes_of(cluster, "forged")
        assert f"it stays: the pod template of Job default/sum does not have {field}" in note

    cleans(prepare, {"sum", "forged"}, check, notes=1)


def test_the_terms_of_a_pod_without_a_group_are_compared_as_well() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum", made=template(None, deadline=3600))
        cluster.pod("forged", None, owner=owned_by("Job", "sum"))

    cleans(prepare, {"sum", "forged"})


def test_a_controller_that_would_not_count_the_pod_as_its_own_is_not_deleted() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum", made=template(labels=OF_JOB), spec=SELECTOR)
        cluster.pod("forged", owner=owned_by("Job", "sum"))

    def check(cluster: Cluster) -> None:
        (note,) = notes_of(cluster, "forged")
        assert "it stays: the selector of Job default/sum does not select it" in note

    cleans(prepare, {"sum", "forged"}, check, notes=1)


def test_a_suspended_controller_is_not_deleted() -> None:
    def prepare(cluster: Cluster) -> None:
        made, spec = template(labels=OF_JOB), SELECTOR | {"suspend": True}
        cluster.owner("Job", "sum", made=made, spec=spec)
        cluster.pod("forged", owner=owned_by("Job", "sum"), labels=OF_JOB)

    def check(cluster: Cluster) -> None:
        (note,) = notes_of(cluster, "forged")
        assert "it stays: Job default/sum is suspended" in note

    cleans(prepare, {"sum", "forged"}, check, notes=1)


@pytest.mark.parametrize("group", [None, "g"])
def test_a_forged_pod_that_has_ended_ends_no_controller(group: str | None) -> None:
    async def test() -> None:
        async with serving() as server:
            cluster = Cluster(server)
            cluster.clock.seconds = 999_950.0
            cluster.owner("Job", "sum", made=template(group, deadline=3600))
            cluster.pod("forged", group, owned_by("Job", "sum"))
            cluster.pod("own", group, owned_by("Job", "sum"), started=None, deadline=3600)
            async with cluster.cleaned_up() as cleanup:
                cluster.clock.seconds = NOW
                cluster.ended("forged")
                cluster.reader.take_events(NOW)
                await until(lambda: bool(cluster.announced) and not cleanup.is_busy)
            assert cluster.there() == {"sum", "own"}

    run(test)


def test_one_forged_pod_does_not_keep_the_controller_of_the_others() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum", made=template(labels=OF_JOB), spec=SELECTOR)
        cluster.pod("own", owner=owned_by("Job", "sum"), labels=OF_JOB)
        cluster.owner("Job", "theirs", made=template(deadline=None))
        cluster.pod("forged", owner=owned_by("Job", "theirs"))

    cleans(prepare, {"theirs", "forged"})


@pytest.mark.parametrize(
    "false", [{"kind": "ReplicaSet", "apiVersion": "apps/v1"}, {"name": "other"}]
)
def test_a_false_reference_with_the_uid_of_a_controller_does_not_protect_it(
    false: dict[str, str],
) -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum")
        cluster.pod("forged", owner=owned_by("Job", "sum") | false)
        cluster.pod("own", owner=owned_by("Job", "sum"))

    # An owner that does not exist makes no pods, so the forged pod is deleted as well.
    cleans(prepare, set())


@pytest.mark.parametrize(
    "terms",
    [{"size": 3}, {"deadline": 3600}, {"deadline": None}, {"labels": {"afflux.dev/queue": "q"}}],
)
def test_waiting_pods_with_other_terms_are_not_deleted_with_the_group_whose_name_they_use(
    terms: dict[str, Any],
) -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "next", made=template(**terms))
        cluster.pod("forged")
        cluster.pod("waits", owner=owned_by("Job", "next"), started=None, **terms)
        cluster.pod("bare", started=None, **terms)

    cleans(prepare, {"next", "waits", "bare"})


def test_waiting_pods_of_another_controller_or_of_none_are_not_deleted() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum")
        cluster.pod("ran", owner=owned_by("Job", "sum"))
        cluster.owner("Job", "next")
        cluster.pod("waits", owner=owned_by("Job", "next"), started=None)
        cluster.pod("bare", started=None)

    cleans(prepare, {"next", "waits", "bare"})


def test_a_running_pod_whose_own_deadline_is_not_over_outlives_the_group_it_joined() -> None:
    async def test() -> None:
        async with serving() as server:
            cluster = Cluster(server)
            cluster.clock.seconds = 999_950.0
            cluster.pod("forged")  # until 999,960
            cluster.pod("slower", deadline=90)  # until 999,990
            async with cluster.cleaned_up() as cleanup:
                await cluster.changed.wake_and_wait()
                cluster.clock.seconds = 999_970.0
                cluster.reader.take_events(cluster.clock())
                # Started at 999,960, until 1,000,160.
                cluster.owner("Job", "sum", made=template(deadline=200))
                started = "1970-01-12T13:46:00Z"
                late: dict[str, Any] = {
                    "owner": owned_by("Job", "sum"),
                    "started": started,
                    "deadline": 200,
                }
                cluster.pod("late", **late)
                cluster.reader.take_events(cluster.clock())
                cluster.clock.seconds = 999_990.0
                await until(lambda: len(cluster.deletions()) == 2 and not cleanup.is_busy)
                assert cluster.there() == {"sum", "late"}
                # Its own deadline still counts.
                assert cluster.deadlines.next_seconds() == 1_000_160.0
                cluster.clock.seconds = 1_000_160.0
                cluster.changed.set()
                await until(lambda: cluster.there() == set())

    run(test)


def test_an_object_that_makes_no_pods_is_not_deleted() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.server.put(
            "/api/v1",
            {"metadata": {}, "resources": [{"name": "services", "kind": "Service"}]},
        )
        cluster.server.put(
            "/api/v1/namespaces/default/services/web",
            {"metadata": {"name": "web", "uid": "uid-web"}, "spec": {"type": "ClusterIP"}},
        )
        web = {"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "uid-web"}
        cluster.pod("forged", owner=web | {"controller": True})

    def check(cluster: Cluster) -> None:
        (note,) = notes_of(cluster, "forged")
        assert "it stays: Service default/web has no pod template" in note

    cleans(prepare, {"forged"}, check, notes=1)


def test_a_custom_controller_is_deleted_if_one_of_its_templates_agrees() -> None:
    def prepare(cluster: Cluster) -> None:
        launcher, worker = template(None, scheduler="another"), template()
        roles = [{"name": "launcher", "template": launcher}, {"name": "worker", "template": worker}]
        cluster.server.put(
            f"{KINDS['JobSet']}/all",
            {"metadata": {"name": "all", "uid": "uid-all"}, "spec": {"roles": roles}},
        )
        cluster.pod("ran", owner=owned_by("JobSet", "all"))

    def check(cluster: Cluster) -> None:
        paths = [each.path for each in cluster.deletions()]
        assert paths == [f"{KINDS['JobSet']}/all", f"{PODS}/ran"]

    cleans(prepare, set(), check)
