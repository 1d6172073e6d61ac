"""Leader election: never two replicas may act at once, whatever the network does."""

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from leases import SHORT, lease
from small_api import Fault, Request, run, serving, until

from afflux.kube.live.leader_election import (
    LeaderElection,
    LeadershipTerm,
    LostLeaseError,
    boottime_seconds,
)

pytestmark = pytest.mark.long


class Network:
    """Each replica has its own connection to the server, with its own faults."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._now: dict[str, tuple[str, float]] = {}

    def __call__(self, request: Request) -> Fault:
        state, ends = self._now.get(request.user_agent, ("", 0.0))
        if boottime_seconds() >= ends:
            state = self._dice.choice(["fine", "fine", "slow", "deaf", "cut", "failing"])
            self._now[request.user_agent] = (
                state,
                boottime_seconds() + self._dice.uniform(0.2, 1.5),
            )
        wait_seconds = self._dice.uniform(0.0, 0.3)
        match state:
            case "slow":
                return Fault(before_seconds=4 * wait_seconds, after_seconds=wait_seconds)
            case "deaf":
                return Fault(before_seconds=wait_seconds, hang_up_after=True)
            case "cut":
                return Fault(before_seconds=wait_seconds, hang_up_before=True)
            case "failing":
                return Fault(status=self._dice.choice([500, 503, 429]))
            case _:
                return Fault()


@dataclass
class Replicas:
    """All replicas and their terms."""

    terms: list[tuple[str, LeadershipTerm]] = field(default_factory=list)
    lost: int = 0

    @property
    def was_contended(self) -> bool:
        """Whether several have led, and some have lost it."""
        return self.lost > 0 and len({name for name, _ in self.terms}) > 1

    def check(self) -> None:
        valid = [
            (name, term.epoch) for name, term in self.terms[-8:] if term.remaining_seconds() > 0
        ]
        assert len(valid) <= 1, valid

    async def run(self, own: LeaderElection, dice: random.Random) -> None:
        async def work(term: LeadershipTerm) -> None:
            self.terms.append((own.identity, term))
            until_seconds = boottime_seconds() + dice.choice([0.1, 1.0, 100.0])
            while boottime_seconds() < until_seconds:
                self.check()
                await asyncio.sleep(0.002)

        try:
            while True:
                with suppress(LostLeaseError):
                    await own.lead(work)
                    continue
                self.lost += 1
        finally:
            await own._api.close()


@pytest.mark.parametrize("seed", range(2))
def test_never_two_replicas_may_act_at_once(seed: int) -> None:
    async def test() -> None:
        replicas = Replicas()
        async with serving() as server:
            server.fault = Network(seed)
            tasks = [
                asyncio.create_task(
                    replicas.run(lease(server, f"r{i}", **SHORT), random.Random(seed * 9 + i))
                )
                for i in range(5)
            ]
            try:
                # A replica may lead for long: the test goes on until leadership was contended.
                began = boottime_seconds()
                while boottime_seconds() < began + (15 if replicas.was_contended else 35):
                    replicas.check()
                    broken = next((task for task in tasks if task.done()), None)
                    if broken is not None:
                        await broken
                    await asyncio.sleep(0.002)
                # Without faults a replica leads again.
                server.fault = lambda _: Fault()
                await until(lambda: any(term.remaining_seconds() > 0 for _, term in replicas.terms))
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
        # Every epoch is larger than all earlier ones.
        epochs = [term.epoch for _, term in replicas.terms]
        assert epochs == sorted(set(epochs))
        assert replicas.was_contended

    run(test)
