"""Binds that are refused, that nobody answers, that somebody else was faster with."""

import time

import pytest
from bursts import NODES, PER_NODE, Burst, create_nodes, delete_pod, gang, many, names, wait_bound
from injecting import Answer, Delay, Fault, Proxy, Swallow, binds, lists, watches
from scheduler import Schedulers
from testbed import ControlPlane, Manifest, verdict

SLOTS = NODES * PER_NODE

FAULTS: dict[str, list[Fault]] = {
    "refused": [
        Answer(409, "Conflict"),
        Answer(429, "TooManyRequests", retry_after_seconds=1),
        Answer(500, "InternalError"),
        Answer(503, "ServiceUnavailable"),
    ],
    "done, but said to have failed": [
        Answer(500, "InternalError", done=True),
        Answer(504, done=True),
    ],
    "connections cut": [Swallow(done=True), Swallow(done=False)],
    "no answer": [
        Swallow(done=True, hang=True),
        Swallow(done=False, hang=True),
        # The first one arrives when it has long been given up.
        Delay(seconds=3),
    ],
}


@pytest.mark.parametrize("kind", FAULTS)
def test_binds_fail(cluster: ControlPlane, schedulers: Schedulers, kind: str) -> None:
    """A good part of them; gangs among them, of which some members fail and some do not."""
    create_nodes(cluster)
    with Proxy(cluster) as proxy:
        afflux = schedulers.start(proxy.kubeconfig(schedulers.kubeconfig))
        rules = [proxy.inject(fault, binds, share=0.15) for fault in FAULTS[kind]]
        gangs = [pod for number in range(6) for pod in gang(f"gang-{number}", 8)]
        burst = Burst(cluster, [*gangs, *many(SLOTS - len(gangs))])
        burst.wait_bound(SLOTS * 9 // 10)
        assert all(rule.hits for rule in rules)
        # Of so many pods one may be refused again and again by chance, and then waits for long.
        proxy.calm()
        burst.wait_all()
        verdict.assert_sound(cluster, burst.names)
        afflux.assert_well()


@pytest.mark.parametrize(
    "fault", [Swallow(done=False, hang=True), Answer(500, "InternalError")], ids=["hang", "fail"]
)
def test_binds_that_never_succeed_are_in_nobodys_way(
    cluster: ControlPlane, schedulers: Schedulers, fault: Fault
) -> None:
    """As if an admission webhook of one team were broken: more binds fail than there are hands."""
    create_nodes(cluster, 10)
    with Proxy(cluster) as proxy:
        by_proxy = proxy.kubeconfig(schedulers.kubeconfig)
        afflux = schedulers.start(by_proxy, binding={"parallelism": 4})
        rule = proxy.inject(fault, lambda call: binds(call) and "/poison-" in call.path)
        poison = many(16, "poison")
        cluster.create_pods(poison)
        afflux.wait_until(lambda: rule.hits >= 4, "the first binds to fail")
        burst = Burst(cluster, many(10 * PER_NODE - len(poison)))
        burst.wait_all()
        assert all("nodeName" not in pod["spec"] for pod in cluster.pods() if is_poison(pod))
        proxy.calm()
        wait_bound(cluster, names(poison))
        verdict.assert_sound(cluster, [*burst.names, *names(poison)])
        afflux.assert_well()


def is_poison(pod: Manifest) -> bool:
    return pod["metadata"]["name"].startswith("poison-")


def test_binds_of_pods_that_are_not_there_any_more(
    cluster: ControlPlane, schedulers: Schedulers
) -> None:
    """The watch is behind: what was deleted, made anew or bound by others looks as if it waited.

    Each is tried, refused, and not tried again and again.
    """
    machines = create_nodes(cluster, 10, labels={"ours": "yes"})
    (elsewhere,) = cluster.create_nodes(1, prefix="elsewhere", labels={"ours": "no"})
    for name in machines:
        cordon(cluster, name, True)
    with Proxy(cluster) as proxy:
        afflux = schedulers.start(proxy.kubeconfig(schedulers.kubeconfig))
        waiting = many(60, nodeSelector={"ours": "yes"})
        cluster.create_pods(waiting)
        afflux.wait_until(lambda: afflux.metric("scheduler_pending_pods") == 60, "all to wait")
        proxy.inject(Answer(503), watches("pods"))
        proxy.inject(Answer(503), lists("pods"))
        proxy.cut_watches()
        deleted, anew, taken = waiting[:20], waiting[20:40], waiting[40:]
        for pod in [*deleted, *anew]:
            delete_pod(cluster, f"default/{pod['metadata']['name']}")
        cluster.create_pods(anew)
        for pod in taken:
            cluster.bind(pod["metadata"]["name"], elsewhere)
        for name in machines:
            cordon(cluster, name, False)
        afflux.wait_until(lambda: len(refused(cluster)) >= 60, "60 refusals")
        # Long enough for thousands of binds.
        time.sleep(2)
        assert len(refused(cluster)) <= 2 * 60
        proxy.calm()
        wait_bound(cluster, names([*anew, *taken]))
        verdict.assert_sound(cluster, names([*anew, *taken]))
        assert len(refused(cluster)) <= 2 * 60
        afflux.assert_well()


def cordon(cluster: ControlPlane, name: str, closed: bool) -> None:
    """Nobody new, or everybody again."""
    cluster.api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": closed}})


def refused(cluster: ControlPlane) -> list[verdict.Binding]:
    """Binds that the API server refused."""
    return [each for each in verdict.bindings(cluster) if not each.bound]
