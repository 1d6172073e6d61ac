"""The API server dies, cuts watches or loses its history during a burst, for real or by a proxy.
Afterwards every pod has one place, and no place has two pods.
"""

import pytest
from fault_injection import (
    EXPIRED,
    CutWatch,
    Delay,
    ErrorResponse,
    NoResponse,
    Proxy,
    all_requests,
    list_requests,
    watch_requests,
)
from pod_bursts import NODES, PODS_PER_NODE, Burst, create_nodes, delete_pod, numbered_pods
from scheduler_process import Scheduler, Schedulers
from testbed import ControlPlane, verdict

# Stories of 5 to 30 s each.
pytestmark = pytest.mark.long

SLOTS = NODES * PODS_PER_NODE


@pytest.mark.parametrize("part", ["kube-apiserver", "etcd"])
def test_every_pod_is_bound_after_the_server_was_killed(
    cluster: ControlPlane, schedulers: Schedulers, part: str
) -> None:
    create_nodes(cluster)
    afflux = schedulers.start()
    burst = Burst(cluster, numbered_pods(SLOTS))
    burst.wait_bound(SLOTS // 4)
    cluster.restart(part)
    burst.wait_all()
    verdict.assert_sound(cluster, burst.names)
    afflux.assert_healthy()


def test_every_pod_is_bound_although_watches_are_cut_repeatedly(
    cluster: ControlPlane, schedulers: Schedulers
) -> None:
    create_nodes(cluster)
    with Proxy(cluster) as proxy:
        rule = proxy.inject(CutWatch(lines=20), watch_requests("pods", "nodes"), share=0.9)
        afflux = schedulers.start(proxy.kubeconfig(schedulers.kubeconfig))
        burst = Burst(cluster, numbered_pods(SLOTS))
        for share in (0.2, 0.4, 0.6):
            burst.wait_bound(int(share * SLOTS))
            proxy.cut_open_watches()
        burst.wait_all()
        assert rule.hits > 5
        verdict.assert_sound(cluster, burst.names)
        afflux.assert_healthy()


def test_the_process_starts_while_requests_fail(
    cluster: ControlPlane, schedulers: Schedulers
) -> None:
    """Half of all requests fail at first."""
    create_nodes(cluster, 3)
    with Proxy(cluster) as proxy:
        rules = [
            proxy.inject(fault, all_requests, share=0.5, times=12)
            for fault in (ErrorResponse(500), ErrorResponse(503), NoResponse(done=False))
        ]
        # The kinds of PodGroups are looked for at the start.
        discovery = proxy.inject(
            ErrorResponse(500), lambda info: info.path.startswith("/apis/sched"), times=2
        )
        burst = Burst(cluster, numbered_pods(3 * PODS_PER_NODE))
        by_proxy = proxy.kubeconfig(schedulers.kubeconfig)
        afflux = schedulers.start(by_proxy)
        burst.wait_all()
        assert all(rule.hits for rule in [*rules, discovery])
        verdict.assert_sound(cluster, burst.names)
        afflux.assert_healthy()


def test_lists_may_take_longer_than_the_bind_timeout(
    cluster: ControlPlane, schedulers: Schedulers
) -> None:
    """In a large cluster a short bind timeout must not prevent the start."""
    create_nodes(cluster, 3)
    with Proxy(cluster) as proxy:
        slow = proxy.inject(Delay(seconds=3), list_requests("pods", "nodes"))
        by_proxy = proxy.kubeconfig(schedulers.kubeconfig)
        afflux = schedulers.start(by_proxy, binding={"timeout": "1s"})
        assert slow.hits == 2
        burst = Burst(cluster, numbered_pods(3 * PODS_PER_NODE))
        burst.wait_all()
        verdict.assert_sound(cluster, burst.names)
        afflux.assert_healthy()


@pytest.mark.parametrize("way", ["status", "event", "for real"])
def test_an_expired_resource_version_leads_to_a_relist(
    cluster: ControlPlane, schedulers: Schedulers, way: str
) -> None:
    """Much changes while watches and lists fail; then the last resource version is refused."""
    machines = create_nodes(cluster)
    cordoned, busy = machines[:5], machines[5:]
    with Proxy(cluster) as proxy:
        by_proxy = proxy.kubeconfig(schedulers.kubeconfig)
        afflux = schedulers.start(by_proxy)
        before = Burst(cluster, numbered_pods(SLOTS // 2, "before"))
        before.wait_all()

        before_blindness = {kind: relists(afflux, kind) for kind in ("pod", "node")}
        proxy.inject(ErrorResponse(503), watch_requests("pods", "nodes"))
        proxy.inject(ErrorResponse(503), list_requests("pods", "nodes"))
        proxy.cut_open_watches()
        gone = before.names[: SLOTS // 8]
        cluster.api.each(lambda name: delete_pod(cluster, name), gone)
        for name in cordoned:
            cluster.api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
        full, free = create_nodes(cluster, 2, prefix="late")
        theirs = numbered_pods(PODS_PER_NODE, "theirs", scheduler="another")
        cluster.create_pods(theirs)
        for pod in theirs:
            cluster.bind(pod["metadata"]["name"], full)
        if way == "for real":
            # A restarted server has no history.
            cluster.restart("kube-apiserver")
        proxy.clear_faults()
        if way != "for real":
            fault = EXPIRED if way == "event" else ErrorResponse(410, "Expired")
            for kind in ("pods", "nodes"):
                proxy.inject(fault, watch_requests(kind), times=1)
        for kind, count in before_blindness.items():
            afflux.wait_until(
                lambda kind=kind, count=count: relists(afflux, kind) > count,
                f"a new list of {kind}s",
            )
        assert proxy.expired or way != "for real"

        on_busy = [pod for pod in cluster.pods() if pod["spec"].get("nodeName") in busy]
        after = Burst(
            cluster, numbered_pods((len(busy) + 1) * PODS_PER_NODE - len(on_busy), "after")
        )
        after.wait_all()
        expected = [*set(before.names).difference(gone), *after.names]
        sound = verdict.assert_sound(cluster, expected)
        late = {each.node for each in sound.bindings if f"default/{each.pod}" in after.names}
        assert late.isdisjoint({*cordoned, full})
        assert free in late
        afflux.assert_healthy()


def relists(afflux: Scheduler, kind: str) -> float:
    """The number of relists of this kind."""
    return afflux.metric("afflux_relists_total", f'kind="{kind}"')
