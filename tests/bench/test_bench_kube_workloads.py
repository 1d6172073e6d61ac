"""bench.kube: possible workloads, the same for every scheduler."""

import json
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # bench is not part of the package

from bench.kube.plans import Machine, Plan, Pod, PodClass, as_json, assign_pods, complaints
from bench.kube.results import BACKLOG, STREAM, imbalance
from bench.kube.run_order import Selection, planned_runs, pods_of
from bench.kube.schedulers import NULL_EVENTS, SCHEDULERS
from bench.kube.workloads import FREE, SLACK, WORKLOADS

SIZES = [(name, nodes) for name in WORKLOADS for nodes in (60, 200)]


def plan_of(name: str, nodes: int, seed: int = 1) -> Plan:
    return WORKLOADS[name].plan(nodes, 3 * nodes, Random(seed))


def planned(plan: Plan) -> dict[str, str]:
    return {pod.name: pod.machine for pod in plan.pods}


@pytest.mark.parametrize(("name", "nodes"), SIZES)
def test_the_machine_of_every_pod_is_valid(name: str, nodes: int):
    plan = plan_of(name, nodes)
    assert len(plan.pods) == 3 * nodes
    assert len({pod.name for pod in (*plan.pods, *plan.fill)}) == 3 * nodes + len(plan.fill)
    assert complaints(plan, planned(plan)) == []


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_seed_always_gives_the_same_plan(name: str):
    one, same, other = (plan_of(name, 60, seed) for seed in (1, 1, 2))
    assert (one.machines, one.pods, one.fill) == (same.machines, same.pods, same.fill)
    assert one.pods != other.pods


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_machines_of_a_class_are_those_of_its_manifest(name: str):
    """Compares the plan with the manifests, which the schedulers see."""
    plan = plan_of(name, 60)
    sent = json.loads(as_json(plan, 4, 2))
    nodes = {node["metadata"]["name"]: node for node in sent["nodes"]}
    for class_name, one in plan.classes.items():
        spec = sent["classes"][class_name]["spec"]
        for machine in plan.machines:
            assert one.may_run(machine) == admitted(spec, nodes[machine.name]), class_name


def admitted(spec: dict[str, Any], node: dict[str, Any]) -> bool:
    labels = node["metadata"]["labels"]
    if any(labels.get(key) != value for key, value in spec.get("nodeSelector", {}).items()):
        return False
    tolerated = {toleration["key"] for toleration in spec.get("tolerations", ())}
    for taint in node["spec"].get("taints", ()):
        if taint["effect"] == "NoSchedule" and taint["key"] not in tolerated:
            return False
    required = (
        spec.get("affinity", {})
        .get("nodeAffinity", {})
        .get("requiredDuringSchedulingIgnoredDuringExecution")
    )
    terms = required["nodeSelectorTerms"] if required else [{"matchExpressions": []}]
    return any(
        all(matches(expression, labels) for expression in term["matchExpressions"])
        for term in terms
    )


def matches(expression: dict[str, Any], labels: dict[str, str]) -> bool:
    value, values = labels.get(expression["key"]), expression["values"]
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Gt":
            return value is not None and int(value) > int(values[0])
        case other:
            raise AssertionError(other)


def test_constrained_pods_find_machines_in_every_pool_and_not_everywhere():
    plan = plan_of("constrained", 60)
    for name, one in plan.classes.items():
        allowed = sum(one.may_run(machine) for machine in plan.machines)
        assert 0 < allowed < 60, name


@pytest.mark.parametrize("nodes", [200, 1000])
def test_a_burst_just_fits_into_a_nearly_full_cluster(nodes: int):
    plan = WORKLOADS["burst"].plan(nodes, 2 * nodes, Random(1))
    filled = Plan(plan.machines, plan.classes, [], plan.fill)
    for amount, capacity in (("cpu_milli", 32_000), ("memory_mib", 128 * 1024)):
        there = nodes * capacity
        used = sum(getattr(plan.classes[pod.class_name], amount) for pod in plan.fill)
        asked = sum(getattr(plan.classes[pod.class_name], amount) for pod in plan.pods)
        assert (there - used) / there == pytest.approx(FREE, rel=0.1)
        assert asked <= there - used <= asked * (1 + SLACK)
    assert complaints(filled, {}) == []
    # A further large pod would not fit: packing matters.
    assert imbalance(filled, {}).cpu_range > 0.02


def test_an_impossible_plan_is_refused_before_any_run():
    with pytest.raises(ValueError, match="does not fit on 2 machines"):
        WORKLOADS["mixed"].plan(2, 500, Random(1))
    with pytest.raises(ValueError, match="expected at least 250 pods"):
        WORKLOADS["burst"].plan(1000, 20, Random(1))


def test_a_pod_that_no_machine_admits_is_refused():
    nowhere = {"lost": PodClass(1, 1, may_run=lambda _: False)}
    with pytest.raises(ValueError, match="of class lost"):
        assign_pods([Machine("one")], nowhere, ["lost"], Random(1))


def test_violations_of_a_placement_are_reported():
    machines = [Machine("small", 1000, 1000, 2), Machine("large", 4000, 4000, 2)]
    classes = {
        "picky": PodClass(900, 100, may_run=lambda machine: machine.name == "large"),
        "easy": PodClass(600, 600),
    }
    pods = [Pod("a", "picky", "large"), Pod("b", "easy", "small"), Pod("c", "easy", "large")]
    plan = Plan(machines, classes, pods, fill=[Pod("f", "easy", "small")])
    assert complaints(plan, {"a": "large"}) == []
    found = complaints(plan, {"a": "small", "b": "small"})
    assert found == [
        "pod a of class picky may not run on small",
        "machine small is over its capacity: pods ask for 2100 of cpu, it has 1000",
        "machine small is over its capacity: pods ask for 1300 of memory, it has 1000",
        "machine small is over its capacity: pods ask for 3 of pods, it has 2",
    ]


def test_the_load_generator_gets_the_whole_plan():
    plan = plan_of("burst", 60)
    sent = json.loads(as_json(plan, 5, 7))
    assert len(sent["nodes"]) == 60
    assert {name: len(each["pods"]) for name, each in sent["sets"].items()} == {
        "pods": len(plan.pods),
        "fill": len(plan.fill),
        "warm": 5,
    }
    assert sent["sets"]["fill"]["fixed"]
    assert {each["workers"] for each in sent["sets"].values()} == {7}
    named = {pod["class"] for each in sent["sets"].values() for pod in each["pods"]}
    assert named <= set(sent["classes"])
    assert as_json(plan_of("trickle", 60), 5, 7).count('"rate": 20.0') == 1


def test_every_scheduler_runs_every_workload_and_the_first_one_rotates():
    runs = planned_runs(Selection((10, 20), list(WORKLOADS), list(SCHEDULERS)))
    cases = list(dict.fromkeys((run.nodes, run.workload, run.mode) for run in runs))
    for case in cases:
        there = [run for run in runs if (run.nodes, run.workload, run.mode) == case]
        left_out = set() if case[1:] == ("plain", STREAM) else {NULL_EVENTS}
        assert {run.scheduler for run in there} == set(SCHEDULERS) - left_out
        assert [run.turn for run in there] == list(range(1, len(there) + 1))
    first = Counter(run.scheduler for run in runs if run.turn == 1)
    assert set(first) >= set(SCHEDULERS) - {NULL_EVENTS}
    assert (10, "plain", BACKLOG) in cases
    assert (10, "trickle", BACKLOG) not in cases


def test_a_smaller_run_has_fewer_pods_in_every_workload():
    assert pods_of("plain", 1000) == 1000
    assert pods_of("burst", 1000) == 200
    assert pods_of("trickle", 10) == 10
    chosen = Selection((10,), ("mixed",), ("null",), (STREAM, BACKLOG), pods=1000, repeats=2)
    assert [(run.mode, run.pods) for run in planned_runs(chosen)] == [
        (STREAM, 500),
        (BACKLOG, 500),
    ] * 2
