"""The entries that announce normalisers: the list `diskVendors` of the ConfigMap.

[{"vendorName": "Acme", "model": "NV100", "url": "https://...", "version": 3,
  "digest": "sha256:...", "keyId": "acme-2027", "signature": "..."}]

A wrong entry is reported and does not affect the others. `verify_entry` judges an entry, and
`verify_content` a content, before anything looks into that content.
"""

import re
from collections import Counter
from dataclasses import dataclass
from typing import cast

from afflux.normalisers.errors import NormaliserRefusedError, NotAuthenticError
from afflux.normalisers.signatures import (
    Signed,
    TrustedKeys,
    content_digest,
    is_key_id,
    is_signed_by,
)
from afflux.normalisers.strict_json import fields, parse_json, shown

# As much as a ConfigMap can have.
MAX_CATALOGUE_BYTES = 1024 * 1024
MAX_ENTRIES = 1_000
MAX_NAME_LENGTH = 100
MAX_URL_LENGTH = 2_048
MAX_VERSION = 2**53 - 1

# What needs an escape in JSON is left out, so that every language writes the same signed bytes.
_NAME = re.compile(r"(?! )[ !#-.0-\[\]-~]+(?<! )")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_URL = re.compile(r"https?://[!-~]+")
_SIGNATURE = re.compile(r"[A-Za-z0-9+/]{86}==")
_REQUIRED = ("vendorName", "model")
_SIGNING = ("version", "digest", "keyId", "signature")


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry. An entry is signed completely or not at all; one that is not signed may have a
    digest, which is then held against the content."""

    vendor: str
    model: str
    url: str | None = None
    version: int | None = None
    digest: str | None = None
    key_id: str | None = None
    signature: str | None = None

    @property
    def disk_model(self) -> str:
        """The model as disks name it."""
        return f"{self.vendor}/{self.model}"

    def signed(self) -> Signed | None:
        """What its signature covers; None if it is not signed."""
        if self.signature is None or self.version is None or self.digest is None:
            return None
        return Signed(self.vendor, self.model, self.version, self.digest)


@dataclass(frozen=True, slots=True)
class EntryProblem:
    """An entry that is not used. `disk_model` is empty if the entry names none."""

    disk_model: str
    message: str


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The entries, one for each model, and what is wrong with the others."""

    entries: tuple[Entry, ...] = ()
    problems: tuple[EntryProblem, ...] = ()


def parse_catalogue(content: bytes) -> Catalogue:
    """The list of entries; NormaliserRefusedError only if there is no list of them.

    Of several entries for one model none is used: which one counts must not depend on their order.
    """
    value = parse_json(content, MAX_CATALOGUE_BYTES)
    if not isinstance(value, list):
        raise NormaliserRefusedError(f"{shown(value)}, expected a list of entries")
    listed = cast("list[object]", value)
    if len(listed) > MAX_ENTRIES:
        raise NormaliserRefusedError(f"{len(listed)} entries, expected at most {MAX_ENTRIES}")
    entries: list[Entry] = []
    problems: list[EntryProblem] = []
    for number, each in enumerate(listed):
        try:
            entries.append(parse_entry(each))
        except NormaliserRefusedError as error:
            problems.append(EntryProblem(_disk_model(each), f"entry {number}: {error}"))
    named = Counter(entry.disk_model for entry in entries)
    named.update(problem.disk_model for problem in problems if problem.disk_model)
    for model, count in named.items():
        if count > 1:
            problems.append(EntryProblem(model, f"{count} entries, expected one for each model"))
    return Catalogue(
        tuple(entry for entry in entries if named[entry.disk_model] == 1), tuple(problems)
    )


def parse_entry(value: object) -> Entry:
    """One entry, decoded from JSON; NormaliserRefusedError names field, value and expectation."""
    found = fields(value, _REQUIRED, ("url", *_SIGNING))
    entry = Entry(
        vendor=check_name("vendorName", found["vendorName"]),
        model=check_name("model", found["model"]),
        url=_url(found.get("url")),
        version=_version(found.get("version")),
        digest=_matching(found, "digest", _DIGEST, 'expected "sha256:" and 64 hexadecimal digits'),
        key_id=_key_id(found.get("keyId")),
        signature=_matching(
            found, "signature", _SIGNATURE, "expected a signature of 64 bytes in base64"
        ),
    )
    if entry.signature is not None or entry.key_id is not None:
        for name in _SIGNING:
            if found.get(name) is None:
                raise NormaliserRefusedError(f"{name}: missing, expected in a signed entry")
    return entry


def check_name(field: str, value: object) -> str:
    """A vendor or a model; their names are parts of the model of a disk."""
    if not isinstance(value, str) or len(value) > MAX_NAME_LENGTH or _NAME.fullmatch(value) is None:
        expected = f'expected 1 to {MAX_NAME_LENGTH} printable ASCII characters except / " \\'
        raise NormaliserRefusedError(f"{field}: {shown(value)}, {expected}")
    return value


def verify_entry(entry: Entry, keys: TrustedKeys, *, trust_unsigned: bool = False) -> bool:
    """Whether a trusted key has signed the entry; raises NotAuthenticError if it cannot be used.

    With `trust_unsigned`, entries that are not signed, or by a key that is not known, can be used.
    A wrong signature of a known key is refused always.
    """
    signed = entry.signed()
    if signed is None or entry.signature is None or entry.key_id is None:
        if trust_unsigned:
            return False
        raise NotAuthenticError("signature: missing, expected that of a trusted key")
    public = keys.get(entry.key_id)
    if public is None:
        if trust_unsigned:
            return False
        known = ", ".join(sorted(keys)[:5]) or "none"
        raise NotAuthenticError(
            f"keyId: {shown(entry.key_id)}, expected a trusted key (there are: {known})"
        )
    if not is_signed_by(public, signed, entry.signature):
        raise NotAuthenticError(
            f"signature: not that of {entry.key_id} for vendor, model, version and digest, "
            "expected the entry as it was signed"
        )
    return True


def verify_content(entry: Entry, content: bytes) -> None:
    """Raises NotAuthenticError if this is not the content that the entry announces."""
    found = content_digest(content)
    if entry.digest is not None and found != entry.digest:
        raise NotAuthenticError(
            f"the content has the digest {found}, expected {entry.digest}, as the entry says"
        )


def _disk_model(value: object) -> str:
    """The model that a wrong entry is about, if it can be told."""
    found = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    try:
        vendor = check_name("vendorName", found.get("vendorName"))
        return f"{vendor}/{check_name('model', found.get('model'))}"
    except NormaliserRefusedError:
        return ""


def _version(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_VERSION:
        raise NormaliserRefusedError(f"version: {shown(value)}, expected an integer from 1")
    return value


def _key_id(value: object) -> str | None:
    if value is not None and not (isinstance(value, str) and is_key_id(value)):
        expected = "expected at most 63 letters, digits, '-', '.' and '_'"
        raise NormaliserRefusedError(f"keyId: {shown(value)}, {expected}")
    return value


def _url(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > MAX_URL_LENGTH or not _URL.fullmatch(value):
        raise NormaliserRefusedError(f"url: {shown(value)}, expected a URL with https or http")
    return value


def _matching(
    found: dict[str, object], name: str, pattern: re.Pattern[str], expected: str
) -> str | None:
    value = found.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or pattern.fullmatch(value) is None:
        raise NormaliserRefusedError(f"{name}: {shown(value)}, {expected}")
    return value
