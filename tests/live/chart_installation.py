"""Installs the objects of the chart except for the Deployment, as there are no containers here.

The scheduler under test runs as a local process with the kubeconfig of the chart's service account,
so that it has exactly the rights that the chart grants.
"""

import json
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from testbed import ControlPlane, Manifest, build_helm
from testbed.api import ApiError

CHART = Path(__file__).parents[2] / "charts" / "afflux"
NAMESPACE = "afflux-system"
RELEASE = "afflux"

# Not installed: the testbed cannot run containers.
SKIPPED_KINDS = ("Deployment", "DaemonSet")
RBAC_RESOURCES = ("clusterrolebindings", "clusterroles", "rolebindings", "roles")


def install(
    control_plane: ControlPlane,
    namespace: str = NAMESPACE,
    *,
    release: str = RELEASE,
    account: str = "",
    **values: Any,
) -> Path:
    """Apply the chart with these values; returns the kubeconfig of its service account, or of the
    named one.

    `install(plane, config={"profiles": [{"schedulerName": "batch"}]})` grants what the chart
    grants with these values; the rights of an earlier installation of the release are removed.
    """
    manifests = [each for each in render(namespace, release, **values) if _applies(each)]
    revoke(control_plane, release)
    control_plane.kubectl("apply", "--server-side", "-f", "-", input=_namespace(namespace))
    control_plane.kubectl(
        "apply", "--server-side", "--force-conflicts", "-f", "-", input=_listed(manifests)
    )
    for definition in manifests:
        if definition["kind"] == "CustomResourceDefinition":
            _wait_served(control_plane, definition["spec"])
    accounts = [each["metadata"]["name"] for each in manifests if each["kind"] == "ServiceAccount"]
    # Those of other parts have longer names.
    name = account or min(accounts, key=len)
    users = {
        (each["roleRef"]["kind"], each["roleRef"]["name"]): "system:serviceaccount:"
        f"{each['subjects'][0]['namespace']}:{each['subjects'][0]['name']}"
        for each in manifests
        if each.get("subjects", [{}])[0].get("kind") == "ServiceAccount"
    }
    # The API server learns of new roles by its own watches, a moment later.
    for role in manifests:
        if user := users.get((role["kind"], role["metadata"]["name"])):
            control_plane.wait_until(
                lambda role=role, user=user: all(
                    is_allowed(control_plane, user, **right) for right in _first_rights(role)
                ),
                f"the rights of {role['kind']} {role['metadata']['name']}",
            )
    return control_plane.service_account_kubeconfig(namespace, name)


def revoke(control_plane: ControlPlane, release: str = RELEASE) -> None:
    """Delete the roles and bindings of a release; they outlive its namespace."""
    for kind in RBAC_RESOURCES:
        control_plane.kubectl(
            "delete", kind, "-A", f"--selector=app.kubernetes.io/instance={release}"
        )


def is_allowed(control_plane: ControlPlane, user: str, **attributes: str) -> bool:
    """Whether this user has a right; attributes as in a SubjectAccessReview."""
    review: Manifest = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": attributes},
    }
    answer = control_plane.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return answer["status"]["allowed"]


def render(
    namespace: str = NAMESPACE, release: str = RELEASE, *options: str, **values: Any
) -> list[Manifest]:
    """The manifests that helm would install."""
    printed = helm(
        "template", release, str(CHART), "--namespace", namespace, "--values", "-", *options,
        input=json.dumps(values),
    )  # fmt: skip
    return [each for each in yaml.safe_load_all(printed) if each is not None]


def configuration(manifests: list[Manifest]) -> str:
    """The text of the configuration file in the ConfigMap."""
    (found,) = (each for each in manifests if each["kind"] == "ConfigMap")
    return found["data"]["config.yaml"]


def helm(*arguments: str, input: str | None = None) -> str:  # noqa: A002 - as subprocess calls it
    """Run helm; returns its output."""
    done = subprocess.run(
        [_helm(), *arguments], input=input, capture_output=True, text=True, check=False, timeout=120
    )
    if done.returncode != 0:
        raise RuntimeError(f"helm {' '.join(arguments)}: {done.stderr.strip() or done.stdout}")
    return done.stdout


@cache
def _helm() -> str:
    return str(build_helm())


def _applies(manifest: Manifest) -> bool:
    return manifest["kind"] not in SKIPPED_KINDS


def _first_rights(role: Manifest) -> Iterator[dict[str, str]]:
    """One right of each rule."""
    for rule in role["rules"]:
        resource, _, subresource = rule["resources"][0].partition("/")
        yield {
            "namespace": role["metadata"].get("namespace", ""),
            "group": rule["apiGroups"][0],
            "resource": resource,
            "subresource": subresource,
            "name": next(iter(rule.get("resourceNames", ())), ""),
            "verb": rule["verbs"][0],
        }


def _wait_served(plane: ControlPlane, spec: Manifest) -> None:
    path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}"

    def is_served() -> bool:
        try:
            listed = plane.api.get(path)["resources"]
        except ApiError:
            return False
        return any(each["name"] == spec["names"]["plural"] for each in listed)

    plane.wait_until(is_served, path)


def _namespace(name: str) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def _listed(manifests: list[Manifest]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
