"""A volume that several pods of a node share is counted once, after any updates."""

from random import Random

import pytest
from manifests import inventory, node
from storage_objects import claim, claiming, csi_node, decoded, storage, typed, volume

from afflux.kube.volumes.attachments import Attachments
from afflux.model.implied_resources import attachment_resource, capacity_of
from afflux.model.reachability import driver_label

DISK = attachment_resource("disk.example.com")


@pytest.mark.parametrize("seed", range(60))
def test_the_counts_of_pods_add_up_to_the_distinct_volumes_of_their_node(seed: int) -> None:
    rng = Random(f"attach {seed}")
    found = Attachments()
    running: dict[str, tuple[str, set[tuple[str, str]]]] = {}
    counts: dict[str, tuple] = {}
    for _ in range(60):
        pod = f"p{rng.randrange(6)}"
        if rng.random() < 0.3:
            changed = found.leave(pod)
            running.pop(pod, None)
        else:
            handles = {(rng.choice("xy"), str(rng.randrange(4))) for _ in range(rng.randrange(4))}
            node_name = rng.choice(("n1", "n2"))
            changed = found.use(pod, node_name, handles)
            running[pod] = (node_name, handles)
        before, counts = counts, {name: found.of(name) for name in (f"p{n}" for n in range(6))}
        assert {n for n in counts if counts[n] != before.get(n, ())} <= changed
        for where in ("n1", "n2"):
            for driver in "xy":
                used = {
                    handle
                    for at, handles in running.values()
                    if at == where
                    for handle in handles
                    if handle[0] == driver
                }
                counted = sum(
                    dict(counts[name]).get(attachment_resource(driver), 0)
                    for name, (at, _) in running.items()
                    if at == where
                )
                assert counted == len(used)
    for name in counts.keys() - running.keys():
        assert counts[name] == ()


def test_the_next_user_counts_a_volume_when_the_first_is_removed() -> None:
    others = [claim("c", volume="v"), volume("v")]
    first, second = claiming("p", "c", nodeName="n1"), claiming("q", "c", nodeName="n1")
    found = storage(*others, first, second)
    assert [dict(found.needs(typed(pod)).attached) for pod in (first, second)] == [{DISK: 1}, {}]
    assert found.remove(typed(first)) == {"uid-q"}
    assert dict(found.needs(typed(second)).attached) == {DISK: 1}
    assert dict(decoded(first, *others, second).shape.requests).get(DISK) is None
    waiting = claiming("r", "c")
    assert dict(decoded(waiting, *others, second).shape.requests)[DISK] == 1


def test_attach_limits_come_from_the_csi_node() -> None:
    stated = csi_node("n1", disk_example_com=2, none_example_com=0, any_example_com=None)
    first, second = inventory(node("n1"), node("n2"), stated).machines
    limits = {"disk.example.com": 2, "none.example.com": 0, "any.example.com": 2**31}
    for driver, limit in limits.items():
        assert capacity_of(first.capacity, attachment_resource(driver)) == limit
        assert capacity_of(second.capacity, attachment_resource(driver)) == 2**31
        assert driver_label(driver) in first.labels
        assert driver_label(driver) not in second.labels
