"""Leader election: never two may act at once, whatever the ways to the server are like."""

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from electing import SHORT, lease
from small_api import Fault, Request, run, serving, until

from afflux.kube.live.leasing import Lease, LostLeaseError, Term, now_seconds

pytestmark = pytest.mark.slow


class Weather:
    """Each replica has its own way to the server, and each way its own bad times."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._now: dict[str, tuple[str, float]] = {}

    def __call__(self, request: Request) -> Fault:
        state, ends = self._now.get(request.user_agent, ("", 0.0))
        if now_seconds() >= ends:
            state = self._dice.choice(["fine", "fine", "slow", "deaf", "cut", "failing"])
            self._now[request.user_agent] = (state, now_seconds() + self._dice.uniform(0.2, 1.5))
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
class Parliament:
    """All replicas and what they did, watched by somebody who sees all of them."""

    terms: list[tuple[str, Term]] = field(default_factory=list)
    lost: int = 0

    @property
    def is_contended(self) -> bool:
        """Whether several have led, and some have lost it."""
        return self.lost > 0 and len({name for name, _ in self.terms}) > 1

    def check(self) -> None:
        valid = [
            (name, term.epoch) for name, term in self.terms[-8:] if term.remaining_seconds() > 0
        ]
        assert len(valid) <= 1, valid

    async def contend(self, own: Lease, dice: random.Random) -> None:
        async def work(term: Term) -> None:
            self.terms.append((own.identity, term))
            until_seconds = now_seconds() + dice.choice([0.1, 1.0, 100.0])
            while now_seconds() < until_seconds:
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
def test_never_two_may_act_at_once_whatever_happens(seed: int) -> None:
    async def test() -> None:
        parliament = Parliament()
        async with serving() as server:
            server.fault = Weather(seed)
            tasks = [
                asyncio.create_task(
                    parliament.contend(lease(server, f"r{i}", **SHORT), random.Random(seed * 9 + i))
                )
                for i in range(5)
            ]
            try:
                # Somebody may lead for long: it goes on until it was about something.
                began = now_seconds()
                while now_seconds() < began + (15 if parliament.is_contended else 35):
                    parliament.check()
                    broken = next((task for task in tasks if task.done()), None)
                    if broken is not None:
                        await broken
                    await asyncio.sleep(0.002)
                # Once all is well somebody leads again.
                server.fault = lambda _: Fault()
                await until(
                    lambda: any(term.remaining_seconds() > 0 for _, term in parliament.terms)
                )
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
        # Every term has a number of its own, larger than all before.
        epochs = [term.epoch for _, term in parliament.terms]
        assert epochs == sorted(set(epochs))
        assert parliament.is_contended

    run(test)
