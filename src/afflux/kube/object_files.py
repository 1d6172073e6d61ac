"""Files to Kubernetes objects: JSON or YAML, single objects, lists, and lists of lists.

JSON lists are split into items without decoding, and each item is decoded into the struct of its
kind. YAML is converted to JSON first.
"""

import codecs
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

import msgspec

from afflux.kube import objects, yaml_reader
from afflux.kube.input_errors import field_error, json_error, shown
from afflux.model.errors import InputError

MAX_LIST_NESTING = 8

# Kinds by API group. Other kinds, and equal names in other groups, are ignored.
KINDS: dict[tuple[str, str], type[objects.Object]] = {
    ("", "Node"): objects.Node,
    ("", "Pod"): objects.Pod,
    ("", "ConfigMap"): objects.ConfigMap,
    ("", "Namespace"): objects.Namespace,
    ("", "PersistentVolume"): objects.PersistentVolume,
    ("", "PersistentVolumeClaim"): objects.PersistentVolumeClaim,
    ("", "Service"): objects.Service,
    ("", "ReplicationController"): objects.ReplicationController,
    ("apps", "ReplicaSet"): objects.ReplicaSet,
    ("apps", "StatefulSet"): objects.StatefulSet,
    ("storage.k8s.io", "StorageClass"): objects.StorageClass,
    ("storage.k8s.io", "CSINode"): objects.CSINode,
    ("storage.k8s.io", "CSIDriver"): objects.CSIDriver,
    ("storage.k8s.io", "CSIStorageCapacity"): objects.CSIStorageCapacity,
    ("ioi.intel.com", "NodeDiskIOInfo"): objects.NodeDiskIOInfo,
    ("policy", "PodDisruptionBudget"): objects.PodDisruptionBudget,
    ("scheduling.k8s.io", "PriorityClass"): objects.PriorityClass,
    ("scheduling.k8s.io", "PodGroup"): objects.NativePodGroup,
    ("scheduling.x-k8s.io", "PodGroup"): objects.CoschedulingPodGroup,
}
_KNOWN_NAMES = frozenset(kind for _, kind in KINDS)
_CLUSTER_WIDE = frozenset(
    {
        "Node",
        "Namespace",
        "PersistentVolume",
        "PriorityClass",
        "StorageClass",
        "CSINode",
        "CSIDriver",
    }
)
_ENCODINGS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

T_co = TypeVar("T_co", bound=objects.Object, covariant=True)
T = TypeVar("T", bound=objects.Object)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an object was read: the file, the document in it, the indexes in lists."""

    file: str
    document: int | None = None
    indexes: tuple[int, ...] = ()

    def item(self, index: int) -> "Origin":
        """The origin of an item of the list found here."""
        return Origin(self.file, self.document, (*self.indexes, index))

    def __str__(self) -> str:
        parts = [self.file]
        if self.document is not None:
            parts.append(f"document {self.document}")
        if self.indexes:
            parts.append(".".join(f"items[{index}]" for index in self.indexes))
        return ": ".join(parts)


@dataclass(frozen=True, slots=True)
class LoadedObject(Generic[T_co]):
    """An object with its kind, its name and its origin.

    `name` is namespace/name, or the name alone for cluster-wide kinds.
    """

    value: T_co
    kind: str
    name: str
    origin: Origin

    def error(self, problem: object) -> InputError:
        """The error for a problem with this object, on one line."""
        name = self.name if self.name.isprintable() else repr(self.name)
        return InputError(f"{self.origin}: {self.kind} {name}: {problem}")


@dataclass(frozen=True, slots=True)
class LoadedObjects:
    """The objects by kind, and the number of objects of ignored kinds."""

    _found: dict[type[objects.Object], dict[str, LoadedObject[objects.Object]]] = field(
        default_factory=dict[type[objects.Object], dict[str, LoadedObject[objects.Object]]]
    )
    ignored: Counter[str] = field(default_factory=Counter[str])

    def of(self, kind: type[T]) -> dict[str, LoadedObject[T]]:
        """The objects of one kind by name, in the order they were read."""
        return cast("dict[str, LoadedObject[T]]", self._found.get(kind, {}))

    def add(self, found: LoadedObject[objects.Object]) -> None:
        """Add an object; a second one of the same name is an error."""
        same_kind = self._found.setdefault(type(found.value), {})
        if (first := same_kind.setdefault(found.name, found)) is not found:
            raise found.error(f"given twice, first in {first.origin}")


class _Header(objects.Fields, frozen=True, gc=False):
    """The fields that tell the kind of an object, and whether it is a list."""

    api_version: str | None = None
    kind: str | None = None
    items: msgspec.Raw = msgspec.Raw()


class _Identity(objects.Fields, frozen=True, gc=False):
    name: str
    namespace: str | None = None


class _Named(objects.Fields, frozen=True, gc=False):
    """The identity of an object that cannot be decoded."""

    metadata: _Identity


_header = msgspec.json.Decoder(_Header)
_array = msgspec.json.Decoder(tuple[msgspec.Raw, ...])
_named = msgspec.json.Decoder(_Named)
_decoders = {kind: msgspec.json.Decoder(kind) for kind in KINDS.values()}


def read(sources: Sequence[tuple[str, bytes]]) -> LoadedObjects:
    """The objects of these (file name, content) pairs; an InputError for invalid input."""
    contents = LoadedObjects()
    for file, data in sources:
        for origin, document in _documents(file, data):
            _add_document(document, origin, contents)
    return contents


# --- Bytes to JSON documents


def _documents(file: str, data: bytes) -> Iterator[tuple[Origin, bytes]]:
    text = _utf8(file, data)
    start = text.lstrip()[:1]
    if not start:
        raise InputError(f"{file}: empty, expected Kubernetes objects in JSON or YAML")
    if start not in (b"{", b"["):
        return _yaml_documents(file, text)
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except msgspec.DecodeError as error:
        # It may be a YAML flow mapping, or several JSON texts in a row.
        if file.endswith((".yaml", ".yml")):
            return _yaml_documents(file, text)
        if "trailing characters" in str(error):
            return _json_sequence(file, text)
        raise InputError(f"{file}: not valid JSON: {json_error(error)}") from None
    except RecursionError:
        raise InputError(f"{file}: nested too deeply") from None
    return iter([(Origin(file), text)])


def _utf8(file: str, data: bytes) -> bytes:
    encoding = next((name for bom, name in _ENCODINGS if data.startswith(bom)), "utf-8")
    try:
        # Decoding only checks that it is text; the copy is used only with a byte order mark.
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(
            f"{file}: byte {error.start} is not {encoding} text, expected JSON or YAML"
        ) from None
    return data if encoding == "utf-8" else text.encode(errors="surrogatepass")


def _json_sequence(file: str, text: bytes) -> Iterator[tuple[Origin, bytes]]:
    """Several JSON texts in a row, as from `jq -c`."""
    decoder, decoded = json.JSONDecoder(), text.decode()
    number, index = 0, _after_space(decoded, 0)
    while index < len(decoded):
        number += 1
        try:
            _, end = decoder.raw_decode(decoded, index)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{file}: document {number}: not valid JSON: {error}") from None
        yield Origin(file, number), decoded[index:end].encode()
        index = _after_space(decoded, end)


def _after_space(text: str, index: int) -> int:
    while index < len(text) and text[index].isspace():
        index += 1
    return index


def _yaml_documents(file: str, text: bytes) -> Iterator[tuple[Origin, bytes]]:
    try:
        values = list(yaml_reader.documents(text.decode()))
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    if all(value is None for value in values):
        raise InputError(f"{file}: empty, expected Kubernetes objects in JSON or YAML")
    for number, value in enumerate(values, 1):
        if value is None:
            continue
        origin = Origin(file, number if len(values) > 1 else None)
        try:
            yield origin, msgspec.json.encode(value)
        except RecursionError:
            raise InputError(f"{origin}: nested too deeply") from None


# --- JSON documents to objects


def _add_document(document: bytes, origin: Origin, contents: LoadedObjects) -> None:
    if document.lstrip()[:1] != b"[":
        return _add_object(document, origin, contents)
    for index, item in enumerate(_decode(_array, document, origin)):
        _add_object(bytes(item), origin.item(index), contents)
    return None


def _add_object(
    raw: bytes, origin: Origin, contents: LoadedObjects, listed: _Header | None = None
) -> None:
    """Add the object, or the items of the list, in this JSON text."""
    header = _decode(_header, raw, origin)
    kind, api_version = header.kind, header.api_version
    if not kind and listed is not None and listed.kind and listed.kind != "List":
        # The API server leaves out the kind of items in a typed list.
        kind, api_version = listed.kind.removesuffix("List"), listed.api_version
    if not kind:
        raise _error(raw, origin, None, "kind: missing, expected one such as Pod")
    if not api_version:
        raise _error(raw, origin, kind, "apiVersion: missing, expected e.g. v1")
    if kind.endswith("List"):
        return _add_list(header, origin, contents)
    group = api_version.rpartition("/")[0]
    decoded_as = KINDS.get((group, kind))
    if decoded_as is None:
        contents.ignored[f"{kind}.{group}" if kind in _KNOWN_NAMES else kind] += 1
        return None
    value = _decode(_decoders[decoded_as], raw, origin, kind)
    metadata = value.metadata
    if not metadata.name:
        raise InputError(f"{origin}: {kind}: metadata.name: missing, expected a name")
    name = _full_name(kind, metadata.namespace, metadata.name)
    found = LoadedObject(_in_its_namespace(value, kind), kind, name, origin)
    for field_name, written in (("name", metadata.name), ("namespace", metadata.namespace)):
        if written and not objects.is_name(written):
            raise found.error(f"metadata.{field_name}: {shown(written)}, expected a plain name")
    return contents.add(found)


def _add_list(header: _Header, origin: Origin, contents: LoadedObjects) -> None:
    items = bytes(header.items)
    if items in (b"", b"null"):
        return
    if len(origin.indexes) >= MAX_LIST_NESTING:
        raise InputError(f"{origin}: lists nested more than {MAX_LIST_NESTING} deep")
    for index, item in enumerate(_decode(_array, items, origin, "items")):
        _add_object(bytes(item), origin.item(index), contents, header)


def _in_its_namespace(value: objects.Object, kind: str) -> objects.Object:
    """The object with the namespace that the API server gives it."""
    namespace = None if kind in _CLUSTER_WIDE else value.metadata.namespace or "default"
    if namespace == value.metadata.namespace:
        return value
    metadata = msgspec.structs.replace(value.metadata, namespace=namespace)
    return msgspec.structs.replace(value, metadata=metadata)


def _full_name(kind: str, namespace: str | None, name: str) -> str:
    return name if kind in _CLUSTER_WIDE else f"{namespace or 'default'}/{name}"


D = TypeVar("D")


def _decode(
    decoder: "msgspec.json.Decoder[D]", raw: bytes, origin: Origin, kind: str | None = None
) -> D:
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise _error(raw, origin, kind, field_error(error, raw)) from None
    except (msgspec.DecodeError, ValueError) as error:
        raise InputError(f"{origin}: not valid JSON: {json_error(error)}") from None
    except RecursionError:
        raise InputError(f"{origin}: nested too deeply") from None


def _error(raw: bytes, origin: Origin, kind: str | None, problem: str) -> InputError:
    """The error for an object that could not be decoded, with its name if that is known."""
    try:
        identity = _named.decode(raw).metadata
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return InputError(f"{origin}: {kind}: {problem}" if kind else f"{origin}: {problem}")
    name = _full_name(kind or "", identity.namespace, identity.name)
    return LoadedObject(objects.Object(), kind or "object", name, origin).error(problem)
