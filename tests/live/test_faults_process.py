"""The leader is killed, suspended or cut off during a burst, and another replica takes over."""

import signal
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import pytest
from fault_injection import NoResponse, Proxy, lease_requests
from pod_bursts import NODES, PODS_PER_NODE, Burst, create_nodes, gang, numbered_pods
from scheduler_process import SHORT_LEASE, Scheduler, Schedulers
from testbed import ControlPlane, verdict

# Stories of 5 to 30 s each.
pytestmark = pytest.mark.long

SLOTS = NODES * PODS_PER_NODE
KILLS = 4


def test_a_process_that_is_killed_several_times_binds_every_pod(
    cluster: ControlPlane, schedulers: Schedulers
) -> None:
    """Gangs too: the rest of a half-bound gang is bound after the restart."""
    create_nodes(cluster)
    afflux = schedulers.start(leaderElection={"leaderElect": False})
    gangs = [pod for number in range(8) for pod in gang(f"gang-{number}", 8)]
    burst = Burst(cluster, [*gangs, *numbered_pods(SLOTS - len(gangs))], per_second=40)
    for _ in range(KILLS):
        burst.wait_bound(bound(cluster) + 1)
        afflux.kill()
        afflux.start()
    burst.wait_all()
    verdict.assert_sound(cluster, burst.names)
    afflux.assert_healthy()


def test_another_replica_takes_over_from_a_killed_leader(
    cluster: ControlPlane, schedulers: Schedulers
) -> None:
    create_nodes(cluster)
    leader, other = two(schedulers, SHORT_LEASE)
    burst = Burst(cluster, numbered_pods(SLOTS), per_second=60)
    burst.wait_bound(SLOTS // 4)
    leader.kill()
    burst.wait_all()
    assert schedulers.leader() is other
    verdict.assert_sound(cluster, burst.names)
    other.assert_healthy()


def test_a_stopping_leader_releases_its_lease(
    cluster: ControlPlane, schedulers: Schedulers
) -> None:
    """The lease would expire only after the timeout of this test."""
    create_nodes(cluster)
    leader, other = two(schedulers, {})
    burst = Burst(cluster, numbered_pods(SLOTS), per_second=60)
    burst.wait_bound(SLOTS // 4)
    assert leader.stop() == 0
    burst.wait_all()
    assert schedulers.leader() is other
    verdict.assert_sound(cluster, burst.names)
    other.assert_healthy()


def test_a_suspended_leader_does_not_act_after_its_term(
    cluster: ControlPlane, schedulers: Schedulers
) -> None:
    """Suspended as a virtual machine may be; when it resumes, another replica leads."""
    create_nodes(cluster)
    leader, other = two(schedulers, SHORT_LEASE)
    burst = Burst(cluster, numbered_pods(SLOTS), per_second=40)
    burst.wait_bound(SLOTS // 4)
    leader.signal(signal.SIGSTOP)
    other.wait_until(lambda: schedulers.leader() is other, "the other to lead")
    burst.wait_bound(bound(cluster) + 1)
    leader.signal(signal.SIGCONT)
    assert leader.wait_ended() == 1
    burst.wait_all()
    verdict.assert_sound(cluster, burst.names)
    other.assert_healthy()


def test_a_leader_that_cannot_renew_stops_before_the_next_begins(
    cluster: ControlPlane, schedulers: Schedulers
) -> None:
    """Its bindings would still succeed, so it has to stop first."""
    create_nodes(cluster)
    with Proxy(cluster) as proxy:
        leader, other = two(schedulers, SHORT_LEASE, proxy.kubeconfig(schedulers.kubeconfig))
        burst = Burst(cluster, numbered_pods(SLOTS), per_second=30)
        burst.wait_bound(SLOTS // 8)
        proxy.inject(NoResponse(done=False, hang=True), lease_requests)
        other.wait_until(lambda: schedulers.leader() is other, "the other to lead")
        acquired = datetime.fromisoformat(schedulers.lease()["acquireTime"]).timestamp()
        assert leader.wait_ended() == 1
        assert proxy.bound_at[-1] < acquired
        burst.wait_all()
        verdict.assert_sound(cluster, burst.names)
        other.assert_healthy()


def test_another_replica_takes_over_from_a_leader_that_is_cut_off(
    cluster: ControlPlane, schedulers: Schedulers
) -> None:
    create_nodes(cluster)
    with Proxy(cluster) as proxy:
        leader, other = two(schedulers, SHORT_LEASE, proxy.kubeconfig(schedulers.kubeconfig))
        burst = Burst(cluster, numbered_pods(SLOTS), per_second=60)
        burst.wait_bound(SLOTS // 4)
        proxy.block_traffic()
        assert leader.wait_ended() == 1
        burst.wait_all()
        assert schedulers.leader() is other
        verdict.assert_sound(cluster, burst.names)
        other.assert_healthy()


def two(
    schedulers: Schedulers, times: Mapping[str, str], leaders_way: Path | None = None
) -> tuple[Scheduler, Scheduler]:
    """A leader and a replica that waits."""
    leader = schedulers.start(leaders_way, leaderElection=times)
    leader.wait_until(lambda: schedulers.leader() is leader, "the first to lead")
    return leader, schedulers.start(leaderElection=times)


def bound(cluster: ControlPlane) -> int:
    """The number of bound pods."""
    return sum(each.bound for each in verdict.bindings(cluster))
