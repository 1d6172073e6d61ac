"""bench.kube: workloads of pods with constraints between them, and the judgement of their rules."""

import json
import sys
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # bench is not part of the package

from bench.kube.constraint_workloads import CONSTRAINT_WORKLOADS
from bench.kube.plans import Plan, as_json, complaints

ZONE_AFFINITY, SERVICES = "zone-affinity", "services"


def plan_of(name: str) -> Plan:
    return CONSTRAINT_WORKLOADS[name].plan(150, 100, Random(1))


def planned(plan: Plan) -> dict[str, str]:
    return {pod.name: pod.machine for pod in plan.pods}


@pytest.mark.parametrize("name", CONSTRAINT_WORKLOADS)
def test_the_planned_machines_keep_every_rule(name: str):
    plan = plan_of(name)
    assert len(plan.pods) == 100
    assert complaints(plan, planned(plan)) == []


@pytest.mark.parametrize("name", CONSTRAINT_WORKLOADS)
def test_each_constraint_selects_the_pods_of_its_own_class(name: str):
    plan = plan_of(name)
    for class_name, manifest in json.loads(as_json(plan, 4, 2))["classes"].items():
        if class_name != "warm":
            assert manifest["metadata"]["labels"] == {"app": class_name}
            assert json.dumps({"matchLabels": {"app": class_name}}) in json.dumps(manifest["spec"])


@pytest.mark.parametrize("name", [n for n in CONSTRAINT_WORKLOADS if plan_of(n).rules])
def test_a_pod_in_the_wrong_domain_is_reported(name: str):
    plan = plan_of(name)
    where = planned(plan)
    # All pods of one class on one machine break every rule but affinity, which a second zone does.
    first = plan.pods[0]
    for pod in plan.pods:
        if pod.class_name == first.class_name:
            where[pod.name] = first.machine
    if name == ZONE_AFFINITY:
        where[first.name] = plan.machines[1].name
    assert any(first.class_name in complaint for complaint in complaints(plan, where))


def test_the_replicas_of_a_service_are_on_different_machines():
    plan = plan_of(SERVICES)
    for class_name in plan.classes:
        machines = [pod.machine for pod in plan.pods if pod.class_name == class_name]
        assert len(set(machines)) == len(machines) == 4


def test_a_plan_needs_a_machine_in_every_zone():
    with pytest.raises(ValueError, match="at least one for each of 3 zones"):
        CONSTRAINT_WORKLOADS[ZONE_AFFINITY].plan(2, 10, Random(1))
