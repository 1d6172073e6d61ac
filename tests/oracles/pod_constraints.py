"""Manifests of pods with constraints between them, for examples."""

from oracles.kubernetes_filters import REQUIRED, Manifest, bound


def pod(name: str, app: str, node: str = "", **spec: object) -> Manifest:
    """A pod of the namespace `red` with the label `app`; bound, if a node is given."""
    requests = {"resources": {"requests": {"cpu": "0"}}}
    found = {
        "metadata": {"name": name, "namespace": "red", "labels": {"app": app}},
        "spec": {"containers": [requests], **spec},
    }
    return bound(found, node) if node else found


def affinity(kind: str, app: str, key: str) -> Manifest:
    """A required term of `podAffinity` or `podAntiAffinity`, as a field of a pod's spec."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {"affinity": {kind: {REQUIRED: [term]}}}


def spread(app: str, key: str, **more: object) -> Manifest:
    """A required spread constraint with a maximum skew of 1, as a field of a pod's spec."""
    selector = {"matchLabels": {"app": app}}
    constraint = {"labelSelector": selector, "topologyKey": key, "maxSkew": 1, **more}
    return {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule", **constraint}]}
