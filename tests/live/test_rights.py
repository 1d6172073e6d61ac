"""The rights that the chart grants: those that afflux needs, and not one more."""

from itertools import product

from installation import CHART, NAMESPACE, install, may
from testbed import ControlPlane, Manifest

from afflux.config import read_configuration
from afflux.kube.live.following import always_there, maybe_there
from afflux.kube.live.mirror import Mirror

STATIC_POD = CHART.parents[1] / "deploy" / "static-pod"
USER = f"system:serviceaccount:{NAMESPACE}:afflux"

READ = ("get", "list", "watch")
# Everything that the service account may do in any namespace: group, resources, verbs.
EVERYWHERE = (
    ("", ("nodes", "pods", "namespaces"), READ),
    ("", ("pods/binding",), ("create",)),
    ("", ("pods/status",), ("patch",)),
    ("", ("persistentvolumeclaims", "persistentvolumes"), (*READ, "patch")),
    ("storage.k8s.io", ("storageclasses", "csinodes", "csidrivers", "csistoragecapacities"), READ),
    ("scheduling.k8s.io", ("podgroups",), READ),
    ("scheduling.x-k8s.io", ("podgroups",), READ),
    ("events.k8s.io", ("events",), ("create", "patch")),
)
REFUSED = (
    ("", "secrets", READ),
    ("", "configmaps", READ),
    ("", "serviceaccounts", ("get", "impersonate")),
    ("", "serviceaccounts/token", ("create",)),
    ("", "pods", ("create", "update", "patch", "delete", "deletecollection")),
    ("", "pods/exec", ("create", "get")),
    ("", "pods/eviction", ("create",)),
    ("", "pods/log", ("get",)),
    ("", "pods/status", ("update",)),
    ("", "nodes", ("create", "update", "patch", "delete")),
    ("", "nodes/status", ("patch",)),
    ("", "nodes/proxy", ("get",)),
    ("", "namespaces", ("create", "patch", "delete")),
    ("", "events", ("create", "list")),
    ("", "persistentvolumes", ("create", "update", "delete")),
    ("", "persistentvolumeclaims", ("create", "update", "delete")),
    ("events.k8s.io", "events", ("list", "delete")),
    ("storage.k8s.io", "storageclasses", ("create", "patch")),
    ("storage.k8s.io", "csinodes", ("patch",)),
    ("scheduling.k8s.io", "podgroups", ("create", "patch", "delete")),
    ("apps", "deployments", (*READ, "patch")),
    ("rbac.authorization.k8s.io", "clusterroles", ("get", "escalate", "bind")),
)


def rights(cluster: ControlPlane, namespace: str, account: str, where: str) -> set[tuple[str, ...]]:
    """What the API server says that this account may do there: group, resource, name, verb."""
    token = cluster.service_account_token(namespace, account)
    api = cluster.api_as(token)
    review: Manifest = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": where},
    }
    try:
        answer = api.create("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review)
    finally:
        api.close()
    return {
        right
        for rule in answer["status"]["resourceRules"]
        for right in product(
            rule["apiGroups"],
            rule["resources"],
            rule.get("resourceNames", [""]),
            rule["verbs"],
        )
    }


def attributes(group: str, resource: str, verb: str, **more: str) -> dict[str, str]:
    """The same for a SubjectAccessReview."""
    resource, _, subresource = resource.partition("/")
    return {
        "group": group,
        "resource": resource,
        "subresource": subresource,
        "verb": verb,
        "namespace": "default",
        **more,
    }


def test_the_service_account_has_the_rights_it_needs_and_not_one_more(
    cluster: ControlPlane,
) -> None:
    install(cluster)
    cluster.wait_for_account(NAMESPACE)
    expected = {
        (group, resource, "", verb)
        for group, resources, verbs in EVERYWHERE
        for resource, verb in product(resources, verbs)
    }
    lease = {
        ("coordination.k8s.io", "leases", "afflux", "get"),
        ("coordination.k8s.io", "leases", "afflux", "update"),
        ("coordination.k8s.io", "leases", "", "create"),
    }
    for where, ours in {
        "default": expected,
        NAMESPACE: expected,
        "kube-system": expected | lease,
    }.items():
        everybody = rights(cluster, NAMESPACE, "default", where)
        assert rights(cluster, NAMESPACE, "afflux", where) - everybody == ours


def test_what_it_must_not_do_is_refused(cluster: ControlPlane) -> None:
    install(cluster)
    for group, resources, verbs in EVERYWHERE:
        for resource, verb in product(resources, verbs):
            assert may(cluster, USER, **attributes(group, resource, verb)), (resource, verb)
    for group, resource, verbs in REFUSED:
        for verb in verbs:
            assert not may(cluster, USER, **attributes(group, resource, verb)), (resource, verb)


def test_deleting_has_to_be_asked_for(cluster: ControlPlane) -> None:
    jobs = {"group": "batch", "resource": "jobs"}
    install(cluster, config={"cleanup": {"enabled": False}})
    cluster.wait_for_account(NAMESPACE)
    before = rights(cluster, NAMESPACE, "afflux", "default")
    owners = [{"apiGroup": "example.org", "resource": "trainings"}]
    install(cluster, config={"cleanup": {"enabled": True}}, rbac={"cleanupOwners": owners})
    cluster.wait_until(lambda: may(cluster, USER, verb="delete", **jobs), "the right")
    more = {
        ("", ("pods",), ("delete",)),
        ("batch", ("jobs",), ("get", "delete")),
        ("apps", ("daemonsets", "deployments", "replicasets", "statefulsets"), ("get",)),
        ("jobset.x-k8s.io", ("jobsets",), ("get",)),
        ("example.org", ("trainings",), ("get", "delete")),
    }
    assert rights(cluster, NAMESPACE, "afflux", "default") - before == {
        (group, resource, "", verb)
        for group, resources, verbs in more
        for resource, verb in product(resources, verbs)
    }
    # Whoever only takes back what is half-bound deletes pods and nothing else.
    install(cluster, config={"cleanup": {"halfBoundAfter": "10m"}})
    cluster.wait_until(lambda: not may(cluster, USER, verb="delete", **jobs), "no right")
    only_pods = {("", "pods", "", "delete")}
    assert rights(cluster, NAMESPACE, "afflux", "default") - before == only_pods
    # Whoever turns it off again takes the rights back.
    install(cluster)
    cluster.wait_until(
        lambda: not may(cluster, USER, verb="delete", group="", resource="pods"), "no right"
    )


def test_of_all_leases_it_may_have_its_own(cluster: ControlPlane) -> None:
    install(cluster, config={"leaderElection": {"resourceName": "mine"}})

    def allowed(verb: str, name: str, namespace: str = "kube-system") -> bool:
        lease = attributes("coordination.k8s.io", "leases", verb, name=name, namespace=namespace)
        return may(cluster, USER, **lease)

    assert allowed("get", "mine")
    assert allowed("update", "mine")
    assert allowed("create", "")
    for verb in ("patch", "delete", "list", "watch"):
        assert not allowed(verb, "mine")
    for verb in ("get", "update"):
        assert not allowed(verb, "kube-scheduler")
        assert not allowed(verb, "afflux")  # an earlier installation's
        assert not allowed(verb, "mine", NAMESPACE)
    assert not allowed("create", "", NAMESPACE)


def kind_of(path: str) -> tuple[str, str]:
    """Group and plural of a collection: /api/v1/pods, /apis/storage.k8s.io/v1/csinodes."""
    _, root, *parts = path.split("/")
    return ("" if root == "api" else parts[0], parts[-1])


def test_everything_that_afflux_follows_can_be_listed_and_watched(cluster: ControlPlane) -> None:
    install(cluster)
    mirror = Mirror(["afflux"])
    kinds = [kind_of(each.collection.path) for each in always_there(mirror)]
    kinds += [(each.group, each.plural) for each in maybe_there(mirror)]
    assert ("", "pods") in kinds
    for (group, resource), verb in product(kinds, ("list", "watch")):
        right = attributes(group, resource, verb, namespace="")
        assert may(cluster, USER, **right), (resource, verb)


def test_kube_schedulers_own_rights_are_enough_for_the_static_pod(cluster: ControlPlane) -> None:
    cluster.kubectl("apply", "--server-side", "-f", str(STATIC_POD / "rbac.yaml"))
    user = "system:kube-scheduler"
    podgroups = attributes("scheduling.x-k8s.io", "podgroups", "list")
    cluster.wait_until(lambda: may(cluster, user, **podgroups), "the right to read PodGroups")
    for group, resources, verbs in EVERYWHERE:
        for resource, verb in product(resources, verbs):
            assert may(cluster, user, **attributes(group, resource, verb)), (resource, verb)
    lease = read_configuration(str(STATIC_POD / "config.yaml")).leader_election
    for verb, name in (
        ("get", lease.resource_name),
        ("update", lease.resource_name),
        ("create", ""),
    ):
        right = attributes(
            "coordination.k8s.io", "leases", verb, name=name, namespace=lease.resource_namespace
        )
        assert may(cluster, user, **right), verb
