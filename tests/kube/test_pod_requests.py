"""A pod asks for what kube-scheduler would count for it."""

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


def test_containers_add_up_and_the_pod_takes_one_slot() -> None:
    containers = [container(cpu="250m", memory="64Mi"), container(cpu="0.5")]
    assert asked(containers=containers) == {"cpu": 750, "memory": 64 * MI, "pods": 1}


def test_sums_are_rounded_once_not_per_container() -> None:
    assert asked(containers=[container(memory="0.5"), container(memory="500m")])["memory"] == 1


def test_a_limit_without_a_request_is_the_request() -> None:
    limited = container(cpu="1", limits={"cpu": "4", "memory": "1Mi"})
    assert asked(containers=[limited]) == {"cpu": 1000, "memory": MI, "pods": 1}


def test_an_init_container_counts_only_where_it_needs_more() -> None:
    spec = {
        "initContainers": [container(cpu="4", memory="1Mi"), container(cpu="2")],
        "containers": [container(cpu="1", memory="2Mi"), container(cpu="1")],
    }
    assert asked(**spec) == {"cpu": 4000, "memory": 2 * MI, "pods": 1}


def test_sidecars_run_beside_the_containers_and_beside_later_init_containers() -> None:
    def sidecar(cpu: str) -> dict[str, Any]:
        return container(cpu=cpu, restartPolicy="Always")

    before = [sidecar("1"), container(cpu="5")]
    after = [container(cpu="5"), sidecar("1")]
    main = [container(cpu="2")]
    assert asked(initContainers=before, containers=main)["cpu"] == 6000
    assert asked(initContainers=after, containers=main)["cpu"] == 5000
    assert asked(initContainers=[sidecar("3"), sidecar("1")], containers=main)["cpu"] == 6000


def test_overhead_comes_on_top() -> None:
    assert asked(requests={"cpu": "1"}, overhead={"cpu": "250m", "memory": "1Mi"}) == {
        "cpu": 1250,
        "memory": MI,
        "pods": 1,
    }


def test_resources_stated_for_the_whole_pod_replace_the_sum() -> None:
    stated = {"requests": {"cpu": "3"}, "limits": {"cpu": "4", "memory": "8Mi"}}
    found = asked(requests={"cpu": "1", "example.com/gpu": "1"}, resources=stated)
    assert found == {"cpu": 3000, "memory": 8 * MI, "example.com/gpu": 1, "pods": 1}
    # A pod's limit does not replace what its containers ask for.
    assert asked(requests={"cpu": "1"}, resources={"limits": {"cpu": "4"}})["cpu"] == 1000


@pytest.mark.parametrize(
    ("condition", "cpu_milli"),
    [([], 3000), ([{"type": "PodResizePending", "reason": "Infeasible"}], 2000)],
)
def test_a_running_container_counts_what_it_has_and_what_it_may_get(
    condition: list[Any], cpu_milli: int
) -> None:
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
    ("spec", "complaint"),
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
def test_a_wrong_request_names_the_pod_and_the_field(spec: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        inventory(node(), pod("web", **spec))
    assert str(caught.value).startswith(f"cluster.json: items[1]: Pod default/web: {complaint}")


def test_a_node_offers_its_allocatable_and_falls_back_to_its_capacity() -> None:
    offers = node("a", allocatable={"cpu": "3500m", "pods": 10}, capacity={"cpu": "4"})
    falls_back = node("b", allocatable=None, capacity={"cpu": "4", "pods": "5"})
    first, second = inventory(offers, falls_back).machines
    assert first.capacity == (("cpu", 3500), ("pods", 10))
    assert second.capacity == (("cpu", 4000), ("pods", 5))


def test_a_node_that_does_not_say_how_many_pods_it_takes_takes_none() -> None:
    loaded = inventory(node("a", allocatable={"cpu": "4"}), node("b"))
    assert amount_of(loaded.machines[0].capacity, "pods") == 0
    assert loaded.notes == ("1 node offers no room for pods (status.allocatable.pods): a",)
