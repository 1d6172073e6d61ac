"""References to API objects, for events and conditions about them."""

import msgspec

from afflux.kube import objects


class PodRef(msgspec.Struct, frozen=True, gc=False):
    """A reference to a pod. The uid distinguishes it from an earlier pod of the same name. The
    resource version, empty if unknown, says which state of the pod was seen last."""

    namespace: str
    name: str
    uid: str
    resource_version: str = ""

    @property
    def path(self) -> str:
        """The path of the pod in the API."""
        return pod_path(f"{self.namespace}/{self.name}")


class ObjectRef(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """An ObjectReference to an object of any kind, as events spell it."""

    api_version: str
    kind: str
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


def pod_ref(pod: objects.Pod) -> PodRef:
    """The reference to a pod as it was seen."""
    metadata = pod.metadata
    return PodRef(
        metadata.namespace or "",
        metadata.name or "",
        metadata.uid or "",
        metadata.resource_version or "",
    )


def pod_path(name: str) -> str:
    """The API path of a pod, by its namespace/name."""
    namespace, _, name = name.partition("/")
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def pod_object_ref(pod: PodRef) -> ObjectRef:
    """The reference to a pod as a reference to any object."""
    return ObjectRef("v1", "Pod", pod.namespace, pod.name, pod.uid, pod.resource_version)
