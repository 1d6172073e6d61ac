"""Normalisers that are given as files, beside the objects of a dry run.

Without keys they are accepted unsigned: the user has named the files. With keys they must be signed
as in a live cluster.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from afflux.kube import objects
from afflux.kube.disks.disk_vendors import listed_normalisers
from afflux.normalisers import coefficient_table
from afflux.normalisers.catalogue import Entry
from afflux.normalisers.errors import NormaliserRefusedError
from afflux.normalisers.normaliser import WASM_MAGIC, load_normaliser
from afflux.normalisers.registry import NormaliserRegistry
from afflux.normalisers.signatures import content_digest

Source = tuple[str, bytes]
"""The name of a file and its content."""


class _Header(msgspec.Struct, frozen=True):
    kind: object = None


_header = msgspec.json.Decoder(_Header)


def split_contents(sources: Iterable[Source]) -> tuple[list[Source], list[Source]]:
    """The files with objects, and those with the content of a normaliser."""
    objects_of: list[Source] = []
    contents: list[Source] = []
    for source in sources:
        (contents if _is_content(source[1]) else objects_of).append(source)
    return objects_of, contents


def registry_of_files(
    config_map: objects.ConfigMap | None, contents: Sequence[Source], keys: Mapping[str, bytes]
) -> tuple[NormaliserRegistry, list[str]]:
    """The registry with the contents that the entries of the ConfigMap select, and notes for the
    owner of the files; NormaliserRefusedError if there is no list of entries."""
    registry = NormaliserRegistry(keys, trust_unsigned=not keys)
    registry.set_entries(listed_normalisers(config_map))
    used: set[str] = set()
    for entry in registry.wanted():
        found = next((each for each in contents if _is_for(entry, each)), None)
        if found is None:
            registry.unavailable(entry, "none of the given files is its content")
            continue
        used.add(found[0])
        registry.offer(entry, found[1])
    notes = [
        f"the normaliser of {model} is not signed by a trusted key (diskIO.trustedKeys)"
        for model, each in registry.in_use().items()
        if not each.is_verified
    ]
    notes += [
        f"no normaliser of {each.disk_model or 'a disk model'}: {each.message}"
        for each in registry.problems()
    ]
    notes += [
        f"{file}: no entry of the ConfigMap selects this normaliser"
        for file, _ in contents
        if file not in used
    ]
    return registry, notes


def _is_content(data: bytes) -> bool:
    if data.startswith(WASM_MAGIC):
        return True
    if not data.lstrip().startswith(b"{"):
        return False
    try:
        return _header.decode(data).kind == coefficient_table.KIND
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False


def _is_for(entry: Entry, source: Source) -> bool:
    """Whether this is the content of the entry: by its digest, else by the name of the model."""
    if entry.digest is not None:
        return content_digest(source[1]) == entry.digest
    try:
        name = load_normaliser(source[1]).name
    except NormaliserRefusedError:
        return False
    return name in {entry.disk_model, f"{entry.vendor} {entry.model}"}
