"""Leader election: at most one replica acts, and a lost leader is soon replaced."""

import asyncio
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from leases import SHORT, lease
from small_api import Fault, Request, SmallApi, run, serving, until

from afflux.kube.live.leader_election import (
    LeaderElection,
    LeadershipTerm,
    LostLeaseError,
    boottime_seconds,
)
from afflux.web.scheduler_metrics import Metrics

pytestmark = pytest.mark.slow

PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/afflux"
MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


@dataclass
class Candidate:
    """A candidate, its terms, and whether they were valid when its work ended."""

    lease: LeaderElection
    terms: list[LeadershipTerm] = field(default_factory=list)
    work_ended_valid: list[bool] = field(default_factory=list)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    async def work(self, term: LeadershipTerm) -> None:
        self.terms.append(term)
        try:
            await self.stop.wait()
        finally:
            self.work_ended_valid.append(term.remaining_seconds() > 0)

    @property
    def leads(self) -> bool:
        return bool(self.terms) and self.terms[-1].remaining_seconds() > 0


@asynccontextmanager
async def replica(server: SmallApi, identity: str, **options: Any):
    """A running candidate, which is cancelled at the end."""
    candidate = Candidate(lease(server, identity, **options))
    candidate.task = asyncio.create_task(candidate.lease.lead(candidate.work))
    try:
        yield candidate
    finally:
        candidate.task.cancel()
        await asyncio.wait({candidate.task})
        await candidate.lease._api.close()


def requests_of(server: SmallApi, identity: str) -> int:
    return sum(request.user_agent == identity for request in server.requests)


# --- Acquiring


def test_the_first_candidate_creates_the_lease_and_leads() -> None:
    async def test() -> None:
        async with serving() as server, replica(server, "one") as one:
            await until(lambda: one.leads)
            spec = server.objects[PATH]["spec"]
            assert one.terms[0].epoch == 0
            assert spec["holderIdentity"] == one.lease.holder == "one"
            assert spec["leaseDurationSeconds"] == 30
            assert spec["leaseTransitions"] == 0
            assert MICRO_TIME.fullmatch(spec["acquireTime"])
            assert MICRO_TIME.fullmatch(spec["renewTime"])

    run(test)


def test_the_leader_renews_while_it_works() -> None:
    async def test() -> None:
        async with serving() as server, replica(server, "one") as one:
            await until(lambda: one.leads)
            first = dict(server.objects[PATH]["spec"])
            while [request.method for request in server.requests].count("PUT") < 10:
                assert one.leads
                await asyncio.sleep(0.01)
            last = server.objects[PATH]["spec"]
            assert last["renewTime"] > first["renewTime"]
            assert last["acquireTime"] == first["acquireTime"]
            assert last["leaseTransitions"] == 0
            assert len(one.terms) == 1
            # No other client writes the lease, so it is not read before each renewal.
            assert [request.method for request in server.requests].count("GET") == 1

    run(test)


def test_a_candidate_waits_until_the_leader_releases_the_lease() -> None:
    async def test() -> None:
        async with serving() as server, replica(server, "one") as one:
            await until(lambda: one.leads)
            async with replica(server, "two") as two:
                await until(lambda: requests_of(server, "two") >= 5)
                assert not two.terms
                one.stop.set()
                assert one.task is not None
                await one.task
                # A released lease is acquired before it expires.
                await until(lambda: two.leads)
                assert (two.terms[0].epoch, two.lease.holder) == (1, "two")
                assert not one.leads

    run(test)


def test_a_released_lease_has_no_holder() -> None:
    async def test() -> None:
        async with serving() as server, replica(server, "one") as one:
            await until(lambda: one.leads)
            one.stop.set()
            assert one.task is not None
            await one.task
            spec = server.objects[PATH]["spec"]
            assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("", 1)
            # The term was valid until the work had ended.
            assert one.work_ended_valid == [True]
            assert not one.leads

    run(test)


def test_a_cancelled_leader_stops_and_releases_the_lease() -> None:
    async def test() -> None:
        async with serving() as server, replica(server, "one") as one:
            await until(lambda: one.leads)
            assert one.task is not None
            one.task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await one.task
            assert one.work_ended_valid == [False]
            assert server.objects[PATH]["spec"]["holderIdentity"] == ""

    run(test)


def test_work_that_fails_releases_the_lease_and_raises() -> None:
    async def test() -> None:
        async def work(_: LeadershipTerm) -> None:
            raise RuntimeError("out of order")

        async with serving() as server:
            failing = lease(server, "one")
            with pytest.raises(RuntimeError, match="out of order"):
                await failing.lead(work)
            assert server.objects[PATH]["spec"]["holderIdentity"] == ""
            await failing._api.close()

    run(test)


def test_a_candidate_takes_over_from_a_dead_leader() -> None:
    async def test() -> None:
        async with serving() as server:
            server.put(PATH, held_by("dead", transitions=6))
            started = boottime_seconds()
            async with replica(server, "two") as two:
                await until(lambda: two.leads)
                # Counted by the candidate's own clock from when it first saw the lease.
                assert boottime_seconds() - started >= 1.0
                assert two.terms[0].epoch == 7
                assert server.objects[PATH]["metadata"]["labels"] == {"kept": "yes"}

    run(test)


def held_by(holder: str, transitions: int = 0, seconds: int = 1) -> dict[str, Any]:
    return {
        "metadata": {"name": "afflux", "namespace": "kube-system", "labels": {"kept": "yes"}},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": seconds,
            "acquireTime": "2000-01-01T00:00:00.000000Z",
            "renewTime": "2000-01-01T00:00:00.000000Z",
            "leaseTransitions": transitions,
        },
    }


def test_one_of_two_simultaneous_candidates_wins() -> None:
    async def test() -> None:
        async with serving() as server:
            server.put(PATH, held_by(""))
            # Both have read that the lease is free before either has acquired it.
            both = asyncio.Event()

            def puts() -> int:
                return [request.method for request in server.requests].count("PUT")

            def fault(request: Request) -> Fault:
                if puts() == 2:
                    both.set()
                return Fault(before_seconds=0.0 if both.is_set() else 0.5)

            server.fault = fault
            async with replica(server, "one") as one, replica(server, "two") as two:
                await until(lambda: one.leads or two.leads)
                before = {name: requests_of(server, name) for name in ("one", "two")}
                # Both have gone on, the leader with a renewal and the other with another attempt.
                await until(lambda: all(requests_of(server, n) > before[n] + 1 for n in before))
                assert puts() >= 2
                assert [one.leads, two.leads].count(True) == 1

    run(test)


def test_a_changed_label_does_not_renew_the_lease() -> None:
    async def test() -> None:
        async with serving() as server:
            server.put(PATH, held_by("dead"))
            async with replica(server, "two") as two:
                while not two.terms:
                    touched = server.objects[PATH]
                    if touched["spec"]["holderIdentity"] == "dead":
                        touched["metadata"]["labels"] = {"now": str(boottime_seconds())}
                        server.put(PATH, touched)
                    await asyncio.sleep(0.25)
                assert two.terms[0].epoch == 1

    run(test)


def test_a_deleted_lease_is_not_acquired_while_its_holder_may_act() -> None:
    async def test() -> None:
        async with serving() as server:
            server.put(PATH, held_by("one", transitions=3))
            async with replica(server, "two") as two:
                await until(lambda: two.lease.holder == "one")
                seen = boottime_seconds()
                server.delete(PATH)
                await until(lambda: two.leads)
                assert boottime_seconds() - seen >= 0.9
                # The epoch continues: writes of an earlier term must stay distinguishable.
                assert two.terms[0].epoch == 4

    run(test)


# --- Losing


def test_a_leader_that_cannot_renew_stops_at_its_deadline() -> None:
    async def test() -> None:
        async with serving() as server, replica(server, "one", **SHORT) as one:
            await until(lambda: bool(one.terms))
            server.fault = lambda _: Fault(status=500)
            assert one.task is not None
            with pytest.raises(LostLeaseError, match=r"kube-system/afflux: not renewed for 0.6 s"):
                await one.task
            assert boottime_seconds() - one.lease._renewed_at >= SHORT["renew_deadline_seconds"]
            assert one.work_ended_valid == [False]

    run(test)


def test_a_hanging_request_does_not_delay_the_deadline() -> None:
    async def test() -> None:
        async with serving() as server, replica(server, "one", **SHORT) as one:
            await until(lambda: bool(one.terms))
            server.fault = lambda _: Fault(until=asyncio.Event())
            assert one.task is not None
            with pytest.raises(LostLeaseError):
                await one.task
            assert one.work_ended_valid == [False]
            server.fault = lambda _: Fault()

    run(test)


def test_a_leader_that_sees_another_holder_stops_at_once() -> None:
    async def test() -> None:
        async with serving() as server, replica(server, "one") as one:
            await until(lambda: one.leads)
            server.put(PATH, held_by("thief", transitions=9))
            assert one.task is not None
            with pytest.raises(LostLeaseError, match="held by thief"):
                await one.task
            assert one.work_ended_valid == [False]
            # The lease of another holder is not released.
            assert server.objects[PATH]["spec"]["holderIdentity"] == "thief"

    run(test)


def test_work_that_does_not_stop_may_not_act_and_fails_the_health_check() -> None:
    async def test() -> None:
        release, cancelled = asyncio.Event(), asyncio.Event()
        seen: list[LeadershipTerm] = []

        async def stubborn(term: LeadershipTerm) -> None:
            seen.append(term)
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    cancelled.set()

        async with serving() as server:
            one = lease(server, "one", **SHORT)
            task = asyncio.create_task(one.lead(stubborn))
            await until(lambda: bool(seen))
            server.fault = lambda _: Fault(status=500)
            await cancelled.wait()
            assert seen[0].remaining_seconds() <= 0
            assert one.complaint() is None
            one._renewed_at -= 60
            assert one.complaint() == (
                "failed election to renew leadership on lease kube-system/afflux"
            )
            release.set()
            with pytest.raises(LostLeaseError):
                await task
            assert one.complaint() is None
            await one._api.close()

    run(test)


def test_a_leader_that_lost_the_lease_leads_again_with_a_new_epoch() -> None:
    async def test() -> None:
        async with serving() as server:
            again = Candidate(lease(server, "one", **SHORT))
            task = asyncio.create_task(again.lease.lead(again.work))
            await until(lambda: bool(again.terms))
            server.fault = lambda _: Fault(status=503)
            with pytest.raises(LostLeaseError):
                await task
            server.fault = lambda _: Fault()
            task = asyncio.create_task(again.lease.lead(again.work))
            await until(lambda: len(again.terms) == 2)
            assert [term.epoch for term in again.terms] == [0, 1]
            again.stop.set()
            await task
            await again.lease._api.close()

    run(test)


# --- Faults


@pytest.mark.parametrize(
    "fault",
    [Fault(hang_up_after=True), Fault(hang_up_before=True), Fault(status=500), Fault(status=429)],
    ids=["written, no answer", "not written, no answer", "error", "busy"],
)
def test_one_bad_answer_does_not_end_the_term(fault: Fault) -> None:
    async def test() -> None:
        async with serving() as server, replica(server, "one") as one:
            await until(lambda: one.leads)
            for _ in range(3):
                bad = [fault]
                server.fault = lambda _, bad=bad: bad.pop() if bad else Fault()
                await until(lambda bad=bad: not bad)
                await asyncio.sleep(0.05)
                before = server.objects[PATH]["spec"]["renewTime"]
                await until(
                    lambda before=before: server.objects[PATH]["spec"]["renewTime"] > before
                )
            assert one.leads
            assert len(one.terms) == 1
            assert server.objects[PATH]["spec"]["leaseTransitions"] == 0

    run(test)


def test_an_acquisition_with_a_lost_answer_succeeds() -> None:
    async def test() -> None:
        async with serving() as server:
            bad = [Fault(hang_up_after=True)]
            server.fault = lambda request: (
                bad.pop() if bad and request.method == "POST" else Fault()
            )
            async with replica(server, "one") as one:
                await until(lambda: one.leads)
                assert one.terms[0].epoch == 1

    run(test)


def test_metric_and_announcements_say_who_leads() -> None:
    async def test() -> None:
        metrics = Metrics()
        recorded: list[str] = []

        def shown() -> float | None:
            return metrics.registry.get_sample_value(
                "leader_election_master_status", {"name": "afflux"}
            )

        async with serving() as server:
            async with replica(server, "one", metrics=metrics, announce=recorded.append) as one:
                assert shown() == 0
                await until(lambda: one.leads)
                assert shown() == 1
                one.stop.set()
                assert one.task is not None
                await one.task
            assert shown() == 0
            assert recorded == ["became leader", "stopped leading"]

    run(test)


@pytest.mark.parametrize(
    ("lease_duration_seconds", "renew_deadline_seconds", "retry_period_seconds"),
    [(10, 10, 2), (15, 2.4, 2), (15, 10, 0)],
)
def test_durations_without_a_margin_are_rejected(
    lease_duration_seconds: float, renew_deadline_seconds: float, retry_period_seconds: float
) -> None:
    with pytest.raises(ValueError, match=r"expected lease > renew > 1\.2"):
        LeaderElection(
            None,
            namespace="a",
            name="b",
            metrics=Metrics(),
            lease_duration_seconds=lease_duration_seconds,
            renew_deadline_seconds=renew_deadline_seconds,
            retry_period_seconds=retry_period_seconds,
        )


def test_every_process_has_its_own_identity() -> None:
    async def test() -> None:
        async with serving() as server:
            one, two = (lease(server, None) for _ in range(2))
            assert one.identity != two.identity
            assert re.fullmatch(r".+_[0-9a-f-]{36}", one.identity)
            await one._api.close()
            await two._api.close()

    run(test)
