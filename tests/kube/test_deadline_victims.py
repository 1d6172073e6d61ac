"""Who leaves when groups are over, however many pods there are."""

import sys
from dataclasses import replace
from types import FrameType
from typing import Any

import msgspec
import pytest
from manifests import pod

from afflux.kube import objects
from afflux.kube.live.deadlines import Over
from afflux.kube.live.leaving import leaving

JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-j", "controller": True}


def member(number: int, group: str | None = None, **metadata: Any) -> objects.Pod:
    labels = {"afflux.dev/group-name": group, "afflux.dev/group-size": "4"} if group else {}
    created = "1970-01-01T00:00:10Z"
    metadata = {"creationTimestamp": created, "labels": labels, **metadata}
    manifest = pod(f"p{number}", metadata={"uid": f"uid-{number}", **metadata})
    return msgspec.convert(manifest, objects.Pod)


def of_group(number: int) -> Over:
    name = f"default/g{number}"
    return Over(name, name, 60.0, frozenset({f"uid-{number}"}))


def by_itself(number: int) -> Over:
    job = msgspec.convert(JOB, objects.OwnerReference)
    return Over(f"default/p{number}", None, 60.0, frozenset({f"uid-{number}"}), (job,))


@pytest.mark.parametrize("grouped", [True, False])
def test_many_groups_that_are_over_at_once_do_not_look_through_all_pods_each(
    grouped: bool,
) -> None:
    pods = [
        member(number, f"g{number}") if grouped else member(number, ownerReferences=[JOB])
        for number in range(2000)
    ]

    def lines(groups: int) -> int:
        """How many lines are run, however busy the machine is."""
        overs = [of_group(number) if grouped else by_itself(number) for number in range(groups)]
        run = 0

        def count(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal run
            run += event == "line"
            return count

        sys.settrace(count)
        try:
            found = leaving(overs, pods)
        finally:
            sys.settrace(None)
        assert [set(party.pods) for party in found.parties] == [set(over.pods) for over in overs]
        return run

    # Who cleans up is on the same loop as the lease.
    assert lines(2000) < 40 * lines(1)


def test_each_pod_is_in_one_party_only() -> None:
    found = leaving([of_group(1), of_group(1)], [member(1, "g1"), member(2, "g1")])
    assert [set(party.pods) for party in found.parties] == [{"uid-1", "uid-2"}, set()]


def test_a_replacement_may_go_with_its_job_but_does_not_go_by_itself() -> None:
    again = member(2, ownerReferences=[JOB], creationTimestamp="1970-01-01T00:01:00Z")
    beside = member(3, ownerReferences=[JOB])
    found = leaving([by_itself(1)], [member(1, ownerReferences=[JOB]), again, beside])
    assert [set(party.pods) for party in found.parties] == [{"uid-1"}]
    assert found.uids == {"uid-1", "uid-2"}


def test_what_a_controller_makes_anew_is_a_member_if_it_names_the_group() -> None:
    job = msgspec.convert(JOB, objects.OwnerReference)
    over = replace(of_group(1), controllers=(job,))
    later = "1970-01-01T00:02:00Z"
    again = member(2, "g1", ownerReferences=[JOB], creationTimestamp=later)
    by_somebody_else = member(3, "g1", creationTimestamp=later)
    without_a_group = member(4, ownerReferences=[JOB], creationTimestamp=later)
    found = leaving([over], [again, by_somebody_else, without_a_group])
    assert found.uids == {"uid-2"}
