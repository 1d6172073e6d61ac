"""What a controller confirms of a pod's claims, by its own specification."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from manifests import pod

from afflux.kube import objects
from afflux.kube.live.pod_sources import PodSource, built_in_source, custom_source
from afflux.kube.pod_claims import PodClaims, pod_claims

GROUP = {"afflux.dev/group-name": "g", "afflux.dev/group-size": "2"}


def made(labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod template."""
    return {
        "metadata": {"labels": GROUP | (labels or {})},
        "spec": {"schedulerName": "afflux", "containers": [{"name": "c"}], **spec},
    }


def claims(labels: dict[str, str] | None = None, **spec: Any) -> PodClaims:
    """The claims of a pod made from such a template."""
    manifest = pod("a", metadata={"labels": GROUP | (labels or {})})
    manifest["spec"] |= {"schedulerName": "afflux", **spec}
    return pod_claims(msgspec.convert(manifest, objects.Pod))


def raw(spec: object) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(spec).encode())


def built_in(spec: object, *, has_plain_selector: bool = False) -> PodSource:
    return built_in_source(raw(spec), has_plain_selector=has_plain_selector)


def test_equal_terms_are_confirmed_and_other_fields_do_not_matter() -> None:
    found = built_in({"template": made({"app": "x"}, nodeSelector={"a": "b"})})
    assert found.objection("Job n/j", claims({"app": "y"}, priority=3)) is None


@pytest.mark.parametrize(
    ("of_pod", "field"),
    [
        (claims(schedulerName="another"), "spec.schedulerName: 'another'"),
        (claims({"afflux.dev/group-size": "3"}), "label afflux.dev/group-size: '3'"),
        (claims({"fluxnetes.group-size": "2"}), "label fluxnetes.group-size: '2'"),
        (claims({"scheduling.x-k8s.io/pod-group": "g"}), "label scheduling.x-k8s.io/pod-group"),
        (claims(schedulingGroup={"podGroupName": "g"}), "spec.schedulingGroup.podGroupName: 'g'"),
        (claims(activeDeadlineSeconds=1), "spec.activeDeadlineSeconds: 1"),
    ],
)
def test_the_objection_names_the_first_term_that_differs(of_pod: PodClaims, field: str) -> None:
    why = built_in({"template": made()}).objection("Job n/j", of_pod)
    assert why is not None
    assert why.startswith(f"the pod template of Job n/j does not have {field}")


def test_a_template_without_a_scheduler_names_the_default_scheduler() -> None:
    template = made()
    del template["spec"]["schedulerName"]
    found = built_in({"template": template})
    assert found.objection("Job n/j", claims(schedulerName="default-scheduler")) is None
    assert found.objection("Job n/j", claims()) is not None


def test_the_selector_of_a_replication_controller_is_a_mapping_of_labels() -> None:
    spec = {"template": made({"app": "x"}), "selector": {"app": "x"}}
    found = built_in(spec, has_plain_selector=True)
    assert found.objection("RC n/r", claims({"app": "x"})) is None
    why = found.objection("RC n/r", claims({"app": "y"}))
    assert why == "the selector of RC n/r does not select it"


def test_a_selector_with_expressions_counts() -> None:
    expression = {"key": "app", "operator": "In", "values": ["x"]}
    spec = {"template": made({"app": "x"}), "selector": {"matchExpressions": [expression]}}
    assert built_in(spec).objection("Job n/j", claims({"app": "x"})) is None
    assert built_in(spec).objection("Job n/j", claims()) is not None


@pytest.mark.parametrize(
    "spec",
    [
        {"template": made()},
        {"mpiReplicaSpecs": {"Worker": {"replicas": 2, "template": made()}}},
        {"replicatedJobs": [{"name": "w", "template": {"spec": {"template": made()}}}]},
        {"headGroupSpec": {"template": made({}, schedulerName="another")}, "workers": [made()]},
    ],
)
def test_every_template_of_a_custom_controller_counts(spec: object) -> None:
    assert custom_source(raw(spec)).objection("X n/x", claims()) is None


@pytest.mark.parametrize(
    "spec",
    [
        None,
        7,
        [made()],
        {},
        {"template": {"metadata": {}}},
        {"template": {"spec": {"containers": []}}},
        {"template": {"spec": {"containers": [{}], "activeDeadlineSeconds": "soon"}}},
        {"spec": "text", "template": None},
    ],
)
def test_without_a_valid_template_nothing_is_confirmed(spec: object) -> None:
    assert custom_source(raw(spec)).objection("X n/x", claims()) == "X n/x has no pod template"


def test_templates_far_below_are_not_searched_for() -> None:
    spec: object = made()
    for _ in range(500):
        spec = {"deeper": spec}
    assert custom_source(raw(spec)).templates == ()


nested = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["spec", "containers", "metadata", "labels", "suspend"]), inner
        ),
    ),
    max_leaves=20,
)


@given(nested)
def test_any_specification_can_be_read(spec: object) -> None:
    for terms in custom_source(raw(spec)).templates:
        assert terms[0] == "default-scheduler"
