"""Binds that are refused, that nobody answers, that somebody else was faster with."""

import pytest
from bursts import NODES, PER_NODE, Burst, create_nodes, gang, many
from injecting import Answer, Fault, Proxy, Swallow, binds
from scheduler import Schedulers
from testbed import ControlPlane, verdict

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
    "no answer": [Swallow(done=True, hang=True), Swallow(done=False, hang=True)],
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
        burst.wait_all()
        assert all(rule.hits for rule in rules)
        verdict.assert_sound(cluster, burst.names)
        afflux.assert_well()
