"""The loop: a defect concerns those whom it is about, and nobody keeps a place for nothing."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from small_api import Fault, Request, run, serving, until
from volume_cluster import Cluster, node, pod

from afflux.admit.strategies import flow
from afflux.cluster.state import State
from afflux.cycle import sparing
from afflux.cycle.loop import Cycle
from afflux.cycle.optimising import Optimising
from afflux.kube.live import binding, scheduling
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.policy import Policy, Weighted
from afflux.policies.registry import constraints
from afflux.queue.rules import QueueRules


class Fragile(Policy):
    """Cannot be asked about pods that want 3 CPUs."""

    def __init__(self) -> None:
        self.is_broken = True

    def admits(self, shape: Any, machines: Any) -> Any:
        if self.is_broken and dict(shape.requests).get("cpu") == 3000:
            raise ZeroDivisionError("inside")
        return machines.present


@asynccontextmanager
async def cluster(*policies: Policy) -> AsyncGenerator[Cluster]:
    async with serving() as server, server.api() as api:
        one = Cluster(server, api)
        chosen = {"afflux": [Weighted(CpuMemory()), *map(Weighted, policies)]}
        state = State()
        scheduler = Optimising(state, [(QueueRules(), flow)], constraints(), chosen)
        one.cycle = Cycle(state, scheduler, spares_others=True)
        yield one


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setattr(scheduling, "PAUSE_AFTER_ERROR_SECONDS", 0.1)
    monkeypatch.setattr(sparing, "FIRST_PAUSE_SECONDS", 0.1)


def test_a_policy_that_raises_about_one_pod_does_not_stop_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    policy = Fragile()

    async def test() -> None:
        async with cluster(policy) as one, one.at_work():
            one.add(node("n"), pod("odd", cpu="3"), pod("a"), pod("b"))
            await one.all_placed("a", "b")
            await until(lambda: "ZeroDivisionError" in one.reason("odd"))
            policy.is_broken = False
            await one.all_placed("odd")

    with caplog.at_level(logging.ERROR):
        run(test)
    assert "group default/odd is set aside" in caplog.text
    assert "a cycle failed" not in caplog.text


def test_a_policy_that_cannot_say_why_pods_wait_does_not_stop_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        async with cluster() as one, one.at_work():
            monkeypatch.setattr(one.cycle, "explain", lambda: 1 / 0)
            one.add(node("n"), pod("big", cpu="100"), pod("a"))
            await one.all_placed("a")
            one.add(pod("b"))
            await one.all_placed("b")
            await until(lambda: one.told.rounds == 2)

    run(test)


@pytest.mark.parametrize("saying", ["held_back", "ready"])
def test_who_cannot_be_told_about_waiting_is_placed_all_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, saying: str
) -> None:
    async def test() -> None:
        async with cluster() as one, one.at_work():
            monkeypatch.setattr(one.told, saying, lambda _: 1 / 0)
            one.add(node("n"), pod("a"))
            await one.all_placed("a")

    with caplog.at_level(logging.ERROR):
        run(test)
    assert "a cycle failed" not in caplog.text


def test_a_running_pod_that_is_made_smaller_makes_room() -> None:
    async def test() -> None:
        async with cluster() as one, one.at_work():
            up = pod("up", cpu="8")
            up["spec"]["nodeName"] = "n"
            one.add(node("n", cpu="8"), up, pod("a", cpu="4"))
            await until(lambda: "Insufficient cpu" in one.reason("a"))
            smaller = pod("up", cpu="4")
            smaller["spec"]["nodeName"] = "n"
            one.add(smaller)
            await one.all_placed("a")

    run(test)


def test_groups_that_can_never_start_do_not_keep_others_out_of_a_full_queue() -> None:
    async def test() -> None:
        async with serving() as server, server.api() as api:
            one = Cluster(server, api, rules={"default": QueueRules(most_groups=1)})
            async with one.at_work():
                one.add(node("n", cpu="8"))
                one.add(*(pod(f"never{number}", cpu="100") for number in range(3)))
                one.add(pod("a"), pod("b"))
                await one.all_placed("a", "b")

    run(test)


def test_nobody_keeps_a_place_after_a_defect_between_deciding_and_binding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        async with cluster() as one, one.at_work():
            choose, failures = one.preparing.choose, 2

            async def fails(*args: Any) -> Any:
                nonlocal failures
                if failures:
                    failures -= 1
                    raise IndexError("inside")
                return await choose(*args)

            monkeypatch.setattr(one.preparing, "choose", fails)
            one.add(node("n", cpu="1"), pod("a"))
            await one.all_placed("a")
            assert failures == 0

    run(test)


def test_a_pod_that_is_refused_again_and_again_is_tried_as_often_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing else happens that could remind anybody of it."""
    monkeypatch.setattr(binding, "FIRST_REFUSAL_SECONDS", 0.001)

    async def test() -> None:
        async with cluster() as one, one.at_work():
            refusals, binds = 6, 0

            def fault(request: Request) -> Fault:
                nonlocal binds
                if not request.path.endswith("/binding"):
                    return Fault()
                binds += 1
                return Fault(status=409) if binds <= refusals else Fault()

            one.server.fault = fault
            one.add(node("n", cpu="1"), pod("a"))
            await one.all_placed("a")
            assert binds == refusals + 1

    run(test)


def test_a_machine_that_could_not_be_noticed_is_used_when_it_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        async with cluster() as one, one.at_work():
            set_machine, failures = one.cycle.state.set_machine, 1

            def fails(machine: Any) -> int:
                nonlocal failures
                if machine.name == "odd" and failures:
                    failures -= 1
                    raise OverflowError("inside")
                return set_machine(machine)

            monkeypatch.setattr(one.cycle.state, "set_machine", fails)
            there = pod("there", cpu="8")
            there["spec"]["nodeName"] = "odd"
            one.add(node("odd"), node("n", cpu="1"), there, pod("a"), pod("b"))
            await until(lambda: len(one.places()) == 2)
            await asyncio.sleep(0.3)
            # It is full: the running pod was told again too.
            assert one.cycle.state.where("uid-there") == "odd"
            assert len(one.places()) == 2
            one.remove("Pod", "there")
            await one.all_placed("a", "b")

    run(test)
