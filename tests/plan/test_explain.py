"""Why a task waits, in the order in which kube-scheduler asks and in its words."""

from random import Random

import pytest

from afflux.admit.strategies import fcfs
from afflux.cluster.state import State
from afflux.cluster.task_class import TaskClass
from afflux.model import reason
from afflux.model.implied_resources import (
    HostPort,
    ResourceKind,
    attachment_resource,
    port_requests,
)
from afflux.model.reachability import Reachability
from afflux.model.selectors import NodeAffinity, Requirement, Term
from afflux.model.taints import UNSCHEDULABLE_KEY, Taint, Toleration
from afflux.plan.explain import verdicts, why_waiting
from afflux.policies.registry import constraints
from oracles.builders import group, machine, scheduler, shape, task
from oracles.naive_model import World, admits
from oracles.random_clusters import Generator

IN_ZONE_A = NodeAffinity(selector=(("zone", "a"),))
TAINTED = (Taint("dedicated", "NoSchedule"),)
EVERYTHING = shape(cpu=2, memory=2, ephemeral_storage=2, count=1, affinity=IN_ZONE_A)


def against(state: State, of) -> dict[str, tuple[str, ...]]:
    return verdicts(state, lambda _: constraints(), TaskClass(of))


def sentence(state: State, waiting) -> str:
    answers = why_waiting(state, lambda _: constraints(), [waiting])
    assert len(set(answers.values())) == 1
    return next(iter(answers.values()))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"unschedulable": True, "taints": TAINTED}, "node(s) were unschedulable"),
        ({"taints": TAINTED}, "node(s) had untolerated taint(s)"),
        ({}, "node(s) didn't match Pod's node affinity/selector"),
    ],
)
def test_only_the_first_filter_that_refuses_is_named(fields, expected: str):
    state = State([machine("m", pods=0, **fields)])
    assert against(state, EVERYTHING) == {"m": (expected,)}


def test_machines_that_a_task_does_not_name_are_looked_at_no_further():
    state = State([machine("m"), machine("n", taints=TAINTED), machine("o", labels={"zone": "a"})])
    unnamed = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
    by_name = Term(names=(Requirement("metadata.name", "In", ("m",)),))
    asked = shape(cpu=99, affinity=NodeAffinity(required=(by_name,)))
    assert against(state, asked) == {"m": ("Insufficient cpu",), "n": (unnamed,), "o": (unnamed,)}
    # A term that names none may match any machine.
    by_label = Term(labels=(Requirement("zone", "In", ("a",)),))
    either = shape(affinity=NodeAffinity(required=(by_name, by_label)))
    assert against(state, either) == {"m": (), "n": ("node(s) had untolerated taint(s)",), "o": ()}


def test_every_resource_that_lacks_is_named_pods_first_then_cpu_memory_storage_others():
    state = State([machine("m", pods=0, labels={"zone": "a"})])
    asked = shape(
        cpu=1, memory=1, ephemeral_storage=1, affinity=IN_ZONE_A, **{"example.com/gpu": 1}
    )
    assert against(state, asked)["m"] == (
        "Too many pods",
        "Insufficient cpu",
        "Insufficient memory",
        "Insufficient ephemeral-storage",
        "Insufficient example.com/gpu",
    )


def test_a_taken_port_is_named_once_and_before_other_resources():
    state = State([machine("m"), machine("n", cpu=9)])
    state.place(task("web", shape(**port_requests([HostPort("TCP", 80)]))), "m")
    state.place(task("local", shape(**port_requests([HostPort("TCP", 80, "10.0.0.1")]))), "n")
    wanted = port_requests([HostPort("TCP", 80, "10.0.0.1"), HostPort("TCP", 81)])
    taken = "node(s) didn't have free ports for the requested pod ports"
    assert against(state, shape(cpu=5, **wanted)) == {"m": (taken,), "n": (taken,)}
    free = port_requests([HostPort("TCP", 80, "10.0.0.2")])
    assert against(state, shape(cpu=5, **free)) == {"m": (taken,), "n": ()}


def test_a_full_attachment_limit_is_named_after_the_other_resources():
    limited = {attachment_resource("disk.example.com"): 1}
    state = State([machine("m", cpu=1, **limited), machine("n", cpu=9, **limited)])
    for name in ("m", "n"):
        state.place(task(f"on-{name}", shape(**limited)), name)
    assert against(state, shape(cpu=5, **limited)) == {
        "m": ("Insufficient cpu",),
        "n": ("node(s) exceed max volume count",),
    }
    assert against(state, shape(cpu=5, **{attachment_resource("other"): 9})) == {
        "m": ("Insufficient cpu",),
        "n": (),
    }


def test_volumes_come_last_those_of_binding_together_and_zones_after_them():
    def reachability(why: str, label: str) -> Reachability:
        return Reachability(why, (Term((Requirement(label, "Exists"),)),))

    wanted = shape(
        reachability=(
            reachability(reason.VOLUME_SPACE, "space"),
            reachability(reason.VOLUME_ZONE, "zone"),
            reachability(reason.VOLUME_MISSING, "made"),
            reachability(reason.VOLUME_AFFINITY, "near"),
            reachability(reason.driver_missing("x"), "driver"),
        ),
        **{attachment_resource("x"): 2},
    )
    rows = {
        "none": (set(), 0, (reason.driver_missing("x"),)),
        "full": ({"driver"}, 1, (ResourceKind.ATTACHMENT.value,)),
        "far": ({"driver"}, 2, (reason.VOLUME_AFFINITY, reason.VOLUME_MISSING)),
        "tight": ({"driver", "near", "made"}, 2, (reason.VOLUME_SPACE,)),
        "zoned": ({"driver", "near", "made", "space"}, 2, (reason.VOLUME_ZONE,)),
        "good": ({"driver", "near", "made", "space", "zone"}, 2, ()),
    }
    state = State(
        [
            machine(name, labels=dict.fromkeys(labels, ""), **{attachment_resource("x"): limit})
            for name, (labels, limit, _) in rows.items()
        ]
    )
    assert against(state, wanted) == {name: found for name, (_, _, found) in rows.items()}
    poor = State([machine("m", pods=0)])
    assert against(poor, wanted) == {"m": ("Too many pods",)}


def test_what_is_not_asked_for_never_lacks():
    state = State([machine("m", cpu=1, memory=1)])
    state.place(task("hog", shape(memory=5)), "m")
    assert against(state, shape(cpu=1)) == {"m": ()}
    assert against(state, shape(cpu=1, memory=1)) == {"m": ("Insufficient memory",)}


def test_exactly_enough_is_enough():
    state = State([machine("m", cpu=2, pods=1)])
    assert against(state, shape(cpu=2)) == {"m": ()}


def test_devices_lack_when_no_single_one_has_the_share():
    state = State([machine("m", devices=2)])
    for index in (0, 1):
        state.place(task(f"x{index}", shape(count=1, milli=600)), "m", (index,))
    assert against(state, shape(count=1, milli=500)) == {"m": (reason.DEVICES,)}
    assert against(state, shape(count=2, milli=400)) == {"m": ()}


def test_tolerated_cordons_and_taints_are_no_reason():
    state = State([machine("m", unschedulable=True, taints=TAINTED)])
    tolerant = shape(
        tolerations=(Toleration("dedicated", "Exists"), Toleration(UNSCHEDULABLE_KEY, "Exists"))
    )
    assert against(state, tolerant) == {"m": ()}
    only_taint = shape(tolerations=(Toleration("dedicated", "Exists"),))
    assert against(state, only_taint) == {"m": ("node(s) were unschedulable",)}


def test_the_sentence_counts_reasons_and_sorts_them_as_text():
    # "10 ..." sorts before "2 ...", as text does.
    state = State(
        [machine(f"a{i}", cpu=1) for i in range(10)]
        + [machine(f"b{i}", cpu=9, unschedulable=True) for i in range(2)]
        + [machine("c", cpu=1, pods=0)]
    )
    assert sentence(state, group("g", shape(cpu=5))) == (
        "0/13 nodes are available: 1 Too many pods, 11 Insufficient cpu, "
        "2 node(s) were unschedulable."
    )


def test_without_machines_the_sentence_is_kube_schedulers():
    assert sentence(State(), group("g", shape())) == "no nodes available to schedule pods"


def test_machines_that_are_gone_do_not_count():
    state = State([machine("m", cpu=1), machine("n", cpu=1)])
    state.remove_machine("m")
    assert sentence(state, group("g", shape(cpu=2))) == (
        "0/1 nodes are available: 1 Insufficient cpu."
    )


def test_a_gang_with_room_for_each_but_not_for_all_says_so():
    state = State([machine("m", cpu=3), machine("n", cpu=1)])
    assert sentence(state, group("g", shape(cpu=2), shape(cpu=2))) == (
        "0/2 nodes are available: group g needs room for all 2 members at once, "
        "1 node(s) have room for this one."
    )


def test_a_single_task_that_others_go_before_says_so():
    state = State([machine("m", cpu=3)])
    state.place(task("running", shape(cpu=1)), "m")
    first, second = group("first", shape(cpu=3)), group("second", shape(cpu=1))
    assert scheduler(state, fcfs).decide(state, [first, second]).plan.placements == ()
    assert sentence(state, second) == "behind others in the queue; 1/1 nodes have room for it."


def test_what_blocks_one_member_is_the_reason_of_all():
    gang = group("g", shape(), shape())
    held = type(gang)("g", (gang.tasks[0], task("g.1", None, "spec.x: not supported")))
    answers = why_waiting(State([machine("m")]), lambda _: constraints(), [held])
    assert answers == {"g.0": "spec.x: not supported", "g.1": "spec.x: not supported"}


def test_every_machine_has_a_verdict_and_it_is_true():
    for number in range(150):
        rng = Random(f"explain {number}")
        generator = Generator(rng)
        world, state = World(), State()
        for offered in generator.machines():
            world.set_machine(offered)
            state.set_machine(offered)
        for i in range(rng.randint(0, 10)):
            running = task(f"r{i}", rng.choice(generator.shapes))
            name = rng.choice(list(world.machines))
            world.run(running, name)
            state.place(running, name)
        rooms = world.rooms()
        for of in generator.shapes:
            found = against(state, of)
            assert set(found) == set(world.machines)
            for name, reasons in found.items():
                fits = admits(world.machines[name], of) and rooms[name].fits(of)
                assert (reasons == ()) == fits, (number, name)
