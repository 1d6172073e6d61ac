"""Signatures over normalisers: ed25519 over model, version and digest of the content together.

One signature covers all four, so that no content can be offered for another model, and no old
version as a new one. Keys are 32 bytes, written as PEM or as base64. Seeds come in as data, and
files are the business of callers.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from afflux.normalisers.errors import NormaliserRefusedError
from afflux.normalisers.strict_json import as_object, parse_json, shown

SEED_BYTES = 32
MAX_KEY_FILE_BYTES = 64 * 1024
MAX_KEY_ID_LENGTH = 63

_KEY_BYTES = 32
_SIGNATURE_BYTES = 64
_PEM = b"-----BEGIN "

TrustedKeys = Mapping[str, bytes]
"""Public keys by their id."""


@dataclass(frozen=True, slots=True)
class Signed:
    """What a signature covers."""

    vendor: str
    model: str
    version: int
    digest: str

    def to_bytes(self) -> bytes:
        """The signed bytes: canonical JSON, that is with sorted keys, without spaces, in UTF-8."""
        covered = {
            "digest": self.digest,
            "model": self.model,
            "vendor": self.vendor,
            "version": self.version,
        }
        return json.dumps(covered, separators=(",", ":"), ensure_ascii=False).encode()


def content_digest(content: bytes) -> str:
    """The digest of a content, as entries have it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def is_key_id(text: str) -> bool:
    """Whether this can name a key: also as a key of a Kubernetes Secret."""
    return (
        0 < len(text) <= MAX_KEY_ID_LENGTH
        and text.isascii()
        and text[0].isalnum()
        and all(letter.isalnum() or letter in "-._" for letter in text)
    )


def default_key_id(public: bytes) -> str:
    """A key's id if its owner names none: the beginning of its digest."""
    return hashlib.sha256(public).hexdigest()[:16]


# --- Private keys


def private_key_pem(seed: bytes) -> bytes:
    """The private key of 32 random bytes, as PEM (PKCS #8)."""
    return Ed25519PrivateKey.from_private_bytes(seed).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def parse_private_key(content: bytes) -> Ed25519PrivateKey:
    """The private key in this PEM; NormaliserRefusedError if there is none."""
    expected = "expected an ed25519 private key in PEM (PKCS #8)"
    try:
        key = serialization.load_pem_private_key(content, password=None)
    except TypeError:
        raise NormaliserRefusedError(f"the key has a password, {expected} without one") from None
    except (ValueError, UnsupportedAlgorithm):
        raise NormaliserRefusedError(f"no private key, {expected}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise NormaliserRefusedError(f"a key of another algorithm, {expected}")
    return key


def public_key(private: Ed25519PrivateKey) -> bytes:
    """The public key that belongs to a private one."""
    return private.public_key().public_bytes_raw()


def sign(private: Ed25519PrivateKey, signed: Signed) -> str:
    """The signature in base64."""
    return base64.b64encode(private.sign(signed.to_bytes())).decode()


# --- Public keys


def public_key_pem(public: bytes) -> bytes:
    """A public key as PEM."""
    return Ed25519PublicKey.from_public_bytes(public).public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def parse_public_key(content: bytes) -> bytes:
    """The public key in this PEM or base64; NormaliserRefusedError if there is none."""
    expected = "expected an ed25519 public key in PEM or base64"
    content = content.strip()
    if len(content) > MAX_KEY_FILE_BYTES:
        raise NormaliserRefusedError(f"{len(content)} bytes, {expected}")
    if not content.startswith(_PEM):
        raw = _base64(content)
        if raw is None or len(raw) != _KEY_BYTES:
            raise NormaliserRefusedError(f"no 32 bytes in base64, {expected}")
        return raw
    if b"PRIVATE KEY" in content:
        raise NormaliserRefusedError(f"a private key, {expected}")
    try:
        key = serialization.load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        raise NormaliserRefusedError(f"no public key, {expected}") from None
    if not isinstance(key, Ed25519PublicKey):
        raise NormaliserRefusedError(f"a key of another algorithm, {expected}")
    return key.public_bytes_raw()


def parse_key_list(content: bytes) -> dict[str, bytes]:
    """Public keys in one JSON object: key ids and keys in base64 or PEM."""
    value = parse_json(content, MAX_KEY_FILE_BYTES)
    keys = as_object(value, "expected an object of keys by key id")
    return dict(_listed_key(key_id, key) for key_id, key in keys.items())


# An entry is judged again and again, and a ConfigMap may have a thousand.
@lru_cache(maxsize=4096)
def is_signed_by(public: bytes, signed: Signed, signature: str) -> bool:
    """Whether the signature is of this key and covers this."""
    raw = _base64(signature.encode())
    if raw is None or len(raw) != _SIGNATURE_BYTES:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(raw, signed.to_bytes())
    except InvalidSignature:
        return False
    return True


def _listed_key(key_id: str, key: object) -> tuple[str, bytes]:
    if not is_key_id(key_id):
        expected = "expected a key id of at most 63 letters, digits, '-', '.' and '_'"
        raise NormaliserRefusedError(f"{shown(key_id)}, {expected}")
    if not isinstance(key, str):
        raise NormaliserRefusedError(f"{key_id}: {shown(key)}, expected a public key as a string")
    try:
        return key_id, parse_public_key(key.encode(errors="replace"))
    except NormaliserRefusedError as error:
        raise NormaliserRefusedError(f"{key_id}: {error}") from None


def _base64(text: bytes) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None
