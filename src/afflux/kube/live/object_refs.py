"""Names of objects, as those carry them who speak about an object without holding it."""

import msgspec


class PodRef(msgspec.Struct, frozen=True, gc=False):
    """Which pod. The uid tells it from an earlier one of its name, the resource version says how
    old our knowledge of it is; empty if unknown."""

    namespace: str
    name: str
    uid: str
    resource_version: str = ""


class ObjectRef(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Which object of any kind, as events spell it."""

    api_version: str
    kind: str
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


def of_pod(pod: PodRef) -> ObjectRef:
    """The pod as an object among others."""
    return ObjectRef("v1", "Pod", pod.namespace, pod.name, pod.uid, pod.resource_version)
