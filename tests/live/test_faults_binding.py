"""Bindings that are refused, stay unanswered, or lose against another scheduler."""

import time

import pytest
from fault_injection import (
    Delay,
    ErrorResponse,
    Fault,
    NoResponse,
    Proxy,
    bind_requests,
    list_requests,
    watch_requests,
)
from pod_bursts import (
    NODES,
    PODS_PER_NODE,
    Burst,
    create_nodes,
    delete_pod,
    gang,
    names,
    numbered_pods,
    pod,
    wait_bound,
)
from scheduler_process import Schedulers
from testbed import ControlPlane, Manifest, verdict

SLOTS = NODES * PODS_PER_NODE

FAULTS: dict[str, list[Fault]] = {
    "refused": [
        ErrorResponse(409, "Conflict"),
        ErrorResponse(429, "TooManyRequests", retry_after_seconds=1),
        ErrorResponse(500, "InternalError"),
        ErrorResponse(503, "ServiceUnavailable"),
    ],
    "done, but said to have failed": [
        ErrorResponse(500, "InternalError", done=True),
        ErrorResponse(504, done=True),
    ],
    "connections cut": [NoResponse(done=True), NoResponse(done=False)],
    "no answer": [
        NoResponse(done=True, hang=True),
        NoResponse(done=False, hang=True),
        # The first request arrives long after the client has given it up.
        Delay(seconds=3),
    ],
}


@pytest.mark.parametrize("kind", FAULTS)
def test_all_pods_are_bound_although_many_bindings_fail(
    cluster: ControlPlane, schedulers: Schedulers, kind: str
) -> None:
    """Gangs are among them, of which some members fail and some do not."""
    create_nodes(cluster)
    with Proxy(cluster) as proxy:
        afflux = schedulers.start(proxy.kubeconfig(schedulers.kubeconfig))
        rules = [proxy.inject(fault, bind_requests, share=0.15) for fault in FAULTS[kind]]
        gangs = [pod for number in range(6) for pod in gang(f"gang-{number}", 8)]
        burst = Burst(cluster, [*gangs, *numbered_pods(SLOTS - len(gangs))])
        burst.wait_bound(SLOTS * 9 // 10)
        assert all(rule.hits for rule in rules)
        # Of so many pods one may by chance be refused repeatedly, and then backs off for long.
        proxy.clear_faults()
        burst.wait_all()
        verdict.assert_sound(cluster, burst.names)
        afflux.assert_healthy()


@pytest.mark.parametrize(
    "fault",
    [NoResponse(done=False, hang=True), ErrorResponse(500, "InternalError")],
    ids=["hang", "fail"],
)
def test_bindings_that_never_succeed_do_not_delay_others(
    cluster: ControlPlane, schedulers: Schedulers, fault: Fault
) -> None:
    """As with a broken admission webhook of one team: more bindings fail than there are workers."""
    create_nodes(cluster, 10)
    with Proxy(cluster) as proxy:
        by_proxy = proxy.kubeconfig(schedulers.kubeconfig)
        afflux = schedulers.start(by_proxy, binding={"parallelism": 4})
        rule = proxy.inject(fault, lambda info: bind_requests(info) and "/poison-" in info.path)
        poison = numbered_pods(16, "poison")
        cluster.create_pods(poison)
        afflux.wait_until(lambda: rule.hits >= 4, "the first binds to fail")
        burst = Burst(cluster, numbered_pods(10 * PODS_PER_NODE - len(poison)))
        burst.wait_all()
        assert all("nodeName" not in pod["spec"] for pod in cluster.pods() if is_poison(pod))
        proxy.clear_faults()
        wait_bound(cluster, names(poison))
        verdict.assert_sound(cluster, [*burst.names, *names(poison)])
        afflux.assert_healthy()


def is_poison(pod: Manifest) -> bool:
    return pod["metadata"]["name"].startswith("poison-")


def test_bindings_of_pods_that_no_longer_exist(
    cluster: ControlPlane, schedulers: Schedulers
) -> None:
    """The watch lags: pods that were deleted, recreated or bound by others still seem to wait.

    Each is tried, refused, and not tried again and again.
    """
    machines = create_nodes(cluster, 10, labels={"ours": "yes"})
    (elsewhere,) = cluster.create_nodes(1, prefix="elsewhere", labels={"ours": "no"})
    for name in machines:
        cordon(cluster, name, True)
    with Proxy(cluster) as proxy:
        afflux = schedulers.start(proxy.kubeconfig(schedulers.kubeconfig))
        waiting = numbered_pods(60, nodeSelector={"ours": "yes"})
        cluster.create_pods(waiting)
        afflux.wait_until(lambda: afflux.metric("scheduler_pending_pods") == 60, "all to wait")
        proxy.inject(ErrorResponse(503), watch_requests("pods"))
        proxy.inject(ErrorResponse(503), list_requests("pods"))
        proxy.cut_open_watches()
        deleted, recreated, taken = waiting[:20], waiting[20:40], waiting[40:]
        for pod in [*deleted, *recreated]:
            delete_pod(cluster, f"default/{pod['metadata']['name']}")
        cluster.create_pods(recreated)
        for pod in taken:
            cluster.bind(pod["metadata"]["name"], elsewhere)
        for name in machines:
            cordon(cluster, name, False)
        afflux.wait_until(lambda: len(refused(cluster)) >= 60, "60 refusals")
        # Long enough for thousands of binds.
        time.sleep(2)
        assert len(refused(cluster)) <= 2 * 60
        proxy.clear_faults()
        wait_bound(cluster, names([*recreated, *taken]))
        verdict.assert_sound(cluster, names([*recreated, *taken]))
        assert len(refused(cluster)) <= 2 * 60
        afflux.assert_healthy()


def cordon(cluster: ControlPlane, name: str, closed: bool) -> None:
    """Cordon or uncordon the node."""
    cluster.api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": closed}})


def refused(cluster: ControlPlane) -> list[verdict.Binding]:
    """The bindings that the API server refused."""
    return [each for each in verdict.bindings(cluster) if not each.bound]


def requires(app: str, key: str) -> Manifest:
    """Required affinity to pods with this label."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


@pytest.mark.parametrize(
    "fault",
    [
        ErrorResponse(403, "Forbidden"),
        NoResponse(done=True),
        NoResponse(done=False),
        ErrorResponse(500, "InternalError", done=True),
    ],
    ids=["refused", "done without answer", "lost", "done, but said to have failed"],
)
def test_pods_are_never_bound_before_the_pod_that_they_require(
    cluster: ControlPlane, schedulers: Schedulers, fault: Fault
) -> None:
    """Services that must be in the zone of their database, and pairs on one node."""
    zone, host = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
    zone_of = {
        name: letter
        for letter in "abc"
        for name in create_nodes(
            cluster, NODES // 3, prefix=f"zone-{letter}", labels={zone: letter}
        )
    }
    services, replicas, pairs = 5, 8, 5
    pods = numbered_pods(20, "other")
    for number in range(services):
        app = f"db-{number}"
        near = requires(app, zone)
        pods += numbered_pods(replicas, f"web-{number}", affinity=near)
        pods.append(pod(app, labels={"app": app}))
    for number in range(pairs):
        left, right = f"left-{number}", f"right-{number}"
        pods.append(pod(left, labels={"app": left}, affinity=requires(right, host)))
        pods.append(pod(right, labels={"app": right}, affinity=requires(left, host)))
    with Proxy(cluster) as proxy:
        afflux = schedulers.start(proxy.kubeconfig(schedulers.kubeconfig))
        rule = proxy.inject(
            fault, lambda info: bind_requests(info) and "/db-" in info.path, times=2 * services
        )
        burst = Burst(cluster, pods)
        afflux.wait_until(lambda: rule.hits >= services, "faults")
        proxy.clear_faults()
        burst.wait_all()
        verdict.assert_sound(cluster, burst.names)
        afflux.assert_healthy()
    bound = [each for each in verdict.bindings(cluster) if each.bound]
    turn = {each.pod: position for position, each in enumerate(bound)}
    node = {each.pod: each.node for each in bound}
    for number in range(services):
        database = f"db-{number}"
        for replica in (f"web-{number}-{each:03d}" for each in range(replicas)):
            assert turn[database] < turn[replica]
            assert zone_of[node[database]] == zone_of[node[replica]]
    for number in range(pairs):
        assert node[f"left-{number}"] == node[f"right-{number}"]
