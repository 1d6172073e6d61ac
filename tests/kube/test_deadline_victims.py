"""Which pods are deleted when groups are past their deadline, and what finding them costs."""

import sys
from types import FrameType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from manifests import group_id, pod

from afflux.kube import objects
from afflux.kube.group_deadlines import GroupDeadlines, OverdueGroup
from afflux.kube.live.deadline_victims import find_victims, withdraw_unconfirmed
from afflux.kube.pod_claims import PodClaims, pod_claims

JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-j", "controller": True}


def member(number: int, group: str | None = None, **metadata: Any) -> objects.Pod:
    labels = {"afflux.dev/group-name": group, "afflux.dev/group-size": "4"} if group else {}
    created = "1970-01-01T00:00:10Z"
    metadata = {"creationTimestamp": created, "labels": labels, **metadata}
    manifest = pod(f"p{number}", metadata={"uid": f"uid-{number}", **metadata})
    return msgspec.convert(manifest, objects.Pod)


def overdue(*pods: objects.Pod) -> OverdueGroup:
    """A group of these pods, whose deadline has passed."""
    claims = {pod.metadata.uid or "": pod_claims(pod) for pod in pods}
    return OverdueGroup(group_id(pods[0]), 60.0, frozenset(claims), claims)


@pytest.mark.parametrize("grouped", [True, False])
def test_the_cost_of_many_overdue_groups_is_linear_in_the_number_of_pods(grouped: bool) -> None:
    pods = [
        member(number, f"g{number}") if grouped else member(number, ownerReferences=[JOB])
        for number in range(2000)
    ]

    def lines(groups: int) -> int:
        """The number of Python lines that are executed; independent of the machine's load."""
        overdue_groups = [overdue(each) for each in pods[:groups]]
        run = 0

        def count(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal run
            run += event == "line"
            return count

        sys.settrace(count)
        try:
            found = find_victims(overdue_groups, pods)
        finally:
            sys.settrace(None)
        expected = [set(each.pods) for each in overdue_groups]
        assert [set(group.pods) for group in found.groups] == expected
        return run

    # The cleanup runs on the event loop that renews the lease.
    assert lines(2000) < 40 * lines(1)


def test_each_pod_belongs_to_one_group_of_victims_only() -> None:
    one, two = member(1, "g1", ownerReferences=[JOB]), member(2, "g1", ownerReferences=[JOB])
    found = find_victims([overdue(one), overdue(one)], [one, two])
    assert [set(group.pods) for group in found.groups] == [{"uid-1", "uid-2"}, set()]


def test_a_replacement_pod_is_deleted_with_its_job_but_not_with_an_overdue_pod() -> None:
    ran = member(1, ownerReferences=[JOB])
    again = member(2, ownerReferences=[JOB], creationTimestamp="1970-01-01T00:01:00Z")
    beside = member(3, ownerReferences=[JOB])
    found = find_victims([overdue(ran)], [ran, again, beside])
    assert [set(group.pods) for group in found.groups] == [{"uid-1"}]
    assert found.uids == {"uid-1", "uid-2"}


def test_a_replacement_by_the_groups_controller_is_a_victim_if_it_states_the_same_terms() -> None:
    later = "1970-01-01T00:02:00Z"
    ended = member(1, "g1", ownerReferences=[JOB])
    again = member(2, "g1", ownerReferences=[JOB], creationTimestamp=later)
    of_no_controller = member(3, "g1", creationTimestamp=later)
    without_a_group = member(4, ownerReferences=[JOB], creationTimestamp=later)
    found = find_victims([overdue(ended)], [again, of_no_controller, without_a_group])
    assert found.uids == {"uid-2"}


def test_pods_and_controllers_are_withdrawn_if_the_controller_confirms_no_claim() -> None:
    own = member(1, "g1", ownerReferences=[JOB])
    found = find_victims([overdue(own)], [own])
    assert withdraw_unconfirmed(found, lambda _: None) == []
    assert found.uids == {"uid-1"}
    assert withdraw_unconfirmed(found, lambda _: "not mine") == [(own, "not mine")]
    assert (found.uids, found.groups[0].pods, found.groups[0].controllers) == (set(), {}, set())


GROUPS = st.sampled_from([None, "g", "h"])
SIZES = st.sampled_from(["2", "3"])
DEADLINES = st.sampled_from([None, 10, 20, 30])
CLAIMED_TERMS = st.tuples(GROUPS, SIZES, DEADLINES)
# The controller that a pod names, its terms, and when it started; it waits if it did not.
ANY_POD = st.tuples(
    st.sampled_from([None, "j", "k"]), CLAIMED_TERMS, st.one_of(st.none(), st.integers(0, 20))
)


def any_pod(number: int, controller: str | None, terms: tuple[Any, Any, Any]) -> objects.Pod:
    group, size, seconds = terms
    owners = [JOB | {"name": controller, "uid": controller}] if controller else []
    labels = {"afflux.dev/group-name": group, "afflux.dev/group-size": size} if group else {}
    found = pod(
        f"p{number}",
        activeDeadlineSeconds=seconds,
        metadata={"uid": f"uid-{number}", "labels": labels, "ownerReferences": owners},
    )
    return msgspec.convert(found, objects.Pod)


@given(
    st.lists(ANY_POD, max_size=12),
    st.fixed_dictionaries({"j": CLAIMED_TERMS, "k": CLAIMED_TERMS}),
    st.lists(st.integers(0, 60), max_size=4).map(sorted),
)
def test_whatever_pods_claim_nothing_goes_before_a_deadline_that_its_controller_states(
    stated: list[tuple[str | None, tuple[Any, Any, Any], int | None]],
    templates: dict[str, tuple[Any, Any, Any]],
    times: list[int],
) -> None:
    pods = [any_pod(number, owner, terms) for number, (owner, terms, _) in enumerate(stated)]
    ends = {
        f"uid-{number}": None if started is None or terms[2] is None else started + terms[2]
        for number, (_, terms, started) in enumerate(stated)
    }
    terms_of = {
        name: pod_claims(any_pod(0, name, terms)).terms for name, terms in templates.items()
    }
    deadlines = GroupDeadlines()
    for each, (_, _, started) in zip(pods, stated, strict=True):
        if started is not None:
            deadlines.set(group_id(each), each, ends[each.metadata.uid or ""], 0.0)

    def confirms(claims: PodClaims) -> bool:
        controller = claims.controller
        return controller is not None and terms_of[controller.uid or ""] == claims.terms

    for now in times:
        overdue_groups = deadlines.take(now)
        found = find_victims(overdue_groups, pods)
        withdraw_unconfirmed(found, lambda claims: None if confirms(claims) else "not mine")
        over = [each for each in pods if (end := ends[each.metadata.uid or ""]) and end <= now]
        proven = {claims for each in over if confirms(claims := pod_claims(each))}
        for group in found.groups:
            assert group.controllers <= {claims.controller for claims in proven}
            for each in group.pods.values():
                claims = pod_claims(each)
                if claims.controller is None:
                    assert each in over
                else:
                    assert claims in proven
