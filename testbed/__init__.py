"""A real Kubernetes control plane on loopback, without containers, for tests and benchmarks.

What belongs here: building and running etcd, the API server, the controller manager,
kube-scheduler and fake machines, and checks of the cluster against the API server. It never
imports afflux, the package under test.
"""

from testbed.api import Api, ApiError, Manifest
from testbed.building import BuildError, build, build_e2e, build_helm, build_load
from testbed.control_plane import ControlPlane
from testbed.processes import StartError

__all__ = [
    "Api",
    "ApiError",
    "BuildError",
    "ControlPlane",
    "Manifest",
    "StartError",
    "build",
    "build_e2e",
    "build_helm",
    "build_load",
]
