"""Which pods are deleted when groups are past their deadline, and what finding them costs."""

import sys
from dataclasses import replace
from types import FrameType
from typing import Any

import msgspec
import pytest
from manifests import pod

from afflux.kube import objects
from afflux.kube.live.deadline_victims import find_victims
from afflux.kube.live.group_deadlines import OverdueGroup

JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-j", "controller": True}


def member(number: int, group: str | None = None, **metadata: Any) -> objects.Pod:
    labels = {"afflux.dev/group-name": group, "afflux.dev/group-size": "4"} if group else {}
    created = "1970-01-01T00:00:10Z"
    metadata = {"creationTimestamp": created, "labels": labels, **metadata}
    manifest = pod(f"p{number}", metadata={"uid": f"uid-{number}", **metadata})
    return msgspec.convert(manifest, objects.Pod)


def overdue_group(number: int) -> OverdueGroup:
    name = f"default/g{number}"
    return OverdueGroup(name, name, 60.0, frozenset({f"uid-{number}"}))


def overdue_pod(number: int) -> OverdueGroup:
    job = msgspec.convert(JOB, objects.OwnerReference)
    return OverdueGroup(f"default/p{number}", None, 60.0, frozenset({f"uid-{number}"}), (job,))


@pytest.mark.parametrize("grouped", [True, False])
def test_the_cost_of_many_overdue_groups_is_linear_in_the_number_of_pods(grouped: bool) -> None:
    pods = [
        member(number, f"g{number}") if grouped else member(number, ownerReferences=[JOB])
        for number in range(2000)
    ]

    def lines(groups: int) -> int:
        """The number of Python lines that are executed; independent of the machine's load."""
        overdue = [
            overdue_group(number) if grouped else overdue_pod(number) for number in range(groups)
        ]
        run = 0

        def count(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal run
            run += event == "line"
            return count

        sys.settrace(count)
        try:
            found = find_victims(overdue, pods)
        finally:
            sys.settrace(None)
        assert [set(group.pods) for group in found.groups] == [set(each.pods) for each in overdue]
        return run

    # The cleanup runs on the event loop that renews the lease.
    assert lines(2000) < 40 * lines(1)


def test_each_pod_belongs_to_one_group_of_victims_only() -> None:
    found = find_victims([overdue_group(1), overdue_group(1)], [member(1, "g1"), member(2, "g1")])
    assert [set(group.pods) for group in found.groups] == [{"uid-1", "uid-2"}, set()]


def test_a_replacement_pod_is_deleted_with_its_job_but_not_with_an_overdue_pod() -> None:
    again = member(2, ownerReferences=[JOB], creationTimestamp="1970-01-01T00:01:00Z")
    beside = member(3, ownerReferences=[JOB])
    found = find_victims([overdue_pod(1)], [member(1, ownerReferences=[JOB]), again, beside])
    assert [set(group.pods) for group in found.groups] == [{"uid-1"}]
    assert found.uids == {"uid-1", "uid-2"}


def test_a_replacement_by_the_groups_controller_is_a_victim_if_it_names_the_group() -> None:
    job = msgspec.convert(JOB, objects.OwnerReference)
    overdue = replace(overdue_group(1), controllers=(job,))
    later = "1970-01-01T00:02:00Z"
    again = member(2, "g1", ownerReferences=[JOB], creationTimestamp=later)
    of_no_controller = member(3, "g1", creationTimestamp=later)
    without_a_group = member(4, ownerReferences=[JOB], creationTimestamp=later)
    found = find_victims([overdue], [again, of_no_controller, without_a_group])
    assert found.uids == {"uid-2"}
