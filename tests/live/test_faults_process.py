"""Our own process is killed, stopped or cut off in mid-burst; others take over."""

import signal
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from bursts import NODES, PER_NODE, Burst, create_nodes, gang, many
from injecting import Proxy, Swallow, leases
from scheduler import SHORT, Scheduler, Schedulers
from testbed import ControlPlane, verdict

SLOTS = NODES * PER_NODE
KILLS = 4


def test_it_is_killed_in_mid_bind_several_times(
    cluster: ControlPlane, schedulers: Schedulers
) -> None:
    """Gangs too: what is left of a half-bound one goes on after the restart."""
    create_nodes(cluster)
    afflux = schedulers.start(leaderElection={"leaderElect": False})
    gangs = [pod for number in range(8) for pod in gang(f"gang-{number}", 8)]
    burst = Burst(cluster, [*gangs, *many(SLOTS - len(gangs))], per_second=40)
    for _ in range(KILLS):
        burst.wait_bound(bound(cluster) + 1)
        afflux.kill()
        afflux.start()
    burst.wait_all()
    verdict.assert_sound(cluster, burst.names)
    afflux.assert_well()


def test_the_leader_is_killed(cluster: ControlPlane, schedulers: Schedulers) -> None:
    create_nodes(cluster)
    leader, other = two(schedulers, SHORT)
    burst = Burst(cluster, many(SLOTS), per_second=60)
    burst.wait_bound(SLOTS // 4)
    leader.kill()
    burst.wait_all()
    assert schedulers.leader() is other
    verdict.assert_sound(cluster, burst.names)
    other.assert_well()


def test_the_leader_stops_and_hands_over(cluster: ControlPlane, schedulers: Schedulers) -> None:
    """Nobody waits for the lease to expire: that would take longer than this test may."""
    create_nodes(cluster)
    leader, other = two(schedulers, {})
    burst = Burst(cluster, many(SLOTS), per_second=60)
    burst.wait_bound(SLOTS // 4)
    assert leader.stop() == 0
    burst.wait_all()
    assert schedulers.leader() is other
    verdict.assert_sound(cluster, burst.names)
    other.assert_well()


def test_the_leader_sleeps_too_long(cluster: ControlPlane, schedulers: Schedulers) -> None:
    """Suspended, as a virtual machine is. When it wakes up, another one leads."""
    create_nodes(cluster)
    leader, other = two(schedulers, SHORT)
    burst = Burst(cluster, many(SLOTS), per_second=40)
    burst.wait_bound(SLOTS // 4)
    leader.signal(signal.SIGSTOP)
    other.wait_until(lambda: schedulers.leader() is other, "the other to lead")
    burst.wait_bound(bound(cluster) + 1)
    leader.signal(signal.SIGCONT)
    assert leader.wait_ended() == 1
    burst.wait_all()
    verdict.assert_sound(cluster, burst.names)
    other.assert_well()


def test_the_leader_cannot_renew(cluster: ControlPlane, schedulers: Schedulers) -> None:
    """Its binds would still come through; it has to stop before the other begins."""
    create_nodes(cluster)
    with Proxy(cluster) as proxy:
        leader, other = two(schedulers, SHORT, proxy.kubeconfig(schedulers.kubeconfig))
        burst = Burst(cluster, many(SLOTS), per_second=30)
        burst.wait_bound(SLOTS // 8)
        proxy.inject(Swallow(done=False, hang=True), leases)
        other.wait_until(lambda: schedulers.leader() is other, "the other to lead")
        acquired = datetime.fromisoformat(schedulers.lease()["acquireTime"]).timestamp()
        assert leader.wait_ended() == 1
        assert proxy.bound_at[-1] < acquired
        burst.wait_all()
        verdict.assert_sound(cluster, burst.names)
        other.assert_well()


def test_the_leader_is_cut_off(cluster: ControlPlane, schedulers: Schedulers) -> None:
    create_nodes(cluster)
    with Proxy(cluster) as proxy:
        leader, other = two(schedulers, SHORT, proxy.kubeconfig(schedulers.kubeconfig))
        burst = Burst(cluster, many(SLOTS), per_second=60)
        burst.wait_bound(SLOTS // 4)
        proxy.silence()
        silent_from = time.monotonic()
        assert leader.wait_ended() == 1
        assert time.monotonic() - silent_from < 30
        burst.wait_all()
        assert schedulers.leader() is other
        verdict.assert_sound(cluster, burst.names)
        other.assert_well()


def two(
    schedulers: Schedulers, times: Mapping[str, str], leaders_way: Path | None = None
) -> tuple[Scheduler, Scheduler]:
    """A leader, and one that waits."""
    leader = schedulers.start(leaders_way, leaderElection=times)
    leader.wait_until(lambda: schedulers.leader() is leader, "the first to lead")
    return leader, schedulers.start(leaderElection=times)


def bound(cluster: ControlPlane) -> int:
    """How many pods have been bound."""
    return sum(each.bound for each in verdict.bindings(cluster))
