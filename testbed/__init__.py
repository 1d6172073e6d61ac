"""A real Kubernetes control plane on loopback, without containers, for tests and benchmarks.

What belongs here: building and running etcd, the API server, the controller manager, the peer
scheduler and fake machines; reading the truth back from the API server. What does not: anything
of afflux. The testbed never imports the package it is there to test.
"""

from testbed.api import Api, ApiError, Manifest
from testbed.building import BuildError, build, build_helm, build_load
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
    "build_helm",
    "build_load",
]
