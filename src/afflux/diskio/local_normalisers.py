"""The normalisers of the driver's own disks: given contents, or tables made from profiles.

They are the operator's own files, so that no signature is asked for. What the driver serves to the
scheduler are the same bytes.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from afflux.diskio.device_profile import DeviceProfile
from afflux.diskio.normaliser_pages import normaliser_content
from afflux.model.disks import Bandwidth, Normalise, VolumeIO, as_stated
from afflux.normalisers.errors import NormaliserRefusedError
from afflux.normalisers.normaliser import load_normaliser

# A rate is asked about once for each report and disk.
_CACHED_ESTIMATES = 4096


def contents_by_model(
    profiles: Sequence[DeviceProfile], given: Mapping[str, bytes]
) -> dict[str, bytes]:
    """The content for the model of each profile: the given one, else a table made from it."""
    made = {each.model: normaliser_content(each) for each in profiles if each.model}
    return made | dict(given)


def local_normalise(contents: Mapping[str, bytes]) -> Normalise:
    """Normalises by these contents; an InputError if one cannot be loaded."""
    loaded = {model: load_normaliser(content) for model, content in contents.items()}

    @lru_cache(_CACHED_ESTIMATES)
    def normalise(model: str, volume: VolumeIO) -> Bandwidth | None:
        normaliser = loaded.get(model)
        if normaliser is None:
            return as_stated(model, volume)
        try:
            return normaliser.estimate(volume).taken
        except NormaliserRefusedError:
            return None

    return normalise
