"""Contents, keys and signed entries for tests."""

import json
from typing import Any

from afflux.normalisers.catalogue import Catalogue, Entry, parse_entry
from afflux.normalisers.signatures import (
    Signed,
    content_digest,
    parse_private_key,
    private_key_pem,
    public_key,
    sign,
)

PRIVATE = {name: parse_private_key(private_key_pem(name.encode() * 16)) for name in ("k1", "k2")}
KEYS = {name: public_key(key) for name, key in PRIVATE.items()}


def table(factor: float, name: str = "NV100") -> bytes:
    """A table in which every byte costs this factor."""
    factors = {"4k": factor}
    found = {"kind": "DiskCoefficients", "name": name, "read": factors, "write": factors}
    return json.dumps(found).encode()


def signed(
    content: bytes = table(2),
    version: int = 1,
    *,
    model: str = "NV100",
    key: str = "k1",
    **changes: object,
) -> dict[str, Any]:
    """An entry as the ConfigMap has it; `changes` are made after it was signed."""
    covered = Signed("Acme", model, version, content_digest(content))
    entry = {
        "vendorName": "Acme",
        "model": model,
        "version": version,
        "digest": covered.digest,
        "keyId": key,
        "signature": sign(PRIVATE[key], covered),
    }
    return {name: value for name, value in (entry | changes).items() if value is not None}


def entry(*arguments: Any, **more: Any) -> Entry:
    return parse_entry(signed(*arguments, **more))


def listed(*entries: Entry) -> Catalogue:
    return Catalogue(entries)
