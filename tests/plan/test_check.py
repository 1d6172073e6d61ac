"""The checker refuses, for each rule, a plan that breaks it and nothing else."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from afflux.cluster.state import State
from afflux.cluster.task_room import choose_devices
from afflux.model.implied_resources import HostPort, attachment_resource, port_requests
from afflux.model.placement import Placement
from afflux.model.reachability import Reachability
from afflux.model.selectors import NodeAffinity, Requirement, Term
from afflux.model.taints import UNSCHEDULABLE_KEY, Taint, Toleration
from afflux.model.task import Shape
from afflux.network.pricing import Pricing
from afflux.plan.check import PlanError, check_plan
from afflux.policies.policy import Policy
from afflux.policies.registry import constraints
from oracles.builders import group, machine, shape, task
from oracles.random_clusters import Generator


def placed(of, name: str = "m", devices: tuple[int, ...] = ()) -> list[Placement]:
    return [Placement(member, name, devices) for member in of.tasks]


def refused(state: State, groups, placements, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        check_plan(state, groups, placements)


@pytest.fixture
def state() -> State:
    state = State([machine("m", cpu=10, memory=10, devices=2, pods=5), machine("n", cpu=10)])
    state.place(task("running", shape(cpu=3)), "m")
    return state


def test_a_plan_that_fills_a_machine_exactly_passes(state: State):
    gang = group("g", shape(cpu=4), shape(cpu=3), shape(memory=10), shape())
    check_plan(state, [gang], placed(gang))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"cpu": 8}, "Insufficient cpu"),
        ({"memory": 11}, "Insufficient memory"),
        ({"ephemeral_storage": 1}, "Insufficient ephemeral-storage"),
        ({"example.com/never-seen": 1}, "Insufficient example.com/never-seen"),
    ],
)
def test_one_unit_over_capacity(state: State, asked: dict[str, int], words: str):
    one = group("g", shape(**asked))
    refused(state, [one], placed(one), f"m: {words}")


def test_one_unit_over_capacity_by_two_tasks_together(state: State):
    gang = group("g", shape(cpu=4), shape(cpu=4))
    refused(state, [gang], placed(gang), "m: Insufficient cpu")


def test_one_pod_over_the_limit(state: State):
    gang = group("g", *[shape()] * 5)
    refused(state, [gang], placed(gang), "m: Too many pods")


def test_a_machine_overcommitted_before_takes_nothing_of_that_resource(state: State):
    state.place(task("hog", shape(memory=11)), "m")
    other, more = group("a", shape(cpu=1)), group("b", shape(memory=1))
    check_plan(state, [other], placed(other))
    refused(state, [more], placed(more), "Insufficient memory")


def test_a_gang_in_part(state: State):
    gang = group("g", shape(), shape())
    refused(state, [gang], placed(gang)[:1], "group g is placed only in part")


def test_a_task_placed_twice(state: State):
    one = group("g", shape())
    refused(state, [one], placed(one) * 2, "placed twice")
    refused(state, [one], placed(one) + placed(one, "n"), "placed twice")


def test_a_task_that_does_not_wait_is_refused(state: State):
    refused(state, [group("g", shape())], placed(group("other", shape())), "other.0")


def test_a_machine_that_is_not_there(state: State):
    one = group("g", shape())
    refused(state, [one], placed(one, "nowhere"), "no machine nowhere")
    state.remove_machine("n")
    refused(state, [one], placed(one, "n"), "no machine n")


def test_a_cordoned_machine_unless_that_is_tolerated(state: State):
    state.set_machine(machine("m", cpu=10, unschedulable=True))
    one = group("g", shape())
    refused(state, [one], placed(one), "were unschedulable")
    tolerant = group("t", shape(tolerations=(Toleration(UNSCHEDULABLE_KEY, "Exists"),)))
    check_plan(state, [tolerant], placed(tolerant))


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_a_tainted_machine_unless_that_is_tolerated(state: State, effect):
    state.set_machine(machine("m", cpu=10, taints=(Taint("only", effect, "batch"),)))
    one = group("g", shape())
    refused(state, [one], placed(one), "untolerated taint")
    tolerant = group("t", shape(tolerations=(Toleration("only", "Equal", "batch"),)))
    check_plan(state, [tolerant], placed(tolerant))


def test_a_soft_taint_refuses_no_task(state: State):
    state.set_machine(machine("m", cpu=10, taints=(Taint("slow", "PreferNoSchedule"),)))
    one = group("g", shape())
    check_plan(state, [one], placed(one))


@pytest.mark.parametrize(
    "affinity",
    [
        NodeAffinity(selector=(("zone", "a"),)),
        NodeAffinity(required=(Term((Requirement("zone", "In", ("a",)),)),)),
        NodeAffinity(required=(Term(names=(Requirement("metadata.name", "In", ("n",)),)),)),
        NodeAffinity(required=()),
    ],
)
def test_a_machine_that_the_affinity_excludes(state: State, affinity: NodeAffinity):
    one = group("g", shape(affinity=affinity))
    refused(state, [one], placed(one), "didn't match Pod's node affinity/selector")


def test_a_device_over_a_thousand(state: State):
    gang = group("g", shape(count=1, milli=600), shape(count=1, milli=500))
    refused(state, [gang], placed(gang, devices=(0,)), "m: device 0 is over its capacity")
    first, second = gang.tasks
    check_plan(state, [gang], [Placement(first, "m", (0,)), Placement(second, "m", (1,))])


def test_a_device_that_another_task_uses(state: State):
    state.place(task("holder", shape(count=1, milli=501)), "m", (1,))
    one = group("g", shape(count=1, milli=500))
    refused(state, [one], placed(one, devices=(1,)), "device 1 is over its capacity")
    check_plan(state, [one], placed(one, devices=(0,)))


@pytest.mark.parametrize("devices", [(), (0,), (0, 0), (0, 1, 1), (0, 0, 1), (0, 1, 2)])
def test_too_few_too_many_or_repeated_devices(state: State, devices: tuple[int, ...]):
    one = group("g", shape(count=2, milli=100))
    refused(state, [one], placed(one, devices=devices), "needs 2 different devices")


@pytest.mark.parametrize("devices", [(0, 2), (-1, 0), (0, 99)])
def test_devices_that_do_not_exist(state: State, devices: tuple[int, ...]):
    one = group("g", shape(count=2, milli=100))
    refused(state, [one], placed(one, devices=devices), "m: there is no device")


def test_a_blocked_task_and_its_group(state: State):
    one = replace(group("g", shape()), tasks=(task("g.0", shape(), "spec.x: not supported"),))
    refused(state, [one], placed(one), "g.0 must wait: spec.x: not supported")
    gang = replace(one, tasks=(task("g.0"), task("g.1", None, "spec.x")))
    refused(state, [gang], placed(gang), "g.1 must wait")
    check_plan(state, [gang], [])


class Nowhere(Policy):
    """A policy of another package."""

    reason = "node(s) were not liked"

    def admits(self, shape, machines):
        return np.zeros(len(machines), bool)


def test_a_machine_that_a_policy_of_another_package_refuses(state: State):
    single = group("g", shape(cpu=1))
    check_plan(state, [single], placed(single), lambda _: [Policy()])
    with pytest.raises(PlanError, match="were not liked"):
        check_plan(state, [single], placed(single), lambda _: [Nowhere()])


def test_a_port_is_given_once_unless_the_addresses_differ():
    def on(address: str | None = None) -> Shape:
        return shape(**port_requests([HostPort("TCP", 80, address)]))

    state = State([machine("m"), machine("n")])
    both = group("g", on("10.0.0.1"), on("10.0.0.2"))
    check_plan(state, [both], placed(both))
    state.place(task("running", on("10.0.0.1")), "m")
    taken = r"m: node\(s\) didn't have free ports for the requested pod ports"
    for one in (group("same", on("10.0.0.1")), group("all", on())):
        refused(state, [one], placed(one), taken)
    twice = group("twice", on(), on())
    refused(State([machine("m")]), [twice], placed(twice), taken)
    other = group("other", on("10.0.0.2"))
    check_plan(state, [other], placed(other))


def test_a_machine_must_match_every_reachability_rule():
    def reachability(why: str, *zones: str) -> Reachability:
        return Reachability(why, tuple(Term((Requirement("zone", "In", (z,)),)) for z in zones))

    state = State([machine("m", labels={"zone": "a"})])
    near = group(
        "g", shape(reachability=(reachability("far", "b", "a"), reachability("farther", "a")))
    )
    check_plan(state, [near], placed(near))
    away = group(
        "g", shape(reachability=(reachability("far", "b", "a"), reachability("farther", "b")))
    )
    refused(state, [away], placed(away), "g.0 on m: farther")
    nowhere = group("g", shape(reachability=(reachability("nowhere"),)))
    refused(state, [nowhere], placed(nowhere), "g.0 on m: nowhere")


def test_a_limit_on_attached_volumes_holds_where_it_is_stated():
    volume = {attachment_resource("disk.example.com"): 1}
    pair = group("g", shape(**volume), shape(**volume))
    limited = State([machine("m", **volume)])
    refused(limited, [pair], placed(pair), r"m: node\(s\) exceed max volume count")
    check_plan(State([machine("m")]), [pair], placed(pair))


@pytest.mark.parametrize("seed", range(25))
def test_the_checker_and_the_columns_agree_on_every_machine(seed: int):
    rng = Random(f"checker {seed}")
    generator = Generator(rng)
    generator.constrained = generator.with_ports = generator.with_volumes = True
    state = State(generator.machines())
    for number in range(rng.randint(0, 12)):
        state.place(task(f"r{number}", generator.shape()), rng.choice(list(state.rows)))
    pricing = Pricing(state, constraints(), [])
    for number in range(12):
        one = group(f"g{number}", generator.shape())
        (member,) = one.tasks
        prices = pricing.prices(member.shape)
        room = prices.by_machine(prices.room)
        for name, row in state.rows.items():
            wanted = member.shape.devices
            free = state.free_devices[row]
            devices = (choose_devices(free, wanted) if wanted else ()) or ()
            try:
                check_plan(state, [one], [Placement(member, name, devices)], pricing.policies_of)
                passed = True
            except PlanError:
                passed = False
            assert passed == (room[row] > 0), (seed, number, name)
