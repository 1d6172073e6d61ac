"""Control loop: an error affects only the groups that cause it, and no place is wasted."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from small_api import Fault, Request, run, serving, until
from volume_cluster import HOST, Cluster, node, pod

from afflux.admit.strategies import flow
from afflux.cluster.state import State
from afflux.control import loop as control_loop
from afflux.cycle.fault_isolation import Quarantine
from afflux.cycle.loop import Cycle
from afflux.cycle.optimiser import Optimiser
from afflux.kube.live.binder import BINDER_TIMES, BinderTimes
from afflux.plan import related_tasks, standing_violations
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
async def cluster(
    *policies: Policy, binder_times: BinderTimes = BINDER_TIMES
) -> AsyncGenerator[Cluster]:
    async with serving() as server, server.api() as api:
        one = Cluster(server, api, binder_times=binder_times)
        chosen = {"afflux": [Weighted(CpuMemory()), *map(Weighted, policies)]}
        state = State()
        scheduler = Optimiser(state, [(QueueRules(), flow)], constraints(), chosen)
        quarantine = Quarantine(initial_backoff_seconds=0.1)
        one.cycle = Cycle(state, scheduler, isolates_faults=True, quarantine=quarantine)
        yield one


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
    assert "group default/odd is quarantined" in caplog.text
    assert "a cycle failed" not in caplog.text


def test_the_log_says_which_pods_a_round_places_together(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with cluster() as one, one.at_work():
            one.add(node("n"), pod("a"), pod("b"))
            await one.all_placed("a", "b")
            one.add(pod("c"))
            await one.all_placed("c")

    with caplog.at_level(logging.DEBUG, logger=control_loop.__name__):
        run(test)
    rounds = [message for message in caplog.messages if message.startswith("round ")]
    assert sorted(rounds) == [
        "round 1: default/a on n",
        "round 1: default/b on n",
        "round 2: default/c on n",
    ]


def test_an_error_in_judging_running_pods_does_not_stop_placements(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(state: State) -> None:
        raise ZeroDivisionError("inside")

    async def test() -> None:
        async with cluster() as one, one.at_work():
            monkeypatch.setattr(standing_violations, "find_violations", fail)
            firm = pod("firm")
            firm["metadata"]["annotations"] = {"afflux.dev/required-during-execution": "true"}
            one.add(node("n"), firm)
            await one.all_placed("firm")
            one.add(pod("next"))
            await one.all_placed("next")
            await until(lambda: "cannot be judged" in caplog.text)

    run(test)
    assert "a cycle failed" not in caplog.text


def test_an_error_in_explain_does_not_stop_placements(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with cluster() as one, one.at_work():
            monkeypatch.setattr(one.cycle, "explain", lambda: 1 / 0)
            one.add(node("n"), pod("big", cpu="100"), pod("a"))
            await one.all_placed("a")
            one.add(pod("b"))
            await one.all_placed("b")
            await until(lambda: one.recorded.rounds == 2)

    run(test)


@pytest.mark.parametrize("saying", ["held_back", "ready"])
def test_an_error_in_announcements_does_not_stop_placements(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, saying: str
) -> None:
    async def test() -> None:
        async with cluster() as one, one.at_work():
            monkeypatch.setattr(one.recorded, saying, lambda *_: 1 / 0)
            one.add(node("n"), pod("a"))
            await one.all_placed("a")

    with caplog.at_level(logging.ERROR):
        run(test)
    assert "a cycle failed" not in caplog.text


def test_a_running_pod_that_shrinks_frees_room() -> None:
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


def test_unsatisfiable_groups_do_not_fill_the_queue() -> None:
    async def test() -> None:
        async with serving() as server, server.api() as api:
            one = Cluster(server, api, rules={"default": QueueRules(max_groups=1)})
            async with one.at_work():
                one.add(node("n", cpu="8"))
                one.add(*(pod(f"never{number}", cpu="100") for number in range(3)))
                one.add(pod("a"), pod("b"))
                await one.all_placed("a", "b")

    run(test)


def test_no_place_is_kept_after_an_error_between_decision_and_binding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        async with cluster() as one, one.at_work():
            choose, failures = one.volume_binder.choose, 2

            async def fails(*args: Any) -> Any:
                nonlocal failures
                if failures:
                    failures -= 1
                    raise IndexError("inside")
                return await choose(*args)

            monkeypatch.setattr(one.volume_binder, "choose", fails)
            one.add(node("n", cpu="1"), pod("a"))
            await one.all_placed("a")
            assert failures == 0

    run(test)


def test_a_refused_pod_is_tried_once_per_refusal() -> None:
    """No other event triggers a retry."""
    times = BinderTimes(initial_refusal_backoff_seconds=0.001)

    async def test() -> None:
        async with cluster(binder_times=times) as one, one.at_work():
            refusals, bindings = 6, 0

            def fault(request: Request) -> Fault:
                nonlocal bindings
                if not request.path.endswith("/binding"):
                    return Fault()
                bindings += 1
                return Fault(status=409) if bindings <= refusals else Fault()

            one.server.fault = fault
            one.add(node("n", cpu="1"), pod("a"))
            await one.all_placed("a")
            assert bindings == refusals + 1

    run(test)


def test_a_machine_whose_event_failed_is_used_after_the_retry(
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
            # The machine is full: the event of its running pod was repeated too.
            await until(lambda: one.cycle.state.machine_of("uid-there") == "odd")
            one.add(pod("big", cpu="100"))
            await until(lambda: one.reason("big") != "")
            assert len(one.places()) == 2
            one.remove("Pod", "there")
            await one.all_placed("a", "b")

    run(test)


def in_circle(number: int, size: int) -> Any:
    """A pod that requires the next one in its zone, and a node without any of the others."""
    made = pod(f"c{number}")
    made["metadata"]["labels"] = {"circle": "c", "number": str(number)}
    following = {"matchLabels": {"number": str((number + 1) % size)}}
    every = {"matchLabels": {"circle": "c"}}
    made["spec"]["affinity"] = {
        kind: {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": key, "labelSelector": selector}
            ]
        }
        for kind, key, selector in (
            ("podAffinity", "zone", following),
            ("podAntiAffinity", HOST, every),
        )
    }
    return made


def test_a_search_that_gives_up_is_logged_counted_and_repeated_when_a_node_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    size = 8

    def cut_searches(one: Cluster) -> float:
        return one.metrics.registry.get_sample_value("afflux_cut_searches_total") or 0.0

    async def test() -> None:
        async with cluster() as one, one.at_work():
            one.add(*(node(f"n{number}") for number in range(size - 1)))
            one.add(*(in_circle(number, size) for number in range(size)), pod("other"))
            await one.all_placed("other")
            await until(lambda: "requires a pod that matches number=1" in one.reason("c0"))
            assert cut_searches(one) >= 1
            assert one.places().keys() == {"other"}
            one.add(node("new"))
            circle = [f"c{number}" for number in range(size)]
            await one.all_placed(*circle)
            assert len({one.places()[name] for name in circle}) == size

    with caplog.at_level(logging.INFO, logger=control_loop.__name__):
        run(test)
    assert "searches for pods with constraints between them gave up at a limit" in caplog.text


def test_sets_of_pods_that_a_round_leaves_out_are_logged_and_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(related_tasks, "MAX_FAILED_SETS", 0)

    async def test() -> None:
        async with cluster() as one, one.at_work():
            one.add(*(node(f"n{number}") for number in range(3)))
            one.add(*(in_circle(number, 3) for number in range(3)), pod("other"))
            await one.all_placed("other")
            await until(lambda: "requires a pod that matches number=1" in one.reason("c0"))
            counted = one.metrics.registry.get_sample_value("afflux_untried_sets_total")
            assert counted is not None
            assert counted >= 1

    with caplog.at_level(logging.INFO, logger=control_loop.__name__):
        run(test)
    assert "1 sets of pods that require each other were not searched for" in caplog.text
