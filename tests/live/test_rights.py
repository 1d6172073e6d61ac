"""The rights that the chart grants: exactly those that afflux needs."""

from itertools import product

from chart_installation import CHART, NAMESPACE, install, is_allowed
from testbed import ControlPlane, Manifest

from afflux.config import read_configuration
from afflux.kube.live.watched_kinds import optional_kinds, required_kinds
from afflux.kube.reader.cluster_reader import ClusterReader

STATIC_POD = CHART.parents[1] / "deploy" / "static-pod"
USER = f"system:serviceaccount:{NAMESPACE}:afflux"

READ = ("get", "list", "watch")
# Only for default spread constraints: which pods belong together.
DEFAULT_CONSTRAINTS = (
    ("", ("services", "replicationcontrollers"), READ),
    ("apps", ("replicasets", "statefulsets"), READ),
)
# Unless no profile preempts.
PREEMPTION = (
    ("", ("pods",), ("delete",)),
    ("policy", ("poddisruptionbudgets",), READ),
)
NEVER_PREEMPTS = {"profiles": [{"preemption": {"enabled": False}}]}
# Everything that the service account may do in any namespace: group, resources, verbs.
EVERYWHERE = (
    ("", ("nodes", "pods", "namespaces"), READ),
    ("", ("pods/binding",), ("create",)),
    ("", ("pods/status",), ("patch",)),
    ("", ("persistentvolumeclaims", "persistentvolumes"), (*READ, "patch")),
    ("storage.k8s.io", ("storageclasses", "csinodes", "csidrivers", "csistoragecapacities"), READ),
    *DEFAULT_CONSTRAINTS,
    *PREEMPTION,
    ("scheduling.k8s.io", ("podgroups",), READ),
    ("scheduling.x-k8s.io", ("podgroups",), READ),
    ("events.k8s.io", ("events",), ("create", "patch")),
)
REFUSED = (
    ("", "secrets", READ),
    ("", "configmaps", READ),
    ("", "serviceaccounts", ("get", "impersonate")),
    ("", "serviceaccounts/token", ("create",)),
    ("", "pods", ("create", "update", "patch", "deletecollection")),
    ("", "pods/exec", ("create", "get")),
    ("", "pods/eviction", ("create",)),
    ("", "pods/log", ("get",)),
    ("", "pods/status", ("update",)),
    ("", "nodes", ("create", "update", "patch", "delete")),
    ("", "nodes/status", ("patch",)),
    ("", "nodes/proxy", ("get",)),
    ("", "namespaces", ("create", "patch", "delete")),
    ("", "services", ("create", "patch", "delete")),
    ("", "services/status", ("get", "patch")),
    ("", "endpoints", READ),
    ("", "events", ("create", "list")),
    ("", "persistentvolumes", ("create", "update", "delete")),
    ("", "persistentvolumeclaims", ("create", "update", "delete")),
    ("events.k8s.io", "events", ("list", "delete")),
    ("storage.k8s.io", "storageclasses", ("create", "patch")),
    ("storage.k8s.io", "csinodes", ("patch",)),
    ("scheduling.k8s.io", "podgroups", ("create", "patch", "delete")),
    ("apps", "deployments", (*READ, "patch")),
    ("apps", "daemonsets", READ),
    ("apps", "replicasets", ("create", "patch", "delete")),
    ("apps", "statefulsets", ("create", "patch", "delete")),
    ("rbac.authorization.k8s.io", "clusterroles", ("get", "escalate", "bind")),
)


def rights(cluster: ControlPlane, namespace: str, account: str, where: str) -> set[tuple[str, ...]]:
    """The rights of an account as the API server lists them: group, resource, name, verb."""
    token = cluster.service_account_token(namespace, account)
    api = cluster.api_with_token(token)
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
            rule["apiGroups"], rule["resources"], rule.get("resourceNames", [""]), rule["verbs"]
        )
    }


def attributes(group: str, resource: str, verb: str, **more: str) -> dict[str, str]:
    """The resource attributes of a SubjectAccessReview."""
    resource, _, subresource = resource.partition("/")
    return {
        "group": group,
        "resource": resource,
        "subresource": subresource,
        "verb": verb,
        "namespace": "default",
        **more,
    }


def test_the_service_account_has_exactly_the_rights_it_needs(cluster: ControlPlane) -> None:
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
        default_rights = rights(cluster, NAMESPACE, "default", where)
        assert rights(cluster, NAMESPACE, "afflux", where) - default_rights == ours


def test_other_requests_are_refused(cluster: ControlPlane) -> None:
    install(cluster)
    for group, resources, verbs in EVERYWHERE:
        for resource, verb in product(resources, verbs):
            assert is_allowed(cluster, USER, **attributes(group, resource, verb)), (resource, verb)
    for group, resource, verbs in REFUSED:
        for verb in verbs:
            assert not is_allowed(cluster, USER, **attributes(group, resource, verb)), (
                resource,
                verb,
            )


def test_rights_to_delete_are_granted_only_when_configured(cluster: ControlPlane) -> None:
    jobs = {"group": "batch", "resource": "jobs"}
    install(cluster, config={"cleanup": {"enabled": False}, **NEVER_PREEMPTS})
    cluster.wait_for_account(NAMESPACE)
    before = rights(cluster, NAMESPACE, "afflux", "default")
    owners = [{"apiGroup": "example.org", "resource": "trainings"}]
    install(
        cluster,
        config={"cleanup": {"enabled": True}, **NEVER_PREEMPTS},
        rbac={"cleanupOwners": owners},
    )
    cluster.wait_until(lambda: is_allowed(cluster, USER, verb="delete", **jobs), "the right")
    deletes = {
        ("", "pods", "", "delete"),
        ("batch", "jobs", "", "delete"),
        ("example.org", "trainings", "", "delete"),
    }
    reads = {
        ("batch", "jobs", "", "get"),
        # Other controllers are read for the default constraints already.
        ("apps", "daemonsets", "", "get"),
        ("apps", "deployments", "", "get"),
        ("jobset.x-k8s.io", "jobsets", "", "get"),
        ("example.org", "trainings", "", "get"),
    }
    assert rights(cluster, NAMESPACE, "afflux", "default") - before == deletes | reads
    # The cleanup of completed groups needs the same.
    install(
        cluster,
        config={"cleanup": {"finished": True}, **NEVER_PREEMPTS},
        rbac={"cleanupOwners": owners},
    )
    cluster.wait_until(lambda: is_allowed(cluster, USER, verb="delete", **jobs), "the right")
    assert rights(cluster, NAMESPACE, "afflux", "default") - before == deletes | reads
    # The rollback of half-bound groups reads controllers, and deletes pods and nothing else.
    rollback = {"halfBoundAfter": "10m"}
    install(cluster, config={"cleanup": rollback, **NEVER_PREEMPTS}, rbac={"cleanupOwners": owners})
    cluster.wait_until(lambda: not is_allowed(cluster, USER, verb="delete", **jobs), "no right")
    only_pods = {("", "pods", "", "delete")}
    assert rights(cluster, NAMESPACE, "afflux", "default") - before == only_pods | reads
    # Turning it off removes the rights.
    install(cluster, config=NEVER_PREEMPTS)
    cluster.wait_until(
        lambda: not is_allowed(cluster, USER, verb="delete", group="", resource="pods"), "no right"
    )


def test_services_and_owners_may_be_read_only_for_default_constraints(
    cluster: ControlPlane,
) -> None:
    install(cluster)
    cluster.wait_for_account(NAMESPACE)
    before = rights(cluster, NAMESPACE, "afflux", "default")
    off = {"topologySpread": {"defaultingType": "List", "defaultConstraints": []}}
    install(cluster, config=off)
    services = attributes("", "services", "list")
    cluster.wait_until(lambda: not is_allowed(cluster, USER, **services), "no right")
    assert before - rights(cluster, NAMESPACE, "afflux", "default") == {
        (group, resource, "", verb)
        for group, resources, verbs in DEFAULT_CONSTRAINTS
        for resource, verb in product(resources, verbs)
    }
    assert not kinds_without_right(cluster, default_constraints=False)


def test_only_its_own_lease_may_be_changed(cluster: ControlPlane) -> None:
    install(cluster, config={"leaderElection": {"resourceName": "mine"}})

    def allowed(verb: str, name: str, namespace: str = "kube-system") -> bool:
        lease = attributes("coordination.k8s.io", "leases", verb, name=name, namespace=namespace)
        return is_allowed(cluster, USER, **lease)

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


def kinds_without_right(
    cluster: ControlPlane, *, default_constraints: bool
) -> list[tuple[str, str]]:
    """The watched kinds that the service account may not list or watch, with the verb."""
    reader = ClusterReader(["afflux"], evicts=True)
    required = required_kinds(reader, default_constraints=default_constraints)
    kinds = [kind_of(each.collection.path) for each in required]
    kinds += [(each.group, "podgroups") for each in optional_kinds(reader)]
    assert ("", "pods") in kinds
    assert (("apps", "replicasets") in kinds) == default_constraints
    return [
        (resource, verb)
        for (group, resource), verb in product(kinds, ("list", "watch"))
        if not is_allowed(cluster, USER, **attributes(group, resource, verb, namespace=""))
    ]


def test_all_watched_kinds_may_be_listed_and_watched(cluster: ControlPlane) -> None:
    install(cluster)
    assert not kinds_without_right(cluster, default_constraints=True)


def test_the_rights_of_kube_scheduler_are_enough_for_the_static_pod(cluster: ControlPlane) -> None:
    cluster.kubectl("apply", "--server-side", "-f", str(STATIC_POD / "rbac.yaml"))
    user = "system:kube-scheduler"
    podgroups = attributes("scheduling.x-k8s.io", "podgroups", "list")
    cluster.wait_until(
        lambda: is_allowed(cluster, user, **podgroups), "the right to read PodGroups"
    )
    for group, resources, verbs in EVERYWHERE:
        for resource, verb in product(resources, verbs):
            assert is_allowed(cluster, user, **attributes(group, resource, verb)), (resource, verb)
    lease = read_configuration(str(STATIC_POD / "config.yaml")).leader_election
    for verb, name in (
        ("get", lease.resource_name),
        ("update", lease.resource_name),
        ("create", ""),
    ):
        right = attributes(
            "coordination.k8s.io", "leases", verb, name=name, namespace=lease.resource_namespace
        )
        assert is_allowed(cluster, user, **right), verb
