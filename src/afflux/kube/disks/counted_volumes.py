"""Which volumes of a pod are on a disk of its node, so that what the pod does on them counts.

| counts                                                | does not count                          |
|-------------------------------------------------------|-----------------------------------------|
| emptyDir, hostPath                                    | emptyDir in memory                      |
| a claim, or an ephemeral volume, of a local volume    | a claim of a volume that is attached    |
|                                                       | over the network                        |
|                                                       | all other types                         |
"""

import msgspec

from afflux.kube import objects
from afflux.kube.volumes.storage import Storage
from afflux.kube.volumes.volume_sources import VolumeSource, claim_name, ephemeral_name

_NULL = b"null"
_name = msgspec.json.Decoder(str | None)


class _EmptyDir(objects.Fields, frozen=True, gc=False):
    medium: str | None = None


_empty_dir = msgspec.json.Decoder(_EmptyDir)


def volume_named(pod: objects.Pod, name: str) -> tuple[int, VolumeSource] | None:
    """The pod's volume of this name and its index, None if there is none."""
    for index, volume in enumerate(pod.spec.volumes or ()):
        if "name" in volume and _decoded_name(volume) == name:
            return index, volume
    return None


def counts(pod: objects.Pod, volume: VolumeSource, index: int, storage: Storage | None) -> bool:
    """Whether this volume of the pod is on a disk of its node. Without `storage`, claims are not
    known and do not count."""
    if bytes(volume.get("hostPath", _NULL)) != _NULL:
        return True
    empty_dir = bytes(volume.get("emptyDir", _NULL))
    if empty_dir != _NULL:
        return not _is_in_memory(empty_dir)
    if storage is None:
        return False
    namespace = pod.metadata.namespace or "default"
    if (claim := claim_name(volume, index)) is not None:
        return storage.cache.is_local(f"{namespace}/{claim}")
    if (ephemeral := ephemeral_name(volume, index)) is not None:
        return storage.cache.is_local(f"{namespace}/{pod.metadata.name or ''}-{ephemeral}")
    return False


def _is_in_memory(empty_dir: bytes) -> bool:
    try:
        medium = _empty_dir.decode(empty_dir).medium or ""
    except (msgspec.MsgspecError, ValueError):
        # The API server has no such medium.
        return False
    return medium == "Memory" or medium.startswith("HugePages")


def _decoded_name(volume: VolumeSource) -> str | None:
    try:
        return _name.decode(volume["name"])
    except (msgspec.MsgspecError, ValueError):
        return None
