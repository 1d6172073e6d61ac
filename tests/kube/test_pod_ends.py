"""How and when a pod ended, by its last version."""

import itertools
import json
from typing import Any

import msgspec
import pytest

from afflux.kube import objects
from afflux.kube.pod_ends import essence, finished_seconds, how_ended

# The 31st of January 2026, 8 o'clock, and seconds after it.
START = 1_769_846_400.0


def time(seconds: int) -> str:
    return f"2026-01-31T08:{seconds // 60:02}:{seconds % 60:02}Z"


def deletion(requested: int, grace: int) -> dict[str, Any]:
    """The metadata of a pod whose deletion was requested then."""
    return {"deletionTimestamp": time(requested + grace), "deletionGracePeriodSeconds": grace}


def containers(*finished: int | None) -> list[dict[str, Any]]:
    """The statuses of containers that ended then; None for one that runs."""
    return [
        {
            "name": f"c{number}",
            "state": {"running": {"startedAt": time(0)}}
            if at is None
            else {"terminated": {"exitCode": 0, "finishedAt": time(at)}},
        }
        for number, at in enumerate(finished)
    ]


def pod(
    phase: str | None,
    reason: str | None = None,
    *,
    metadata: dict[str, Any] | None = None,
    node: str | None = "n",
    **status: Any,
) -> objects.Pod:
    found = {
        "metadata": {
            "name": "p",
            "namespace": "shop",
            "uid": "u",
            "labels": {"app": "shop"},
            **(metadata or {}),
        },
        "spec": {"nodeName": node, "schedulerName": "afflux", "containers": [{"name": "c0"}]},
        "status": {"phase": phase, "reason": reason, "startTime": time(0), **status},
    }
    return msgspec.json.decode(json.dumps(found), type=objects.Pod)


ENDS = [
    ("succeeded", pod("Succeeded", containerStatuses=containers(9))),
    ("succeeded", pod("Succeeded")),
    ("failed", pod("Failed", containerStatuses=containers(9))),
    ("failed", pod("Failed")),
    ("failed", pod("Failed", "Evicted", containerStatuses=containers(9))),
    # Only a machine can reject a pod.
    ("failed", pod("Failed", "Cancelled", node=None)),
    ("deadline", pod("Failed", "DeadlineExceeded", containerStatuses=containers(9))),
    ("deadline", pod("Failed", "DeadlineExceeded")),
    ("deadline", pod("Failed", "DeadlineExceeded", metadata=deletion(8, 30))),
    *(
        ("rejected", pod("Failed", reason))
        for reason in ("OutOfcpu", "OutOfexample.com/gpu", "NodeAffinity", "NodeShutdown")
    ),
    ("rejected", pod("Failed", "UnexpectedAdmissionError")),
    # An eviction manager under pressure does not start the pod.
    ("rejected", pod("Failed", "Evicted")),
    # Deleted while it ran: its containers stop within the grace period, with any exit code.
    *(
        ("deleted", pod(phase, metadata=deletion(10, 30), containerStatuses=containers(stopped)))
        for phase in ("Succeeded", "Failed")
        for stopped in (10, 11, 40)
    ),
    # A finalizer keeps it after the kubelet has set its grace period to 0.
    ("deleted", pod("Failed", metadata=deletion(10, 0), containerStatuses=containers(12))),
    ("deleted", pod("Succeeded", metadata=deletion(10, 30))),
    # Deleted after it had ended: without a grace period, or with one that came too late.
    ("succeeded", pod("Succeeded", metadata=deletion(10, 0), containerStatuses=containers(10))),
    ("failed", pod("Failed", metadata=deletion(10, 0))),
    ("succeeded", pod("Succeeded", metadata=deletion(10, 30), containerStatuses=containers(9))),
    ("rejected", pod("Failed", "OutOfpods", metadata=deletion(10, 0))),
]


@pytest.mark.parametrize(("how", "last"), ENDS)
@pytest.mark.parametrize("deleted", [False, True])
def test_a_final_phase_says_how_a_pod_ended_also_after_its_deletion(
    how: str, last: objects.Pod, deleted: bool
) -> None:
    assert how_ended(last, deleted=deleted) == how


@pytest.mark.parametrize("phase", [None, "Pending", "Running", "Unknown"])
def test_a_pod_without_a_final_phase_has_ended_only_if_it_was_deleted(phase: str | None) -> None:
    assert how_ended(pod(phase), deleted=True) == "deleted"
    assert how_ended(pod(phase, metadata=deletion(10, 30)), deleted=True) == "deleted"
    with pytest.raises(ValueError, match=r"status.phase: .*, expected Succeeded or Failed"):
        how_ended(pod(phase), deleted=False)


def test_a_pod_whose_identity_alone_is_known_was_deleted() -> None:
    assert how_ended(objects.Pod(objects.Metadata("p", "shop", "u")), deleted=True) == "deleted"


def test_a_pod_ended_with_the_last_of_its_containers() -> None:
    assert finished_seconds(pod("Failed", containerStatuses=containers(7, 61, 8))) == START + 61
    assert finished_seconds(pod("Failed", initContainerStatuses=containers(5))) == START + 5
    # A sidecar may end later than the containers that count.
    both = pod("Failed", containerStatuses=containers(7), initContainerStatuses=containers(9))
    assert finished_seconds(both) == START + 7
    assert finished_seconds(pod("Failed", containerStatuses=containers(None))) is None
    assert finished_seconds(pod("Failed")) is None
    broken = [{"name": "c", "state": {"terminated": {"finishedAt": "soon"}}}]
    assert finished_seconds(pod("Failed", containerStatuses=broken)) is None


def test_the_essence_of_an_ended_pod_says_how_it_ended() -> None:
    for (_, last), deleted in itertools.product(ENDS, (False, True)):
        short = essence(last)
        assert how_ended(short, deleted=deleted) == how_ended(last, deleted=deleted)
        assert finished_seconds(short) == finished_seconds(last)
        assert short.metadata.uid == last.metadata.uid
        assert short.spec.scheduler_name == last.spec.scheduler_name
        assert short.spec.containers is short.metadata.labels is None
    running = pod("Running")
    assert essence(running) is running
