"""The volumes of a pod that matter here: claims, ephemeral volumes, images.

The keys of a volume name its type. The content of other types is never decoded.
"""

from typing import TypeVar

import msgspec

from afflux.kube import objects
from afflux.kube.input_errors import field_error, json_error
from afflux.model.errors import InputError

VolumeSource = dict[str, msgspec.Raw]

T = TypeVar("T")

_claim = msgspec.json.Decoder(objects.ClaimVolume | None)
_image = msgspec.json.Decoder(objects.ImageVolume | None)
_name = msgspec.json.Decoder(str | None)


def claim_name(volume: VolumeSource, index: int) -> str | None:
    """The claim of a persistentVolumeClaim volume, None for other types."""
    stated = _decoded(_claim, volume, index, "persistentVolumeClaim")
    return None if stated is None else stated.claim_name or ""


def ephemeral_name(volume: VolumeSource, index: int) -> str | None:
    """The name of an ephemeral volume, None for other types."""
    if bytes(volume.get("ephemeral", b"null")) == b"null":
        return None
    return _decoded(_name, volume, index, "name") or ""


def image_reference(volume: VolumeSource, index: int) -> str | None:
    """The image of an image volume, None for other types."""
    stated = _decoded(_image, volume, index, "image")
    return None if stated is None else stated.reference or ""


def _decoded(
    decoder: "msgspec.json.Decoder[T]", volume: VolumeSource, index: int, kind: str
) -> T | None:
    raw = volume.get(kind)
    if raw is None:
        return None
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        problem = field_error(error, bytes(raw))
    except (msgspec.DecodeError, ValueError) as error:
        problem = json_error(error)
    raise InputError(f"spec.volumes[{index}].{kind}: {problem}")
