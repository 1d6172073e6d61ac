"""Machines leave, are cordoned, or are not ready, while pods are on their way to them."""

import time
from datetime import datetime

from bursts import NODES, PER_NODE, Burst, create_nodes, many
from scheduler import Schedulers
from testbed import ControlPlane, verdict
from testbed.api import STRATEGIC

SLOTS = NODES * PER_NODE
# The promise is a second. What is above it is for a machine that has other things to do.
GRACE_SECONDS = 3.0


def test_machines_that_may_take_no_more(cluster: ControlPlane, schedulers: Schedulers) -> None:
    """Many binds wait to be sent when the machines change: those must not be sent any more."""
    create_nodes(cluster)
    gone, cordoned, lame = create_nodes(cluster, 3, prefix="victim")
    # Slow on purpose. Each pod costs a bind and an event.
    afflux = schedulers.start(binding={"parallelism": 2}, clientConnection={"qps": 40, "burst": 20})
    burst = Burst(cluster, many(SLOTS), per_second=1000)
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
    afflux.assert_well()
