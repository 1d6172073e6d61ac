"""The ConfigMap that lists the normalisers of disk models: its key `diskVendors`."""

import msgspec

from afflux.kube import objects
from afflux.kube.input_errors import shown
from afflux.normalisers.catalogue import Catalogue, parse_catalogue
from afflux.normalisers.errors import NormaliserRefusedError

KEY = "diskVendors"
NO_ENTRIES = Catalogue()

_text = msgspec.json.Decoder(str | None)


def listed_normalisers(config_map: objects.ConfigMap | None) -> Catalogue:
    """The entries of the ConfigMap, none without one; NormaliserRefusedError if it has a list that
    cannot be read."""
    raw = None if config_map is None else (config_map.data or {}).get(KEY)
    if raw is None:
        return NO_ENTRIES
    try:
        text = _text.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise NormaliserRefusedError(
            f"{KEY}: {shown(bytes(raw).decode(errors='replace'))}, expected a text"
        ) from None
    try:
        return parse_catalogue((text or "").encode(errors="replace"))
    except NormaliserRefusedError as error:
        raise NormaliserRefusedError(f"{KEY}: {error}") from None
