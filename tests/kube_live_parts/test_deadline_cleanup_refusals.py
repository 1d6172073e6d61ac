"""Cleaning up what may not be cleaned up: who stays then, who hears of it, and what comes next."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from overdue_cluster import KINDS, OLD, PODS, Cluster, cleans, owned_by
from small_api import Fault, Request, run, serving, until

from afflux.kube.live import cleaning, delivering

pytestmark = pytest.mark.slow


def refuses(method: str, kinds: str, status: int = 403) -> Callable[[Request], Fault]:
    """A server that says no to such requests for objects of a kind."""
    return lambda request: (
        Fault(status=status)
        if request.method == method and f"/{kinds}/" in request.path
        else Fault()
    )


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(cleaning, "LONGEST_PAUSE_SECONDS", 0.04)
    monkeypatch.setattr(delivering, "_FIRST_WAIT_SECONDS", 0.001)
    monkeypatch.setattr(delivering, "_LONGEST_WAIT_SECONDS", 0.001)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("status", [403, 500])
def test_who_is_below_an_owner_that_cannot_be_read_stays_and_the_pod_says_so(status: int) -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("JobSet", "all")
        cluster.owner("Job", "sum", owned_by("JobSet", "all"))
        cluster.pod("a", owner=owned_by("Job", "sum"))
        cluster.server.fault = refuses("GET", "jobsets", status)

    def check(cluster: Cluster) -> None:
        # If the pod went, the Job would make it anew; if the Job went, the JobSet would.
        assert cluster.deletions() == []
        note = cluster.notes()[0]
        assert note.startswith(
            "The deadline of group default/g is over; it could not be cleaned up: "
            "JobSet default/all could not be read: "
        )

    cleans(prepare, {"all", "sum", "a"}, check, notes=1)


def test_who_is_below_an_owner_that_may_not_be_deleted_stays_and_the_pod_says_so() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("Job", "sum")
        cluster.pod("a", owner=owned_by("Job", "sum"))
        cluster.server.fault = refuses("DELETE", "jobs")

    def check(cluster: Cluster) -> None:
        assert [request.path for request in cluster.deletions()] == [f"{KINDS['Job']}/sum"]
        (note,) = cluster.notes()
        assert "Job default/sum could not be deleted" in note

    cleans(prepare, {"sum", "a"}, check, notes=1)


def test_only_those_below_it_stay_and_everybody_hears_of_their_own_owner_only() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("JobSet", "hidden")
        cluster.pod("a", "g", owned_by("JobSet", "hidden"))
        cluster.owner("Job", "sum")
        cluster.pod("b", "h", owned_by("Job", "sum"))
        cluster.pod("c", "h")
        cluster.server.fault = refuses("GET", "jobsets")

    def check(cluster: Cluster) -> None:
        notes = {each["regarding"]["name"]: each["note"] for each in cluster.events()}
        assert "JobSet default/hidden could not be read" in notes["a"]
        of_h = "The deadline of group default/h is over"
        assert (notes["b"], notes["c"]) == (f"{of_h}; deleted with it: Job default/sum", of_h)

    cleans(prepare, {"hidden", "a"}, check)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("status", [400, 405, 422, 429, 500, 503])
@pytest.mark.parametrize("what", ["jobs", "pods"])
def test_whatever_the_server_says_of_one_object_the_others_go(what: str, status: int) -> None:
    # A webhook that denies it or is down, a kind that cannot be deleted.
    def prepare(cluster: Cluster) -> None:
        for name in "abc":
            cluster.owner("Job", f"job-{name}")
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


def test_a_server_that_stays_out_of_order_does_not_hold_up_who_comes_after_for_each_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delivering, "_FIRST_WAIT_SECONDS", 0.001)
    monkeypatch.setattr(delivering, "_LONGEST_WAIT_SECONDS", 0.001)

    def prepare(cluster: Cluster) -> None:
        for number in range(10):
            cluster.owner("Job", f"job-{number}")
            cluster.pod(f"pod-{number}", f"g{number}", owned_by("Job", f"job-{number}"))
        cluster.pod("by-itself", None)
        cluster.server.fault = refuses("DELETE", "jobs", 500)

    def check(cluster: Cluster) -> None:
        assert len(cluster.deletions()) == delivering.MOST_TRIES + 9 + 1

    left = {f"{what}-{number}" for what in ("job", "pod") for number in range(10)}
    cleans(prepare, left, check)


def test_who_cannot_be_read_above_an_owner_that_stays_anyway_does_not_matter() -> None:
    def prepare(cluster: Cluster) -> None:
        cluster.owner("JobSet", "hidden")
        cluster.owner("Job", "sum", owned_by("JobSet", "hidden"))
        cluster.pod("a", owner=owned_by("Job", "sum"))
        cluster.pod("other", "h", owned_by("Job", "sum"), deadline=None)
        cluster.server.fault = refuses("GET", "jobsets")

    cleans(prepare, {"hidden", "sum", "other"})


@pytest.mark.usefixtures("impatient")
def test_when_the_right_has_been_granted_all_of_it_goes() -> None:
    async def test() -> None:
        async with serving() as server:
            cluster = Cluster(server)
            cluster.owner("Job", "sum")
            cluster.pod("a", owner=owned_by("Job", "sum"))
            server.fault = refuses("GET", "jobs")
            async with cluster.cleaned_up():
                await asyncio.sleep(0.1)
                assert cluster.there() == {"sum", "a"}
                server.fault = lambda _: Fault()
                await until(lambda: cluster.there() == set())

    run(test)


@pytest.mark.usefixtures("impatient")
def test_an_owner_that_we_may_not_see_is_given_up_when_its_pods_have_ended() -> None:
    async def test() -> None:
        async with serving() as server:
            cluster = Cluster(server)
            cluster.owner("Job", "sum")
            cluster.pod("a", owner=owned_by("Job", "sum"))
            server.fault = refuses("GET", "jobs")
            async with cluster.cleaned_up():
                await asyncio.sleep(0.1)
                cluster.ended("a")
                await asyncio.sleep(0.1)
                # Whether it is still there nobody would ever tell us.
                asked = len(server.requests)
                await asyncio.sleep(0.2)
                assert len(server.requests) == asked

    run(test)


@pytest.mark.usefixtures("impatient")
def test_an_owner_goes_that_could_not_be_read_until_its_pods_had_ended() -> None:
    async def test() -> None:
        async with serving() as server:
            cluster = Cluster(server)
            cluster.owner("Job", "sum")
            cluster.pod("a", owner=owned_by("Job", "sum"))
            server.fault = refuses("GET", "jobs", 500)
            async with cluster.cleaned_up():
                await asyncio.sleep(0.1)
                cluster.ended("a")
                await asyncio.sleep(0.2)
                # It would make another pod.
                server.fault = lambda _: Fault()
                await until(lambda: cluster.there() == set())

    run(test)


@pytest.mark.parametrize("group", [None, "g"])
def test_what_is_made_anew_joins_those_before_it_and_is_not_tried_more_often_for_that(
    monkeypatch: pytest.MonkeyPatch, group: str | None
) -> None:
    monkeypatch.setattr(cleaning, "FIRST_PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(cleaning, "LONGEST_PAUSE_SECONDS", 0.1)

    async def test() -> None:
        async with serving() as server:
            cluster = Cluster(server)
            cluster.owner("Job", "sum")
            server.fault = refuses("DELETE", "jobs")
            async with cluster.cleaned_up():
                for number in range(20):
                    created = "1970-01-12T13:46:00Z" if number else OLD
                    cluster.pod(f"p{number}", group, owned_by("Job", "sum"), created=created)
                    cluster.mirror.drain(cluster.clock())
                    await asyncio.sleep(0.02)
                    if number < 19:
                        cluster.ended(f"p{number}")
                tried = len(cluster.deletions())
                await asyncio.sleep(0.5)
                # Five or six times, and not for each of twenty pods.
                assert 3 <= len(cluster.deletions()) - tried <= 8
                server.fault = lambda _: Fault()
                await until(lambda: cluster.there() == set())
                assert len(cluster.announced) == 20

    run(test)


def test_who_joins_while_others_are_deleted_goes_as_soon_as_they_have() -> None:
    async def test() -> None:
        async with serving() as server:
            cluster = Cluster(server)
            cluster.owner("Job", "sum")
            cluster.pod("a", owner=owned_by("Job", "sum"))
            server.fault = lambda request: Fault(
                before_seconds=0.1 if request.method == "DELETE" else 0
            )
            async with cluster.cleaned_up():
                await until(lambda: bool(cluster.deletions()))
                cluster.pod("b", owner=owned_by("Job", "sum"))
                cluster.mirror.drain(cluster.clock())
                await until(lambda: cluster.there() == set())

    run(test)


def test_who_has_nothing_to_do_with_what_was_refused_does_not_wait_for_it() -> None:
    async def test() -> None:
        async with serving() as server:
            cluster = Cluster(server)
            cluster.owner("Job", "sum")
            cluster.pod("a", owner=owned_by("Job", "sum"))
            server.fault = refuses("DELETE", "jobs")
            async with cluster.cleaned_up():
                await until(lambda: bool(cluster.deletions()))
                cluster.pod("b", "h")
                cluster.mirror.drain(cluster.clock())
                await until(lambda: cluster.there() == {"sum", "a"})

    run(test)


@pytest.mark.parametrize("owner", [None, owned_by("Job", "next")])
def test_who_uses_the_name_of_a_group_again_does_not_wait_for_what_was_refused_of_it(
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
                cluster.mirror.drain(cluster.clock())
                await until(lambda: "b" not in cluster.there())
                assert cluster.there() == ({"sum"} if owner else {"sum", "next"})

    run(test)


def test_a_late_member_joins_those_of_its_group_that_could_not_be_deleted() -> None:
    async def test() -> None:
        async with serving() as server:
            cluster = Cluster(server)
            cluster.pod("a")
            server.fault = refuses("DELETE", "pods")
            async with cluster.cleaned_up():
                await until(lambda: bool(cluster.notes()))
                cluster.pod("late", created="1970-01-12T13:46:00Z")
                cluster.mirror.drain(cluster.clock())
                await until(lambda: len(cluster.announced) == 2)
                await asyncio.sleep(0.1)
                # It is tried no more often for that.
                assert [each.path for each in cluster.deletions()] == [f"{PODS}/a"]

    run(test)


def test_work_that_is_over_is_never_mistaken_for_another_that_is_not() -> None:
    works = [cleaning._Work(), cleaning._Work()]
    second = works[1]
    works.remove(second)
    assert works[0] is not second


@pytest.mark.usefixtures("impatient")
def test_a_pod_that_cannot_be_understood_ends_nothing_but_the_attempt(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        async with serving() as server:
            cluster = Cluster(server)
            cluster.pod("a")
            async with cluster.cleaned_up():
                cluster.pod("b", started=None, created="yesterday")
                await until(lambda: "(InputError)" in caplog.text)
                await asyncio.sleep(0.1)
                cluster.pod("b", started=None)
                await until(lambda: cluster.there() == set())

    run(test)


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
                cluster.ended("a")
                await asyncio.sleep(0.3)
                tried = len(cluster.deletions())
                await asyncio.sleep(0.4)
                assert len(cluster.deletions()) == tried

    run(test)
