"""afflux as the chart installs it, without containers: everything but the Deployment.

The process under test runs here, not in a pod, with the kubeconfig of the chart's service account:
the rights that are shipped and no more.
"""

import json
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from testbed import ControlPlane, Manifest, build_helm

CHART = Path(__file__).parents[2] / "charts" / "afflux"
NAMESPACE = "afflux-system"
RELEASE = "afflux"

# Left out when it is installed for real: nobody here could run the pods.
RUNS_PODS = "Deployment"
RIGHTS = ("clusterrolebindings", "clusterroles", "rolebindings", "roles")


def install(
    control_plane: ControlPlane,
    namespace: str = NAMESPACE,
    *,
    release: str = RELEASE,
    **values: Any,
) -> Path:
    """Apply the chart with these values; the kubeconfig of its service account.

    `install(plane, config={"profiles": [{"schedulerName": "batch"}]})` grants what the chart
    grants with these values; rights that an earlier installation of this release left are gone.
    """
    manifests = [each for each in render(namespace, release, **values) if _applies(each)]
    revoke(control_plane, release)
    control_plane.kubectl("apply", "--server-side", "-f", "-", input=_namespace(namespace))
    control_plane.kubectl(
        "apply", "--server-side", "--force-conflicts", "-f", "-", input=_listed(manifests)
    )
    (account,) = (each for each in manifests if each["kind"] == "ServiceAccount")
    name = account["metadata"]["name"]
    user = f"system:serviceaccount:{namespace}:{name}"
    bound = {
        (each["roleRef"]["kind"], each["roleRef"]["name"])
        for each in manifests
        if "roleRef" in each
    }
    # The API server hears of new roles by watches of its own, a moment later.
    for role in manifests:
        if (role["kind"], role["metadata"]["name"]) in bound:
            control_plane.wait_until(
                lambda role=role: all(
                    may(control_plane, user, **right) for right in _first_rights(role)
                ),
                f"the rights of {role['kind']} {role['metadata']['name']}",
            )
    return control_plane.service_account_kubeconfig(namespace, name)


def revoke(control_plane: ControlPlane, release: str = RELEASE) -> None:
    """Take back what an installation granted: roles outlive the namespace that asked for them."""
    for kind in RIGHTS:
        control_plane.kubectl(
            "delete", kind, "-A", f"--selector=app.kubernetes.io/instance={release}"
        )


def may(control_plane: ControlPlane, user: str, **attributes: str) -> bool:
    """Whether the API server lets this user do that; attributes as in a SubjectAccessReview."""
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
    """The text of the configuration file among them."""
    (found,) = (each for each in manifests if each["kind"] == "ConfigMap")
    return found["data"]["config.yaml"]


def helm(*arguments: str, input: str | None = None) -> str:  # noqa: A002 - as subprocess calls it
    """Run helm; what it printed."""
    done = subprocess.run(
        [_helm(), *arguments],
        input=input,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if done.returncode != 0:
        raise RuntimeError(f"helm {' '.join(arguments)}: {done.stderr.strip() or done.stdout}")
    return done.stdout


@cache
def _helm() -> str:
    return str(build_helm())


def _applies(manifest: Manifest) -> bool:
    return manifest["kind"] != RUNS_PODS


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


def _namespace(name: str) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def _listed(manifests: list[Manifest]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
