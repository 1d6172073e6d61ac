"""Default spread constraints follow from Services and controllers, as in kube-scheduler."""

from typing import Any

import msgspec
import pytest
from manifests import pod

from afflux.kube import objects
from afflux.kube.cluster_relations import ClusterRelations, namespace_labels
from afflux.kube.default_constraints import (
    SYSTEM_DEFAULTS,
    DefaultConstraint,
    DefaultConstraints,
)
from afflux.kube.pods import PodContext, task
from afflux.model.relations import NO_RELATIONS, Relations, SpreadConstraint, TaskSelector
from afflux.model.selectors import Requirement

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def named(name: str, namespace: str = "default") -> dict[str, str]:
    return {"name": name, "namespace": namespace}


def service(name: str, selector: dict[str, str] | None, namespace: str = "default") -> Any:
    fields = {"metadata": named(name, namespace), "spec": {"selector": selector}}
    return msgspec.convert(fields, objects.Service)


def controller(kind: Any, name: str, selector: Any, namespace: str = "default") -> Any:
    fields = {"metadata": named(name, namespace), "spec": {"selector": selector}}
    return msgspec.convert(fields, kind)


def owned(kind: str = "ReplicaSet", version: str = "apps/v1", name: str = "web") -> dict[str, Any]:
    reference = {"apiVersion": version, "kind": kind, "name": name, "controller": True}
    return {"ownerReferences": [{"kind": "Other", "name": "x"}, reference]}


def a_pod(labels: dict[str, str], metadata: Any = None, **spec: Any) -> objects.Pod:
    given = pod(labels=labels, metadata={**(metadata or {}), "labels": labels}, **spec)
    return msgspec.convert(given, objects.Pod)


def selected(relations: ClusterRelations, given: objects.Pod) -> dict[str, Any] | None:
    """The labels that the selector of the default constraints requires; None without any."""
    found = relations.default_relations(given)
    if found is NO_RELATIONS:
        return None
    (selector,) = {each.selector for each in found.spread}
    return {each.key: (each.operator, each.values) for each in selector.labels or ()}


def test_the_system_has_soft_constraints_for_hosts_and_zones():
    relations = ClusterRelations()
    relations.set(service("web", {"app": "web"}))
    selector = TaskSelector(
        ("default",), None, (Requirement("app", "In", ("web",)),), includes_ending=False
    )
    expected = Relations(
        spread=(
            SpreadConstraint(selector, HOSTNAME, 3, required=False, needs_all_keys=False),
            SpreadConstraint(selector, ZONE, 5, required=False, needs_all_keys=False),
        )
    )
    given = a_pod({"app": "web", "tier": "1"})
    assert relations.default_relations(given) == expected
    assert relations.default_relations(given) is relations.default_relations(given)


def test_a_pod_without_service_and_controller_has_no_default_constraints():
    relations = ClusterRelations()
    relations.set(service("other", {"app": "db"}))
    relations.set(service("elsewhere", {"app": "web"}, "other"))
    relations.set(service("external", None))
    relations.set(service("empty", {}))
    assert selected(relations, a_pod({"app": "web"})) is None
    assert selected(relations, a_pod({})) is None


def test_the_selectors_of_all_services_hold_together():
    relations = ClusterRelations()
    relations.set(service("one", {"app": "web"}))
    relations.set(service("two", {"tier": "1"}))
    relations.set(service("three", {"app": "web", "tier": "2"}))
    assert selected(relations, a_pod({"app": "web", "tier": "1"})) == {
        "app": ("In", ("web",)),
        "tier": ("In", ("1",)),
    }


@pytest.mark.parametrize("kind", [objects.ReplicaSet, objects.StatefulSet])
def test_the_selector_of_a_controller_is_added(kind: Any):
    relations = ClusterRelations()
    expression = {"key": "tier", "operator": "NotIn", "values": ["2"]}
    selector = {"matchLabels": {"hash": "h"}, "matchExpressions": [expression]}
    relations.set(controller(kind, "web", selector))
    relations.set(service("web", {"app": "web"}))
    given = a_pod({"app": "web"}, owned(kind.__name__))
    assert selected(relations, given) == {
        "app": ("In", ("web",)),
        "hash": ("In", ("h",)),
        "tier": ("NotIn", ("2",)),
    }


def test_a_replication_controller_decides_where_a_service_names_the_same_label():
    relations = ClusterRelations()
    relations.set(service("web", {"app": "web"}))
    relations.set(controller(objects.ReplicationController, "web", {"app": "new"}))
    given = a_pod({"app": "web"}, owned("ReplicationController", "v1"))
    assert selected(relations, given) == {"app": ("In", ("new",))}


@pytest.mark.parametrize(
    "reference",
    [
        owned(name="other"),
        owned(kind="Job", version="batch/v1"),
        owned(version="apps/v1beta1"),
        owned(version="example.com/v1"),
        {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"}]},
    ],
)
def test_only_the_controller_of_a_known_kind_counts(reference: Any):
    relations = ClusterRelations()
    relations.set(controller(objects.ReplicaSet, "web", {"matchLabels": {"app": "web"}}))
    relations.set(controller(objects.ReplicaSet, "other", {"matchLabels": {"app": "web"}}, "b"))
    assert selected(relations, a_pod({"app": "web"}, reference)) is None


def test_an_invalid_selector_of_a_controller_does_not_count():
    relations = ClusterRelations()
    expression = {"key": "a", "operator": "Near"}
    relations.set(controller(objects.ReplicaSet, "web", {"matchExpressions": [expression]}))
    assert selected(relations, a_pod({}, owned())) is None


def test_removed_objects_do_not_count_any_more():
    relations = ClusterRelations()
    given = a_pod({"app": "web"}, owned())
    for name in ("one", "two"):
        relations.set(service(name, {"app": "web"}))
    relations.set(controller(objects.ReplicaSet, "web", {"matchLabels": {"hash": "h"}}))
    relations.remove(objects.ReplicaSet, "default/web")
    relations.remove(objects.Service, "default/one")
    assert selected(relations, given) == {"app": ("In", ("web",))}
    relations.remove(objects.Service, "default/two")
    relations.remove(objects.Service, "default/two")
    assert selected(relations, given) is None


def test_the_constraints_follow_the_scheduler_name_of_the_pod():
    rack = DefaultConstraint("rack", 2, required=True, min_domains=3, honors_taints=True)
    defaults = DefaultConstraints((), {"afflux": (rack,), "default-scheduler": SYSTEM_DEFAULTS})
    relations = ClusterRelations(defaults)
    relations.set(service("web", {"app": "web"}))
    (found,) = relations.default_relations(a_pod({"app": "web"}, schedulerName="afflux")).spread
    assert (found.topology_key, found.max_skew, found.required) == ("rack", 2, True)
    assert (found.min_domains, found.honors_taints, found.needs_all_keys) == (3, True, True)
    assert len(relations.default_relations(a_pod({"app": "web"})).spread) == 2
    assert selected(relations, a_pod({"app": "web"}, schedulerName="x")) is None


def test_pods_whose_constraints_may_have_changed_are_named_once():
    relations = ClusterRelations()
    relations.watch("default/web", a_pod({"app": "web"}, owned()))
    relations.watch("default/db", a_pod({"app": "db"}))
    stated = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}]
    relations.watch("default/own", a_pod({"app": "web"}, topologySpreadConstraints=stated))
    relations.set(service("web", {"app": "web"}))
    assert list(relations.take_stale()) == ["default/web"]
    assert list(relations.take_stale()) == []
    # Nothing that matters has changed.
    relations.set(service("web", {"app": "web"}))
    assert list(relations.take_stale()) == []
    relations.set(service("web", {"app": "db"}))
    assert set(relations.take_stale()) == {"default/web", "default/db"}
    relations.set(controller(objects.ReplicaSet, "web", {"matchLabels": {"hash": "h"}}))
    assert list(relations.take_stale()) == ["default/web"]
    relations.forget("default/web")
    relations.remove(objects.ReplicaSet, "default/web")
    assert list(relations.take_stale()) == []


def test_a_pod_is_compared_with_a_bounded_number_of_services():
    relations = ClusterRelations()
    labels = {f"k{i:03}": "v" for i in range(300)}
    for key in labels:
        relations.set(service(key, {key: "v"}))
    assert len(selected(relations, a_pod(labels)) or ()) == 256


def test_every_namespace_has_the_label_with_its_name():
    assert namespace_labels("a", None) == {"kubernetes.io/metadata.name": "a"}
    stated = msgspec.convert({"metadata": {"labels": {"team": "x"}}}, objects.Namespace)
    assert namespace_labels("a", stated) == {"kubernetes.io/metadata.name": "a", "team": "x"}


@pytest.mark.parametrize("node", [None, "n"])
@pytest.mark.parametrize("weight", [0, 1, 100])
def test_required_affinity_attracts_with_the_configured_weight(weight: int, node: str | None):
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": ZONE}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    manifest = pod(affinity=affinity, nodeName=node)
    context = PodContext(relations=ClusterRelations(affinity_weight=weight))
    found = task(msgspec.convert(manifest, objects.Pod), context).shape.relations
    assert len(found.affinity) == 1
    assert [each.weight for each in found.carried] == ([weight] if weight else [])
    without = task(msgspec.convert(pod(nodeName=node), objects.Pod), context)
    assert without.shape.relations is NO_RELATIONS
