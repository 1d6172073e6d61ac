"""Bytes to Kubernetes objects: JSON or YAML, one object or many, lists and lists of lists.

JSON is cut into its items without being decoded, and every item then goes straight into the
struct of its kind. YAML is made JSON first, so that there is one way from there on.
"""

import codecs
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

import msgspec

from afflux.kube import objects, yaml_events
from afflux.kube.complaints import field_complaint, json_complaint, shown
from afflux.model.errors import InputError

DEEPEST_LIST = 8

# Kinds by API group. Other kinds, and kinds of the same name elsewhere, are none of our business.
KINDS: dict[tuple[str, str], type[objects.Object]] = {
    ("", "Node"): objects.Node,
    ("", "Pod"): objects.Pod,
    ("", "Namespace"): objects.Namespace,
    ("", "PersistentVolume"): objects.PersistentVolume,
    ("", "PersistentVolumeClaim"): objects.PersistentVolumeClaim,
    ("storage.k8s.io", "StorageClass"): objects.StorageClass,
    ("storage.k8s.io", "CSINode"): objects.CSINode,
    ("storage.k8s.io", "CSIDriver"): objects.CSIDriver,
    ("storage.k8s.io", "CSIStorageCapacity"): objects.CSIStorageCapacity,
    ("policy", "PodDisruptionBudget"): objects.PodDisruptionBudget,
    ("scheduling.k8s.io", "PriorityClass"): objects.PriorityClass,
    ("scheduling.k8s.io", "PodGroup"): objects.NativeGroup,
    ("scheduling.x-k8s.io", "PodGroup"): objects.MemberGroup,
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
    """Where an object was read: the file, the document in it, the places in lists."""

    file: str
    document: int | None = None
    places: tuple[int, ...] = ()

    def inside(self, place: int) -> "Origin":
        """The origin of an item of the list found here."""
        return Origin(self.file, self.document, (*self.places, place))

    def __str__(self) -> str:
        parts = [self.file]
        if self.document is not None:
            parts.append(f"document {self.document}")
        if self.places:
            parts.append(".".join(f"items[{place}]" for place in self.places))
        return ": ".join(parts)


@dataclass(frozen=True, slots=True)
class Found(Generic[T_co]):
    """An object, what people call it, and where it was read.

    `name` is namespace/name, or the name alone for kinds that have no namespace.
    """

    value: T_co
    kind: str
    name: str
    origin: Origin

    def error(self, problem: object) -> InputError:
        """The problem with this object, as one line."""
        name = self.name if self.name.isprintable() else repr(self.name)
        return InputError(f"{self.origin}: {self.kind} {name}: {problem}")


@dataclass(frozen=True, slots=True)
class Contents:
    """All that was read: objects by kind, and how many of other kinds there were."""

    _found: dict[type[objects.Object], dict[str, Found[objects.Object]]] = field(
        default_factory=dict[type[objects.Object], dict[str, Found[objects.Object]]]
    )
    ignored: Counter[str] = field(default_factory=Counter[str])

    def of(self, kind: type[T]) -> dict[str, Found[T]]:
        """The objects of one kind by name, in the order they were read."""
        return cast("dict[str, Found[T]]", self._found.get(kind, {}))

    def add(self, found: Found[objects.Object]) -> None:
        """Take in one object; the same one twice is an error."""
        same_kind = self._found.setdefault(type(found.value), {})
        if (first := same_kind.setdefault(found.name, found)) is not found:
            raise found.error(f"given twice, first in {first.origin}")


class _Header(objects.Fields, frozen=True, gc=False):
    """What tells a list from an object and one kind from another."""

    api_version: str | None = None
    kind: str | None = None
    items: msgspec.Raw = msgspec.Raw()


class _Identity(objects.Fields, frozen=True, gc=False):
    name: str
    namespace: str | None = None


class _Named(objects.Fields, frozen=True, gc=False):
    """The little to look for when an object cannot be decoded."""

    metadata: _Identity


_header = msgspec.json.Decoder(_Header)
_array = msgspec.json.Decoder(tuple[msgspec.Raw, ...])
_named = msgspec.json.Decoder(_Named)
_decoders = {kind: msgspec.json.Decoder(kind) for kind in KINDS.values()}


def read(sources: Sequence[tuple[str, bytes]]) -> Contents:
    """Every object of these (name, content) pairs; an InputError for what cannot be used."""
    contents = Contents()
    for file, data in sources:
        for origin, document in _documents(file, data):
            _take_document(document, origin, contents)
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
        # A flow mapping in YAML may start the same way; several JSON texts may follow each other.
        if file.endswith((".yaml", ".yml")):
            return _yaml_documents(file, text)
        if "trailing characters" in str(error):
            return _json_sequence(file, text)
        raise InputError(f"{file}: not valid JSON: {json_complaint(error)}") from None
    except RecursionError:
        raise InputError(f"{file}: nested too deeply") from None
    return iter([(Origin(file), text)])


def _utf8(file: str, data: bytes) -> bytes:
    encoding = next((name for bom, name in _ENCODINGS if data.startswith(bom)), "utf-8")
    try:
        # Decoding is the check that it is text at all; only a rare byte order mark needs the copy.
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(
            f"{file}: byte {error.start} is not {encoding} text, expected JSON or YAML"
        ) from None
    return data if encoding == "utf-8" else text.encode(errors="surrogatepass")


def _json_sequence(file: str, text: bytes) -> Iterator[tuple[Origin, bytes]]:
    """JSON texts one after the other, as from `jq -c` or several calls of kubectl."""
    decoder, decoded = json.JSONDecoder(), text.decode()
    number, place = 0, _after_space(decoded, 0)
    while place < len(decoded):
        number += 1
        try:
            _, end = decoder.raw_decode(decoded, place)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{file}: document {number}: not valid JSON: {error}") from None
        yield Origin(file, number), decoded[place:end].encode()
        place = _after_space(decoded, end)


def _after_space(text: str, place: int) -> int:
    while place < len(text) and text[place].isspace():
        place += 1
    return place


def _yaml_documents(file: str, text: bytes) -> Iterator[tuple[Origin, bytes]]:
    try:
        values = list(yaml_events.documents(text.decode()))
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


def _take_document(document: bytes, origin: Origin, contents: Contents) -> None:
    if document.lstrip()[:1] != b"[":
        return _take(document, origin, contents)
    for place, item in enumerate(_checked(_array, document, origin)):
        _take(bytes(item), origin.inside(place), contents)
    return None


def _take(raw: bytes, origin: Origin, contents: Contents, listed: _Header | None = None) -> None:
    """Add the object, or every item of the list, that this JSON text is."""
    header = _checked(_header, raw, origin)
    kind, api_version = header.kind, header.api_version
    if not kind and listed is not None and listed.kind and listed.kind != "List":
        # The API server leaves out the kind of items in a typed list.
        kind, api_version = listed.kind.removesuffix("List"), listed.api_version
    if not kind:
        raise _error(raw, origin, None, "kind: missing, expected one such as Pod")
    if not api_version:
        raise _error(raw, origin, kind, "apiVersion: missing, expected e.g. v1")
    if kind.endswith("List"):
        return _take_list(header, origin, contents)
    group = api_version.rpartition("/")[0]
    decoded_as = KINDS.get((group, kind))
    if decoded_as is None:
        contents.ignored[f"{kind}.{group}" if kind in _KNOWN_NAMES else kind] += 1
        return None
    value = _checked(_decoders[decoded_as], raw, origin, kind)
    metadata = value.metadata
    if not metadata.name:
        raise InputError(f"{origin}: {kind}: metadata.name: missing, expected a name")
    name = _full_name(kind, metadata.namespace, metadata.name)
    found = Found(value, kind, name, origin)
    for field_name, written in (("name", metadata.name), ("namespace", metadata.namespace)):
        if written and not objects.is_name(written):
            raise found.error(f"metadata.{field_name}: {shown(written)}, expected a plain name")
    return contents.add(found)


def _take_list(header: _Header, origin: Origin, contents: Contents) -> None:
    items = bytes(header.items)
    if items in (b"", b"null"):
        return
    if len(origin.places) >= DEEPEST_LIST:
        raise InputError(f"{origin}: lists nested more than {DEEPEST_LIST} deep")
    for place, item in enumerate(_checked(_array, items, origin, "items")):
        _take(bytes(item), origin.inside(place), contents, header)


def _full_name(kind: str, namespace: str | None, name: str) -> str:
    return name if kind in _CLUSTER_WIDE else f"{namespace or 'default'}/{name}"


D = TypeVar("D")


def _checked(
    decoder: "msgspec.json.Decoder[D]", raw: bytes, origin: Origin, kind: str | None = None
) -> D:
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise _error(raw, origin, kind, field_complaint(error, raw)) from None
    except (msgspec.DecodeError, ValueError) as error:
        raise InputError(f"{origin}: not valid JSON: {json_complaint(error)}") from None
    except RecursionError:
        raise InputError(f"{origin}: nested too deeply") from None


def _error(raw: bytes, origin: Origin, kind: str | None, problem: str) -> InputError:
    """The problem with an object that could not be decoded, by its name if that can be found."""
    try:
        identity = _named.decode(raw).metadata
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return InputError(f"{origin}: {kind}: {problem}" if kind else f"{origin}: {problem}")
    name = _full_name(kind or "", identity.namespace, identity.name)
    return Found(objects.Object(), kind or "object", name, origin).error(problem)
