"""The API server goes away, cuts the watches, forgets what it said: in mid-burst, for real or by a
proxy. Afterwards every pod has one place, and no place has two pods.
"""

import time

import pytest
from bursts import NODES, PER_NODE, Burst, create_nodes, delete_pod, many
from injecting import GONE, Answer, Cut, Delay, Proxy, Swallow, everything, lists, watches
from scheduler import Scheduler, Schedulers
from testbed import ControlPlane, verdict

SLOTS = NODES * PER_NODE


@pytest.mark.parametrize("part", ["kube-apiserver", "etcd"])
def test_the_server_is_killed(cluster: ControlPlane, schedulers: Schedulers, part: str) -> None:
    create_nodes(cluster)
    afflux = schedulers.start()
    burst = Burst(cluster, many(SLOTS))
    burst.wait_bound(SLOTS // 4)
    cluster.restart(part)
    burst.wait_all()
    verdict.assert_sound(cluster, burst.names)
    afflux.assert_well()


def test_watches_are_cut_again_and_again(cluster: ControlPlane, schedulers: Schedulers) -> None:
    create_nodes(cluster)
    with Proxy(cluster) as proxy:
        rule = proxy.inject(Cut(lines=20), watches("pods", "nodes"), share=0.9)
        afflux = schedulers.start(proxy.kubeconfig(schedulers.kubeconfig))
        burst = Burst(cluster, many(SLOTS))
        for share in (0.2, 0.4, 0.6):
            burst.wait_bound(int(share * SLOTS))
            proxy.cut_watches()
        burst.wait_all()
        assert rule.hits > 5
        verdict.assert_sound(cluster, burst.names)
        afflux.assert_well()


def test_it_starts_while_the_server_is_in_trouble(
    cluster: ControlPlane, schedulers: Schedulers
) -> None:
    """Half of what it asks for fails at first, whatever it is."""
    create_nodes(cluster, 3)
    with Proxy(cluster) as proxy:
        rules = [
            proxy.inject(fault, everything, share=0.5, times=12)
            for fault in (Answer(500), Answer(503), Swallow(done=False))
        ]
        # What makes groups is looked for once, at the start.
        discovery = proxy.inject(
            Answer(500), lambda call: call.path.startswith("/apis/sched"), times=2
        )
        burst = Burst(cluster, many(3 * PER_NODE))
        began = time.monotonic()
        by_proxy = proxy.kubeconfig(schedulers.kubeconfig)
        afflux = schedulers.start(by_proxy)
        burst.wait_all()
        assert time.monotonic() - began < 45
        assert all(rule.hits for rule in [*rules, discovery])
        verdict.assert_sound(cluster, burst.names)
        afflux.assert_well()


def test_lists_take_longer_than_a_bind_may(cluster: ControlPlane, schedulers: Schedulers) -> None:
    """As in a large cluster, where an impatient configuration must not mean that nothing starts."""
    create_nodes(cluster, 3)
    with Proxy(cluster) as proxy:
        slow = proxy.inject(Delay(seconds=3), lists("pods", "nodes"))
        by_proxy = proxy.kubeconfig(schedulers.kubeconfig)
        afflux = schedulers.start(by_proxy, binding={"timeout": "1s"})
        assert slow.hits == 2
        burst = Burst(cluster, many(3 * PER_NODE))
        burst.wait_all()
        verdict.assert_sound(cluster, burst.names)
        afflux.assert_well()


@pytest.mark.parametrize("way", ["status", "event", "for real"])
def test_a_version_is_too_old(cluster: ControlPlane, schedulers: Schedulers, way: str) -> None:
    """While nothing can be watched or listed, much changes; then the last version is refused."""
    machines = create_nodes(cluster)
    cordoned, busy = machines[:5], machines[5:]
    with Proxy(cluster) as proxy:
        by_proxy = proxy.kubeconfig(schedulers.kubeconfig)
        afflux = schedulers.start(by_proxy)
        before = Burst(cluster, many(SLOTS // 2, "before"))
        before.wait_all()

        before_blindness = {kind: relists(afflux, kind) for kind in ("pod", "node")}
        proxy.inject(Answer(503), watches("pods", "nodes"))
        proxy.inject(Answer(503), lists("pods", "nodes"))
        proxy.cut_watches()
        gone = before.names[: SLOTS // 8]
        cluster.api.each(lambda name: delete_pod(cluster, name), gone)
        for name in cordoned:
            cluster.api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
        full, free = create_nodes(cluster, 2, prefix="late")
        theirs = many(PER_NODE, "theirs", scheduler="somebody")
        cluster.create_pods(theirs)
        for pod in theirs:
            cluster.bind(pod["metadata"]["name"], full)
        if way == "for real":
            # A new server knows nothing of what was before it.
            cluster.restart("kube-apiserver")
        proxy.calm()
        if way != "for real":
            fault = GONE if way == "event" else Answer(410, "Expired")
            for kind in ("pods", "nodes"):
                proxy.inject(fault, watches(kind), times=1)
        for kind, count in before_blindness.items():
            afflux.wait_until(
                lambda kind=kind, count=count: relists(afflux, kind) > count,
                f"a new list of {kind}s",
            )
        assert proxy.expired or way != "for real"

        on_busy = [pod for pod in cluster.pods() if pod["spec"].get("nodeName") in busy]
        after = Burst(cluster, many((len(busy) + 1) * PER_NODE - len(on_busy), "after"))
        after.wait_all()
        expected = [*set(before.names).difference(gone), *after.names]
        sound = verdict.assert_sound(cluster, expected)
        late = {each.node for each in sound.bindings if f"default/{each.pod}" in after.names}
        assert late.isdisjoint({*cordoned, full})
        assert free in late
        afflux.assert_well()


def relists(afflux: Scheduler, kind: str) -> float:
    """How often it has listed this kind after the first time."""
    return afflux.metric("afflux_relists_total", f'kind="{kind}"')
