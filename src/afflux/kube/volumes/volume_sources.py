"""The few volumes of a pod whose contents matter: claims, ephemeral ones, images.

The keys of a volume say of which kind it is. What most of them hold is never decoded.
"""

from typing import TypeVar

import msgspec

from afflux.kube import objects
from afflux.kube.complaints import field_complaint, json_complaint
from afflux.model.errors import InputError

VolumeContents = dict[str, msgspec.Raw]

T = TypeVar("T")

_claim = msgspec.json.Decoder(objects.ClaimVolume | None)
_image = msgspec.json.Decoder(objects.ImageVolume | None)
_name = msgspec.json.Decoder(str | None)


def claim_name(volume: VolumeContents, index: int) -> str | None:
    """The name of the claim that the volume is, None if it is none."""
    stated = _decoded(_claim, volume, index, "persistentVolumeClaim")
    return None if stated is None else stated.claim_name or ""


def ephemeral_name(volume: VolumeContents, index: int) -> str | None:
    """The name of a volume for which a claim is made, None if none is."""
    if bytes(volume.get("ephemeral", b"null")) == b"null":
        return None
    return _decoded(_name, volume, index, "name") or ""


def image_reference(volume: VolumeContents, index: int) -> str | None:
    """The image that the volume is, None if it is none."""
    stated = _decoded(_image, volume, index, "image")
    return None if stated is None else stated.reference or ""


def _decoded(
    decoder: "msgspec.json.Decoder[T]", volume: VolumeContents, index: int, kind: str
) -> T | None:
    raw = volume.get(kind)
    if raw is None:
        return None
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        problem = field_complaint(error, bytes(raw))
    except (msgspec.DecodeError, ValueError) as error:
        problem = json_complaint(error)
    raise InputError(f"spec.volumes[{index}].{kind}: {problem}")
