"""The requests of a pod are those that kube-scheduler counts."""

from typing import Any

import pytest
from manifests import inventory, node, only_task, pod

from afflux.model.errors import InputError
from afflux.model.resources import amount_of

MI = 2**20


def container(**amounts: Any) -> dict[str, Any]:
    extra = {key: amounts.pop(key) for key in ("restartPolicy", "limits") if key in amounts}
    resources = {"requests": amounts, "limits": extra.pop("limits", {})}
    return {"name": "c", "resources": resources, **extra}


def asked(**spec: Any) -> dict[str, int]:
    return dict(only_task(pod(**spec)).shape.requests)


def test_requests_of_containers_are_added_with_one_pod_slot() -> None:
    containers = [container(cpu="250m", memory="64Mi"), container(cpu="0.5")]
    assert asked(containers=containers) == {"cpu": 750, "memory": 64 * MI, "pods": 1}


def test_the_sum_is_rounded_once() -> None:
    assert asked(containers=[container(memory="0.5"), container(memory="500m")])["memory"] == 1


def test_a_limit_without_a_request_counts_as_the_request() -> None:
    limited = container(cpu="1", limits={"cpu": "4", "memory": "1Mi"})
    assert asked(containers=[limited]) == {"cpu": 1000, "memory": MI, "pods": 1}


def test_an_init_container_counts_where_it_needs_more() -> None:
    spec = {
        "initContainers": [container(cpu="4", memory="1Mi"), container(cpu="2")],
        "containers": [container(cpu="1", memory="2Mi"), container(cpu="1")],
    }
    assert asked(**spec) == {"cpu": 4000, "memory": 2 * MI, "pods": 1}


def test_sidecars_add_to_containers_and_later_init_containers() -> None:
    def sidecar(cpu: str) -> dict[str, Any]:
        return container(cpu=cpu, restartPolicy="Always")

    before = [sidecar("1"), container(cpu="5")]
    after = [container(cpu="5"), sidecar("1")]
    main = [container(cpu="2")]
    assert asked(initContainers=before, containers=main)["cpu"] == 6000
    assert asked(initContainers=after, containers=main)["cpu"] == 5000
    assert asked(initContainers=[sidecar("3"), sidecar("1")], containers=main)["cpu"] == 6000


def test_overhead_is_added() -> None:
    assert asked(requests={"cpu": "1"}, overhead={"cpu": "250m", "memory": "1Mi"}) == {
        "cpu": 1250,
        "memory": MI,
        "pods": 1,
    }


def test_pod_level_requests_replace_the_sum() -> None:
    stated = {"requests": {"cpu": "3"}, "limits": {"cpu": "4", "memory": "8Mi"}}
    found = asked(requests={"cpu": "1", "example.com/gpu": "1"}, resources=stated)
    assert found == {"cpu": 3000, "memory": 8 * MI, "example.com/gpu": 1, "pods": 1}
    # A pod-level limit does not replace requests of containers.
    assert asked(requests={"cpu": "1"}, resources={"limits": {"cpu": "4"}})["cpu"] == 1000


def counted_in_costs(**spec: Any) -> dict[str, int]:
    """What the pod counts for in costs beyond its requests."""
    return dict(only_task(pod(**spec)).shape.unrequested)


def test_a_container_without_requests_counts_in_costs_with_100m_and_200mi() -> None:
    bare: dict[str, Any] = {"name": "c"}
    assert counted_in_costs(containers=[bare]) == {"cpu": 100, "memory": 200 * MI}
    assert asked(containers=[bare]) == {"pods": 1}
    assert counted_in_costs(containers=[bare, bare]) == {"cpu": 200, "memory": 400 * MI}


def test_only_the_resource_that_a_container_does_not_request_is_added_in_costs() -> None:
    mixed = [container(cpu="1"), container(memory="1Mi"), container(cpu="1", memory="1Mi")]
    assert counted_in_costs(containers=mixed) == {"cpu": 100, "memory": 200 * MI}
    assert counted_in_costs(containers=mixed[:1]) == {"memory": 200 * MI}
    assert counted_in_costs(containers=mixed[2:]) == {}
    assert counted_in_costs(containers=[container(limits={"cpu": "1", "memory": "1"})]) == {}


def test_a_request_of_zero_counts_as_stated_in_costs() -> None:
    assert counted_in_costs(containers=[container(cpu="0", memory="0")]) == {}


def test_an_init_container_without_requests_matters_in_costs_where_it_needs_more() -> None:
    requested = [container(cpu="150m", memory="1Mi")]
    init = [{"name": "i"}]
    assert counted_in_costs(containers=requested, initContainers=init) == {"memory": 199 * MI}
    sidecar = [{"name": "s", "restartPolicy": "Always"}]
    both = {"cpu": 100, "memory": 200 * MI}
    assert counted_in_costs(containers=requested, initContainers=sidecar) == both


def test_a_pod_level_request_replaces_what_containers_are_taken_to_use() -> None:
    level = {"requests": {"cpu": "1"}}
    found = counted_in_costs(containers=[{"name": "c"}], resources=level)
    assert found == {"memory": 200 * MI}


@pytest.mark.parametrize(
    ("condition", "cpu_milli"),
    [([], 3000), ([{"type": "PodResizePending", "reason": "Infeasible"}], 2000)],
)
def test_a_resized_container_counts_with_its_maximum(condition: list[Any], cpu_milli: int) -> None:
    status = {
        "phase": "Running",
        "conditions": condition,
        "containerStatuses": [
            {
                "name": "main",
                "allocatedResources": {"cpu": "2"},
                "resources": {"requests": {"cpu": "1"}},
            }
        ],
    }
    loaded = inventory(node(), pod(requests={"cpu": "3"}, nodeName="n1", status=status))
    assert amount_of(loaded.running[0][0].shape.requests, "cpu") == cpu_milli


@pytest.mark.parametrize(
    ("spec", "error_text"),
    [
        ({"requests": {"cpu": "lots"}}, "spec.containers[0].resources.requests[cpu]: 'lots'"),
        (
            {"containers": [container(limits={"memory": "-1"})]},
            "spec.containers[0].resources.limits[memory]: '-1'",
        ),
        ({"overhead": {"cpu": "x"}}, "spec.overhead[cpu]: 'x'"),
        ({"containers": []}, "spec.containers: missing, expected at least one container"),
        (
            {"containers": [container(memory="8Pi"), container(memory="8Pi")]},
            "spec: sum of requests: 18014398509481984",
        ),
    ],
)
def test_an_invalid_request_names_pod_and_field(spec: dict[str, Any], error_text: str) -> None:
    with pytest.raises(InputError) as caught:
        inventory(node(), pod("web", **spec))
    assert str(caught.value).startswith(f"cluster.json: items[1]: Pod default/web: {error_text}")


def test_the_capacity_of_a_machine_is_allocatable_or_capacity() -> None:
    offers = node("a", allocatable={"cpu": "3500m", "pods": 10}, capacity={"cpu": "4"})
    falls_back = node("b", allocatable=None, capacity={"cpu": "4", "pods": "5"})
    first, second = inventory(offers, falls_back).machines
    assert first.capacity == (("cpu", 3500), ("pods", 10))
    assert second.capacity == (("cpu", 4000), ("pods", 5))


def test_a_node_without_a_number_of_pods_takes_none() -> None:
    loaded = inventory(node("a", allocatable={"cpu": "4"}), node("b"))
    assert amount_of(loaded.machines[0].capacity, "pods") == 0
    assert loaded.notes == ("1 node offers no room for pods (status.allocatable.pods): a",)
