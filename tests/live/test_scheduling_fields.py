"""Requests, affinity, taints, host ports, gates and images, one rule at a time."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_objects import (
    count,
    create,
    delete,
    events_of,
    node_of,
    set_status,
    wait_for_reason,
    wait_placed,
)
from live_manifests import (
    HOSTNAME,
    IMAGE,
    container,
    expression,
    host_port,
    labelled,
    named,
    on,
    pod,
    preferred,
    required,
    taint,
    toleration,
    with_ports,
)
from random_manifests import OVERHEAD, runtime_class
from scheduler_process import Scheduler
from shared_scheduler import empty_cluster, running_scheduler
from testbed import ControlPlane, Manifest, verdict
from testbed.api import STRATEGIC

GPU = "example.com/gpu"


@pytest.fixture(scope="module")
def afflux(
    control_plane: ControlPlane, rights: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scheduler]:
    with running_scheduler(control_plane, rights, tmp_path_factory.mktemp("fields")) as process:
        yield process


@pytest.fixture
def cluster(control_plane: ControlPlane, afflux: Scheduler) -> ControlPlane:
    return empty_cluster(control_plane, afflux)


def fit_one_by_one(cluster: ControlPlane, spec: Manifest, fitting: int, words: str) -> None:
    """Exactly `count` pods of this spec are placed; the next one waits with this reason."""
    names = [f"p{index}" for index in range(fitting)]
    create(cluster, *(pod(name, **spec) for name in names))
    wait_placed(cluster, *names)
    create(cluster, pod("one-more", **spec))
    wait_for_reason(cluster, "one-more", words)
    verdict.assert_sound(cluster, [f"default/{name}" for name in names])


# --- Requests


def test_a_machine_is_filled_to_its_allocatable_and_no_further(cluster: ControlPlane) -> None:
    cluster.create_nodes(1, cpu="1")
    fit_one_by_one(cluster, {"cpu": "250m"}, 4, "0/1 nodes are available: 1 Insufficient cpu.")


def test_allocatable_counts_and_not_capacity(cluster: ControlPlane) -> None:
    (node,) = cluster.create_nodes(1, cpu="4")
    set_status(cluster, node, allocatable={"cpu": "1"})
    create(cluster, pod("large", cpu="1500m"))
    wait_for_reason(cluster, "large", "1 Insufficient cpu")


def test_memory_is_counted(cluster: ControlPlane) -> None:
    cluster.create_nodes(1, memory="1Gi")
    spec = {"containers": [container({"memory": "512Mi"})]}
    fit_one_by_one(cluster, spec, 2, "1 Insufficient memory")


def test_requests_of_init_containers_do_not_add_up_with_the_others(cluster: ControlPlane) -> None:
    cluster.create_nodes(1, cpu="1")
    spec = {
        "containers": [container({"cpu": "100m"})],
        "initContainers": [container({"cpu": "600m"}, "first"), container({"cpu": "1"}, "second")],
    }
    fit_one_by_one(cluster, spec, 1, "1 Insufficient cpu")


def test_requests_of_sidecars_add_up_with_the_others(cluster: ControlPlane) -> None:
    cluster.create_nodes(1, cpu="1")
    spec = {
        "containers": [container({"cpu": "300m"})],
        "initContainers": [container({"cpu": "200m"}, "side", restartPolicy="Always")],
    }
    fit_one_by_one(cluster, spec, 2, "1 Insufficient cpu")


def test_the_overhead_of_a_runtime_class_is_counted(cluster: ControlPlane) -> None:
    cluster.create_nodes(1, cpu="1")
    create(cluster, runtime_class())  # half a processor more
    try:
        fit_one_by_one(
            cluster, {"cpu": "400m", "runtimeClassName": OVERHEAD}, 1, "Insufficient cpu"
        )
    finally:
        delete(cluster, "RuntimeClass", OVERHEAD)


def test_requests_of_the_pod_as_a_whole_are_counted(cluster: ControlPlane) -> None:
    cluster.create_nodes(1, cpu="1")
    spec = {"cpu": "100m", "resources": {"requests": {"cpu": "500m"}}}
    fit_one_by_one(cluster, spec, 2, "1 Insufficient cpu")


def test_a_pod_being_resized_counts_with_its_new_requests(cluster: ControlPlane) -> None:
    cluster.create_nodes(1, cpu="1")
    create(cluster, pod("growing", cpu="300m"))
    cluster.wait_until(lambda: cluster.pod("growing")["status"]["phase"] == "Running", "its start")
    path = "/api/v1/namespaces/default/pods/growing"
    # As a kubelet does when it accepts the resize.
    has = {"name": "main", "resources": {"requests": {"cpu": "300m"}}}
    cluster.api.patch(f"{path}/status", {"status": {"containerStatuses": [has]}}, STRATEGIC)
    wants = {"name": "main", "resources": {"requests": {"cpu": "800m"}}}
    cluster.api.patch(f"{path}/resize", {"spec": {"containers": [wants]}}, STRATEGIC)
    create(cluster, pod("next", cpu="300m"))
    wait_for_reason(cluster, "next", "1 Insufficient cpu")


def test_extended_resources_are_counted(cluster: ControlPlane) -> None:
    cluster.create_nodes(1)
    (equipped,) = cluster.create_nodes(1, resources={GPU: "2"}, prefix="equipped")
    spec = {"containers": [container({"cpu": "100m", GPU: "1"})]}
    fit_one_by_one(cluster, spec, 2, f"0/2 nodes are available: 2 Insufficient {GPU}.")
    assert node_of(cluster, "p0") == equipped


def test_no_machine_takes_more_pods_than_it_says(cluster: ControlPlane) -> None:
    cluster.create_nodes(1, pods=3)
    spec = {"containers": [{"name": "main", "image": IMAGE}]}
    fit_one_by_one(cluster, spec, 3, "0/1 nodes are available: 1 Too many pods.")


def test_a_pod_created_with_a_node_name_is_counted_but_not_bound(cluster: ControlPlane) -> None:
    (node,) = cluster.create_nodes(1, cpu="1")
    create(cluster, pod("direct", cpu="800m", nodeName=node), pod("next", cpu="300m"))
    wait_for_reason(cluster, "next", "1 Insufficient cpu")
    assert [binding.pod for binding in verdict.bindings(cluster)] == []


# --- Labels and names


def test_a_node_selector_is_obeyed(cluster: ControlPlane) -> None:
    cluster.create_nodes(3)
    (chosen,) = cluster.create_nodes(1, labels={"disk": "ssd"}, prefix="fast")
    create(cluster, pod("picky", nodeSelector={"disk": "ssd"}))
    create(cluster, pod("pickier", nodeSelector={"disk": "ssd", "team": "blue"}))
    assert wait_placed(cluster, "picky") == {"picky": chosen}
    wait_for_reason(cluster, "pickier", "4 node(s) didn't match Pod's node affinity/selector")


OPERATORS = {
    "In": (expression("size", "In", "5", "7"), {"five"}),
    "NotIn": (expression("size", "NotIn", "5", "9"), {"big", "none"}),
    "Exists": (expression("size", "Exists"), {"five", "nine", "big"}),
    "DoesNotExist": (expression("size", "DoesNotExist"), {"none"}),
    "Gt": (expression("size", "Gt", "5"), {"nine"}),
    "Lt": (expression("size", "Lt", "9"), {"five"}),
}


@pytest.fixture(scope="module")
def sizes(control_plane: ControlPlane, afflux: Scheduler) -> ControlPlane:
    """Machines with a size label; one has none, and one a size that is no number."""
    plane = empty_cluster(control_plane, afflux)
    for name, labels in {
        "five": {"size": "5"},
        "nine": {"size": "9"},
        "big": {"size": "big"},
        "none": {},
    }.items():
        plane.create_nodes(1, labels=labels, prefix=name)
    return plane


@pytest.mark.parametrize("operator", OPERATORS)
def test_required_affinity_supports_every_operator(sizes: ControlPlane, operator: str) -> None:
    stated, allowed = OPERATORS[operator]
    # One pod per machine, each too large to share it: exactly the allowed machines get one.
    names = [f"{operator.lower()}-{index}" for index in range(4)]
    spec = {"cpu": "20", "affinity": required(labelled(stated))}
    create(sizes, *(pod(name, **spec) for name in names))
    sizes.wait_until(
        lambda: sum(bool(node_of(sizes, name)) for name in names) == len(allowed), operator
    )
    found = {node_of(sizes, name) for name in names} - {None}
    assert {name.rpartition("-")[0] for name in found if name} == allowed
    for name in names:
        if node_of(sizes, name) is None:
            wait_for_reason(sizes, name, "nodes are available")
    delete(sizes, "Pod", *names)


def test_affinity_by_name_leads_to_one_machine_or_away_from_it(cluster: ControlPlane) -> None:
    one, two = cluster.create_nodes(2)
    create(cluster, pod("there", affinity=on(two)))
    create(cluster, pod("not-there", affinity=required(named("NotIn", two))))
    assert wait_placed(cluster, "there", "not-there") == {"there": two, "not-there": one}


def test_one_term_is_sufficient_but_all_its_expressions_must_match(cluster: ControlPlane) -> None:
    cluster.create_nodes(2, labels={"disk": "ssd"})
    (right,) = cluster.create_nodes(1, labels={"disk": "ssd", "team": "blue"}, prefix="right")
    both = labelled(expression("disk", "In", "ssd"), expression("team", "In", "blue"))
    create(cluster, pod("either", affinity=required(labelled(expression("gold", "Exists")), both)))
    assert wait_placed(cluster, "either") == {"either": right}


def test_preferred_affinity_is_followed_while_there_is_room(cluster: ControlPlane) -> None:
    labels = {"best": {"disk": "ssd", "team": "blue"}, "better": {"disk": "ssd"}, "worst": {}}
    for name, its in labels.items():
        cluster.create_nodes(1, pods=1, labels=its, prefix=name)
    wish = preferred(
        (20, labelled(expression("disk", "In", "ssd"))),
        (50, labelled(expression("team", "Exists"))),
    )
    for name in labels:
        create(cluster, pod(name, cpu="1", affinity=wish))
        assert wait_placed(cluster, name) == {name: f"{name}-0000"}


# --- Taints


def test_taints_keep_pods_away_that_do_not_tolerate_them(cluster: ControlPlane) -> None:
    (hard,) = cluster.create_nodes(1, taints=[taint("a", "NoSchedule", "1")], prefix="hard")
    (harder,) = cluster.create_nodes(1, taints=[taint("b", "NoExecute")], prefix="harder")
    create(cluster, pod("plain"))
    wait_for_reason(
        cluster, "plain", "0/2 nodes are available: 2 node(s) had untolerated taint(s)."
    )
    create(cluster, pod("wrong", tolerations=[toleration("a", "Equal", value="2")]))
    wait_for_reason(cluster, "wrong", "2 node(s) had untolerated taint(s)")
    create(cluster, pod("equal", tolerations=[toleration("a", "Equal", value="1")]))
    create(cluster, pod("exists", tolerations=[toleration("b", effect="NoExecute")]))
    assert wait_placed(cluster, "equal", "exists") == {"equal": hard, "exists": harder}


def test_a_pod_is_placed_when_a_toleration_is_added(cluster: ControlPlane) -> None:
    (node,) = cluster.create_nodes(1, taints=[taint("a", "NoSchedule")])
    create(cluster, pod("plain"))
    wait_for_reason(cluster, "plain", "1 node(s) had untolerated taint(s)")
    known = cluster.pod("plain")["spec"]["tolerations"]
    path = "/api/v1/namespaces/default/pods/plain"
    cluster.api.patch(path, {"spec": {"tolerations": [*known, toleration("a")]}})
    assert wait_placed(cluster, "plain") == {"plain": node}


def test_a_soft_taint_is_avoided_while_another_machine_has_room(cluster: ControlPlane) -> None:
    (soft,) = cluster.create_nodes(1, taints=[taint("a", "PreferNoSchedule")], prefix="soft")
    (plain,) = cluster.create_nodes(1, pods=2, prefix="plain")
    for name, expected in {"one": plain, "two": plain, "three": soft}.items():
        create(cluster, pod(name, cpu="1"))
        assert wait_placed(cluster, name) == {name: expected}


# --- Host ports


def test_a_host_port_is_used_once_per_machine_protocol_and_address(cluster: ControlPlane) -> None:
    (node,) = cluster.create_nodes(1)
    for name, port in {
        "web": host_port(80),
        "dns": host_port(80, "UDP"),
        "local": host_port(81, ip="127.0.0.1"),
        "other-address": host_port(81, ip="10.0.0.1"),
    }.items():
        create(cluster, pod(name, containers=with_ports(port)))
        assert wait_placed(cluster, name) == {name: node}
    for name, port in {
        "second-web": host_port(80),
        "web-on-one-address": host_port(80, ip="127.0.0.1"),
        "everywhere": host_port(81),
    }.items():
        create(cluster, pod(name, containers=with_ports(port)))
        wait_for_reason(
            cluster, name, "1 node(s) didn't have free ports for the requested pod ports"
        )
    # The port is free again when its pod is gone.
    delete(cluster, "Pod", "web")
    cluster.wait_until(
        lambda: bool(node_of(cluster, "second-web") or node_of(cluster, "web-on-one-address")),
        "the port to be given to one of the two",
    )


def test_pods_with_the_same_port_spread_over_the_machines(cluster: ControlPlane) -> None:
    nodes = cluster.create_nodes(3)
    names = ["a", "b", "c"]
    create(cluster, *(pod(name, containers=with_ports(host_port(80))) for name in names))
    assert count(wait_placed(cluster, *names)) == dict.fromkeys(sorted(nodes), 1)


# --- Gates


def test_a_gated_pod_is_placed_when_its_gates_are_removed(cluster: ControlPlane) -> None:
    cluster.create_nodes(1)
    gates = [{"name": "example.com/quota"}, {"name": "example.com/data"}]
    create(cluster, pod("gated", schedulingGates=gates), pod("free"))
    wait_placed(cluster, "free")
    assert wait_for_reason(cluster, "gated")["reason"] == "SchedulingGated"
    path = "/api/v1/namespaces/default/pods/gated"
    cluster.api.patch(path, {"spec": {"schedulingGates": gates[1:]}})
    create(cluster, pod("free-again"))
    wait_placed(cluster, "free-again")
    assert wait_for_reason(cluster, "gated")["reason"] == "SchedulingGated"
    cluster.api.patch(path, {"spec": {"schedulingGates": None}})
    wait_placed(cluster, "gated")
    assert events_of(cluster, "gated", "FailedScheduling") == []


# --- Images


def test_a_pod_prefers_a_machine_that_has_its_image(cluster: ControlPlane) -> None:
    nodes = cluster.create_nodes(4)
    image = "registry.invalid/large:1"
    for name in nodes[2:]:
        set_status(cluster, name, images=[{"names": [image], "sizeBytes": 900 << 20}])
    names = [f"p{index}" for index in range(4)]
    for name in names:
        large = container({"cpu": "100m"}) | {"image": image}
        create(cluster, pod(name, containers=[large]))
        wait_placed(cluster, name)
    assert set(wait_placed(cluster, *names).values()) == set(nodes[2:])
    # Only a preference: a pod that does not fit there goes elsewhere.
    create(cluster, pod("selected", containers=[large], nodeSelector={HOSTNAME: nodes[0]}))
    assert wait_placed(cluster, "selected") == {"selected": nodes[0]}
