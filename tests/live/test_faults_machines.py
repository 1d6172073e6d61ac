"""Machines are deleted, cordoned or not ready while binds to them are queued."""

import time
from datetime import datetime

import pytest
from pod_bursts import NODES, PODS_PER_NODE, Burst, create_nodes, numbered_pods
from scheduler_process import Schedulers
from testbed import ControlPlane, verdict
from testbed.api import STRATEGIC

# Stories of 5 to 30 s each.
pytestmark = pytest.mark.long

SLOTS = NODES * PODS_PER_NODE
# The documented time is one second; the rest is for a busy machine.
GRACE_SECONDS = 3.0


def test_no_binds_to_machines_that_are_deleted_cordoned_or_not_ready(
    cluster: ControlPlane, schedulers: Schedulers
) -> None:
    """Queued binds to a machine are dropped when the machine stops taking pods."""
    create_nodes(cluster)
    gone, cordoned, lame = create_nodes(cluster, 3, prefix="victim")
    # Slow on purpose: each pod costs a bind and an event.
    afflux = schedulers.start(binding={"parallelism": 2}, clientConnection={"qps": 40, "burst": 20})
    burst = Burst(cluster, numbered_pods(SLOTS), per_second=1000)
    burst.wait_bound(SLOTS // 8)
    cluster.api.delete(f"/api/v1/nodes/{gone}")
    cluster.api.patch(f"/api/v1/nodes/{cordoned}", {"spec": {"unschedulable": True}})
    unready = {"type": "Ready", "status": "False", "reason": "KubeletNotReady"}
    cluster.api.patch(
        f"/api/v1/nodes/{lame}/status", {"status": {"conditions": [unready]}}, STRATEGIC
    )
    changed = time.time()
    burst.wait_all()
    sound = verdict.assert_sound(cluster, burst.names)
    late = [
        each
        for each in sound.bindings
        if each.node in {gone, cordoned, lame}
        and datetime.fromisoformat(each.at).timestamp() > changed + GRACE_SECONDS
    ]
    assert late == []
    ends = [datetime.fromisoformat(each.at).timestamp() for each in sound.bindings]
    assert max(ends) > changed + GRACE_SECONDS, "the burst was over before anything could be seen"
    afflux.assert_healthy()
