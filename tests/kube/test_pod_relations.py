"""Pod affinity and topology spread are read as kube-scheduler and the API server read them."""

from typing import Any

import msgspec
import pytest
from manifests import pod

from afflux.kube import objects
from afflux.kube.node_constraints import ConstraintError
from afflux.kube.object_limits import MAX_POD_LABELS, MAX_POD_TERMS, MAX_TOPOLOGY_KEYS
from afflux.kube.pod_relations import (
    check_labels,
    relations,
    running_relations,
    task_labels,
    with_spread,
)
from afflux.kube.pods import task
from afflux.model.relations import (
    NO_RELATIONS,
    AffinityTerm,
    Relations,
    SpreadConstraint,
    TaskLabels,
    TaskSelector,
)
from afflux.model.selectors import Requirement

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ZONE = "topology.kubernetes.io/zone"
DB = {"matchLabels": {"app": "db"}}
IS_DB = (Requirement("app", "In", ("db",)),)


def decoded(manifest: dict[str, Any]) -> objects.Pod:
    return msgspec.convert(manifest, objects.Pod)


def term(selector: Any = DB, **fields: Any) -> dict[str, Any]:
    return {"topologyKey": ZONE, "labelSelector": selector, **fields}


def with_affinity(*terms: Any, labels: Any = None, anti: bool = False, **fields: Any) -> Any:
    kind = "podAntiAffinity" if anti else "podAffinity"
    affinity = {kind: {REQUIRED: list(terms), **fields}}
    return decoded(pod(labels=labels or {}, affinity=affinity))


def only_term(stated: dict[str, Any], **labels: str) -> AffinityTerm:
    (found,) = relations(with_affinity(stated, labels=labels)).affinity
    return found


def spread(labels: Any = None, **fields: Any) -> SpreadConstraint:
    stated = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **fields}
    given = decoded(pod(labels=labels or {}, topologySpreadConstraints=[stated]))
    (found,) = relations(given).spread
    return found


# --- Labels


def test_the_labels_of_a_task_are_its_namespace_and_labels_in_order():
    given = decoded(pod(labels={"b": "2", "a": "1"}, metadata={"namespace": "shop"}))
    assert task(given).labels == TaskLabels("shop", (("a", "1"), ("b", "2")))


def test_equal_labels_are_one_object():
    one, other = ({"a": "1", "b": "2"}, {"b": "2", "a": "1"})
    assert task_labels(decoded(pod(labels=one))) is task_labels(decoded(pod("p2", labels=one)))
    assert task_labels(decoded(pod(labels=one))) == task_labels(decoded(pod(labels=other)))


def test_a_pod_that_is_being_deleted_has_ending_labels():
    given = decoded(pod(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    assert task_labels(given).ending


# --- Terms


def test_a_pod_without_terms_has_no_relations():
    assert relations(decoded(pod())) is NO_RELATIONS
    assert relations(decoded(pod(affinity={"podAffinity": {}}))) is NO_RELATIONS
    assert relations(decoded(pod(topologySpreadConstraints=[]))) is NO_RELATIONS


def test_a_term_without_namespaces_is_about_the_namespace_of_its_pod():
    assert only_term(term()) == AffinityTerm(TaskSelector(("default",), None, IS_DB), ZONE)


@pytest.mark.parametrize(
    ("fields", "namespaces", "namespace_labels"),
    [
        ({"namespaces": ["b", "a", "b"]}, ("a", "b"), None),
        ({"namespaces": []}, ("default",), None),
        ({"namespaceSelector": {}}, (), ()),
        ({"namespaceSelector": {}, "namespaces": ["a"]}, (), ()),
        (
            {"namespaceSelector": {"matchLabels": {"team": "x"}}},
            (),
            (Requirement("team", "In", ("x",)),),
        ),
        (
            {"namespaceSelector": {"matchLabels": {"team": "x"}}, "namespaces": ["a"]},
            ("a",),
            (Requirement("team", "In", ("x",)),),
        ),
    ],
)
def test_namespaces_and_namespace_selector_say_which_namespaces_count(
    fields: Any, namespaces: Any, namespace_labels: Any
):
    selector = only_term(term(**fields)).selector
    assert (selector.namespaces, selector.namespace_labels) == (namespaces, namespace_labels)


def test_a_missing_label_selector_selects_nothing_and_an_empty_one_everything():
    assert only_term(term(None)).selector.labels is None
    assert only_term(term({})).selector.labels == ()


def test_equivalent_terms_are_equal_and_shared():
    by_labels = term({"matchLabels": {"a": "1", "b": "2"}})
    expressions = [
        {"key": "b", "operator": "In", "values": ["2"]},
        {"key": "a", "operator": "In", "values": ["1", "1"]},
    ]
    by_expressions = term({"matchExpressions": expressions})
    other = term(namespaces=["z"])
    assert relations(with_affinity(by_labels, other)) is relations(
        with_affinity(other, by_expressions, by_labels)
    )


def test_terms_are_of_affinity_or_anti_affinity_and_preferred_ones_have_their_weight():
    wish = {"weight": 7, "podAffinityTerm": term()}
    affinity = {
        "podAffinity": {REQUIRED: [term()], PREFERRED: [wish]},
        "podAntiAffinity": {REQUIRED: [term({})], PREFERRED: [wish, wish]},
    }
    found = relations(decoded(pod(affinity=affinity)))
    selects_db = AffinityTerm(TaskSelector(("default",), None, IS_DB), ZONE)
    assert found.affinity == (selects_db,)
    assert found.anti_affinity == (AffinityTerm(TaskSelector(("default",), None, ()), ZONE),)
    assert found.preferred == ((-7, selects_db), (-7, selects_db), (7, selects_db))


def test_label_keys_are_merged_into_the_selector():
    merged = only_term(
        term(matchLabelKeys=["hash", "absent"], mismatchLabelKeys=["tenant"]), hash="h1", tenant="t"
    )
    assert merged.selector.labels == (
        *IS_DB,
        Requirement("hash", "In", ("h1",)),
        Requirement("tenant", "NotIn", ("t",)),
    )


def test_label_keys_that_the_api_server_has_merged_are_not_merged_again():
    """Also if the label has been changed since: the selector keeps the value of the creation."""
    expression = {"key": "hash", "operator": "In", "values": ["h1"]}
    merged = term({**DB, "matchExpressions": [expression]}, matchLabelKeys=["hash"])
    for now in ("h1", "h2"):
        assert only_term(merged, hash=now).selector.labels == (
            *IS_DB,
            Requirement("hash", "In", ("h1",)),
        )


def test_label_keys_without_a_selector_select_nothing():
    assert only_term(term(None, matchLabelKeys=["a"]), a="1").selector.labels is None


# --- Topology spread


def test_a_spread_constraint_has_the_defaults_of_kubernetes():
    assert spread(labelSelector=DB) == SpreadConstraint(
        TaskSelector(("default",), None, IS_DB, includes_ending=False),
        ZONE,
        max_skew=1,
        required=True,
        min_domains=1,
        honors_affinity=True,
        honors_taints=False,
    )


def test_every_field_of_a_spread_constraint_is_read():
    found = spread(
        maxSkew=3,
        topologyKey="rack",
        labelSelector={},
        minDomains=4,
        nodeAffinityPolicy="Ignore",
        nodeTaintsPolicy="Honor",
        matchLabelKeys=["hash", "absent"],
        labels={"hash": "h1"},
    )
    selector = TaskSelector(
        ("default",), None, (Requirement("hash", "In", ("h1",)),), includes_ending=False
    )
    assert found == SpreadConstraint(
        selector, "rack", 3, min_domains=4, honors_affinity=False, honors_taints=True
    )
    assert not spread(whenUnsatisfiable="ScheduleAnyway").required


def test_an_empty_selector_of_a_spread_constraint_counts_no_pod_as_in_kube_scheduler():
    assert spread(labelSelector={}).selector.labels is None
    assert spread().selector.labels is None


def test_default_constraints_are_added_to_the_stated_terms():
    defaults = Relations(spread=(spread(labelSelector=DB),))
    stated = relations(with_affinity(term()))
    assert with_spread(NO_RELATIONS, defaults) is defaults
    assert with_spread(stated, NO_RELATIONS) is stated
    assert with_spread(stated, defaults) is with_spread(stated, defaults)
    assert with_spread(stated, defaults) == Relations(
        affinity=stated.affinity, spread=defaults.spread
    )


# --- Invalid contents

TERM = f"spec.affinity.podAffinity.{REQUIRED}[0]"
SPREAD = "spec.topologySpreadConstraints[0]"


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"topologyKey": ""}, f"{TERM}.topologyKey: missing, expected a label of nodes"),
        (
            {"labelSelector": {"matchLabels": {"a": "no/value"}}},
            f"{TERM}.labelSelector.matchLabels.values: 'no/value' is not a valid label value",
        ),
        (
            {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}},
            f"{TERM}.labelSelector.matchExpressions[0].operator: 'Gt', "
            "expected one of In, NotIn, Exists, DoesNotExist",
        ),
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            f"{TERM}.namespaceSelector.matchExpressions[0].values: empty, "
            "expected at least one for In",
        ),
    ],
)
def test_an_invalid_term_is_refused_with_its_field(stated: Any, message: str):
    given = with_affinity(term(**stated))
    with pytest.raises(ConstraintError) as refused:
        relations(given)
    assert str(refused.value) == message
    assert task(given).blocked


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"maxSkew": 0}, f"{SPREAD}.maxSkew: 0, expected at least 1"),
        ({"minDomains": 0}, f"{SPREAD}.minDomains: 0, expected at least 1"),
        (
            {"minDomains": 2, "whenUnsatisfiable": "ScheduleAnyway"},
            f"{SPREAD}.minDomains: 2 with ScheduleAnyway, expected DoNotSchedule",
        ),
        (
            {"whenUnsatisfiable": None},
            f"{SPREAD}.whenUnsatisfiable: missing, expected DoNotSchedule or ScheduleAnyway",
        ),
        ({"nodeTaintsPolicy": "Maybe"}, f"{SPREAD}.nodeTaintsPolicy: 'Maybe', expected Honor or"),
        ({"topologyKey": None}, f"{SPREAD}.topologyKey: missing, expected a label of nodes"),
    ],
)
def test_an_invalid_spread_constraint_is_refused_with_its_field(stated: Any, message: str):
    with pytest.raises(ConstraintError) as refused:
        spread(**stated)
    assert str(refused.value).startswith(message)


def test_a_topology_key_may_be_given_once_for_each_strength():
    one = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    soft = {**one, "whenUnsatisfiable": "ScheduleAnyway"}
    assert len(relations(decoded(pod(topologySpreadConstraints=[soft, one]))).spread) == 2
    with pytest.raises(ConstraintError, match=r"\[1\]: .* is given twice, expected once"):
        relations(decoded(pod(topologySpreadConstraints=[one, {**one, "maxSkew": 2}])))


def test_of_a_running_pod_the_kinds_of_terms_that_can_be_read_count():
    affinity = {
        "podAffinity": {REQUIRED: [term(topologyKey="")]},
        "podAntiAffinity": {REQUIRED: [term()]},
    }
    found = running_relations(decoded(pod(nodeName="n1", affinity=affinity)))
    assert found == Relations(anti_affinity=(only_term(term()),))


# --- Limits


def test_a_pod_with_too_many_terms_waits_and_when_running_has_none():
    few = with_affinity(*(term(namespaces=[f"n{i}"]) for i in range(MAX_POD_TERMS)))
    assert len(relations(few).affinity) == MAX_POD_TERMS
    many = with_affinity(*(term(namespaces=[f"n{i}"]) for i in range(MAX_POD_TERMS + 1)))
    with pytest.raises(ConstraintError) as refused:
        relations(many)
    assert str(refused.value) == (
        "spec.affinity: 65 terms and constraints about other pods, expected at most 64"
    )
    assert running_relations(many) is NO_RELATIONS


def test_a_pod_with_too_many_topology_keys_waits():
    many = with_affinity(*(term(topologyKey=f"k{i}") for i in range(MAX_TOPOLOGY_KEYS + 1)))
    with pytest.raises(ConstraintError, match="17 different topology keys, expected at most 16"):
        relations(many)


@pytest.mark.parametrize(
    ("selector", "what"),
    [
        ({"matchLabels": {f"k{i}": "v" for i in range(600)}}, "600 expressions about other pods"),
        (
            {
                "matchExpressions": [
                    {"key": "a", "operator": "In", "values": [f"v{i}" for i in range(5_000)]}
                ]
            },
            "5000 values about other pods",
        ),
        ({"matchLabels": {"a" * 300_000: "v"}}, "characters about other pods"),
    ],
)
def test_a_pod_whose_selectors_name_too_much_waits(selector: Any, what: str):
    with pytest.raises(ConstraintError, match=what):
        relations(with_affinity(term(selector)))


def test_a_pod_with_too_many_labels_waits_and_when_running_keeps_them():
    labels = {f"k{i}": "v" for i in range(MAX_POD_LABELS + 1)}
    given = decoded(pod(labels=labels))
    with pytest.raises(ConstraintError, match="513 labels, expected at most 512"):
        check_labels(given)
    assert task(given).blocked == "metadata.labels: 513 labels, expected at most 512"
    running = task(decoded(pod(labels=labels, nodeName="n1")))
    assert len(running.labels.labels) == MAX_POD_LABELS + 1
