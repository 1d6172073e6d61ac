"""Leader election: at most one replica acts, and somebody soon does."""

import asyncio
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from electing import SHORT, lease
from small_api import Fault, Request, SmallApi, run, serving, until

from afflux.kube.live.leasing import Lease, LostLeaseError, Term, now_seconds
from afflux.web.metrics import Metrics

pytestmark = pytest.mark.slow

PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/afflux"
MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


@dataclass
class Leading:
    """A replica that wants to lead, and what became of it."""

    lease: Lease
    terms: list[Term] = field(default_factory=list)
    work_ended_valid: list[bool] = field(default_factory=list)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    async def work(self, term: Term) -> None:
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
    """One that has begun to contend; killed at the end, without giving anything back."""
    leading = Leading(lease(server, identity, **options))
    leading.task = asyncio.create_task(leading.lease.lead(leading.work))
    try:
        yield leading
    finally:
        leading.task.cancel()
        await asyncio.wait({leading.task})
        await leading.lease._api.close()


# --- Being elected


def test_the_first_one_makes_the_lease_and_leads() -> None:
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


def test_it_renews_for_as_long_as_it_works() -> None:
    async def test() -> None:
        async with serving() as server, replica(server, "one") as one:
            await until(lambda: one.leads)
            first = dict(server.objects[PATH]["spec"])
            until_seconds = now_seconds() + 2.0
            while now_seconds() < until_seconds:
                assert one.leads
                await asyncio.sleep(0.01)
            last = server.objects[PATH]["spec"]
            assert last["renewTime"] > first["renewTime"]
            assert last["acquireTime"] == first["acquireTime"]
            assert last["leaseTransitions"] == 0
            assert len(one.terms) == 1
            # Nobody else writes: reading it first would be a waste.
            assert [request.method for request in server.requests].count("GET") == 1

    run(test)


def test_the_second_waits_until_the_first_gives_it_back() -> None:
    async def test() -> None:
        async with serving() as server, replica(server, "one") as one:
            await until(lambda: one.leads)
            async with replica(server, "two") as two:
                await asyncio.sleep(1.5)
                assert not two.terms
                one.stop.set()
                assert one.task is not None
                await one.task
                # It does not have to wait until the lease expires.
                await until(lambda: two.leads)
                assert (two.terms[0].epoch, two.lease.holder) == (1, "two")
                assert not one.leads

    run(test)


def test_a_lease_that_was_given_back_says_so() -> None:
    async def test() -> None:
        async with serving() as server, replica(server, "one") as one:
            await until(lambda: one.leads)
            one.stop.set()
            assert one.task is not None
            await one.task
            spec = server.objects[PATH]["spec"]
            assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("", 1)
            # The term was valid until the work had ended, and no longer.
            assert one.work_ended_valid == [True]
            assert not one.leads

    run(test)


def test_who_is_cancelled_stops_working_and_gives_it_back() -> None:
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


def test_work_that_fails_gives_it_back_and_says_why() -> None:
    async def test() -> None:
        async def work(_: Term) -> None:
            raise RuntimeError("out of order")

        async with serving() as server:
            failing = lease(server, "one")
            with pytest.raises(RuntimeError, match="out of order"):
                await failing.lead(work)
            assert server.objects[PATH]["spec"]["holderIdentity"] == ""
            await failing._api.close()

    run(test)


def test_the_second_takes_over_from_one_that_is_dead() -> None:
    async def test() -> None:
        async with serving() as server:
            server.put(PATH, held_by("dead", transitions=6))
            started = now_seconds()
            async with replica(server, "two") as two:
                await until(lambda: two.leads)
                # By our own clock, from when we first saw it; what it says about times is not read.
                assert now_seconds() - started >= 1.0
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


def test_of_two_that_are_equally_fast_one_wins() -> None:
    async def test() -> None:
        async with serving() as server:
            server.put(PATH, held_by(""))
            # Both have read that it is free before either has taken it.
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
                await asyncio.sleep(1.0)
                assert puts() >= 2
                assert [one.leads, two.leads].count(True) == 1

    run(test)


def test_a_label_that_changes_is_no_sign_of_life() -> None:
    async def test() -> None:
        async with serving() as server:
            server.put(PATH, held_by("dead"))
            async with replica(server, "two") as two:
                while not two.terms:
                    touched = server.objects[PATH]
                    if touched["spec"]["holderIdentity"] == "dead":
                        touched["metadata"]["labels"] = {"now": str(now_seconds())}
                        server.put(PATH, touched)
                    await asyncio.sleep(0.25)
                assert two.terms[0].epoch == 1

    run(test)


def test_a_deleted_lease_is_not_taken_while_its_holder_may_still_act() -> None:
    async def test() -> None:
        async with serving() as server:
            server.put(PATH, held_by("one", transitions=3))
            async with replica(server, "two") as two:
                await until(lambda: two.lease.holder == "one")
                seen = now_seconds()
                server.delete(PATH)
                await until(lambda: two.leads)
                assert now_seconds() - seen >= 0.9
                # The number goes on: what the fourth term wrote must not pass for the first's.
                assert two.terms[0].epoch == 4

    run(test)


# --- Losing it


def test_a_leader_that_cannot_renew_stops_at_its_deadline() -> None:
    async def test() -> None:
        async with serving() as server, replica(server, "one", **SHORT) as one:
            await until(lambda: bool(one.terms))
            server.fault = lambda _: Fault(status=500)
            broken = now_seconds()
            assert one.task is not None
            with pytest.raises(LostLeaseError, match=r"kube-system/afflux: not renewed for 0.6 s"):
                await one.task
            assert now_seconds() - broken > 0.3
            assert one.work_ended_valid == [False]

    run(test)


def test_a_request_that_hangs_does_not_hold_it_up() -> None:
    async def test() -> None:
        async with serving() as server, replica(server, "one", **SHORT) as one:
            await until(lambda: bool(one.terms))
            server.fault = lambda _: Fault(before_seconds=30)
            assert one.task is not None
            with pytest.raises(LostLeaseError):
                await asyncio.wait_for(one.task, 10)
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
                await asyncio.wait_for(one.task, 10)
            assert one.work_ended_valid == [False]
            # It is not ours to give back.
            assert server.objects[PATH]["spec"]["holderIdentity"] == "thief"

    run(test)


def test_work_that_does_not_stop_may_not_act_and_is_complained_of() -> None:
    async def test() -> None:
        release, cancelled = asyncio.Event(), asyncio.Event()
        seen: list[Term] = []

        async def stubborn(term: Term) -> None:
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


def test_one_that_lost_it_can_lead_again_under_another_number() -> None:
    async def test() -> None:
        async with serving() as server:
            again = Leading(lease(server, "one", **SHORT))
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


# --- What goes wrong every day


@pytest.mark.parametrize(
    "fault",
    [Fault(hang_up_after=True), Fault(hang_up_before=True), Fault(status=500), Fault(status=429)],
    ids=["written, no answer", "not written, no answer", "error", "busy"],
)
def test_one_bad_answer_changes_nothing(fault: Fault) -> None:
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


def test_an_election_whose_answer_never_came_is_won_all_the_same() -> None:
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


def test_leading_is_shown() -> None:
    async def test() -> None:
        metrics = Metrics()
        told: list[str] = []

        def shown() -> float | None:
            return metrics.registry.get_sample_value(
                "leader_election_master_status", {"name": "afflux"}
            )

        async with serving() as server:
            async with replica(server, "one", metrics=metrics, announce=told.append) as one:
                assert shown() == 0
                await until(lambda: one.leads)
                assert shown() == 1
                one.stop.set()
                assert one.task is not None
                await one.task
            assert shown() == 0
            assert told == ["became leader", "stopped leading"]

    run(test)


@pytest.mark.parametrize(
    ("lease_seconds", "renew_seconds", "retry_seconds"),
    [(10, 10, 2), (15, 2.4, 2), (15, 10, 0)],
)
def test_durations_without_a_margin_are_refused(
    lease_seconds: float, renew_seconds: float, retry_seconds: float
) -> None:
    with pytest.raises(ValueError, match=r"expected lease > renew > 1\.2"):
        Lease(
            None,
            namespace="a",
            name="b",
            metrics=Metrics(),
            lease_seconds=lease_seconds,
            renew_seconds=renew_seconds,
            retry_seconds=retry_seconds,
        )


def test_no_two_processes_have_the_same_name() -> None:
    async def test() -> None:
        async with serving() as server:
            one, two = (lease(server, None) for _ in range(2))
            assert one.identity != two.identity
            assert re.fullmatch(r".+_[0-9a-f-]{36}", one.identity)
            await one._api.close()
            await two._api.close()

    run(test)
