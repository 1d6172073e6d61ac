"""Reads the keys whose signatures on normalisers are trusted: a file, or a mounted Secret."""

import os

from afflux.bounded_read import read_file
from afflux.model.errors import InputError
from afflux.normalisers.errors import NormaliserRefusedError
from afflux.normalisers.signatures import is_key_id, parse_key_list, parse_public_key

MAX_KEY_FILES = 1_000

_SUFFIXES = (".pub", ".pem")


def read_trusted_keys(path: str) -> dict[str, bytes]:
    """The keys by id; an InputError if one cannot be used.

    A file has a JSON object of keys by id, or one key whose id is the name of the file without
    .pub or .pem. In a directory, each file is such a key; names that begin with a dot are left out,
    as those with which the kubelet keeps a mounted Secret.
    """
    if not os.path.isdir(path):
        content = read_file(path)
        if content.lstrip().startswith(b"{"):
            try:
                return parse_key_list(content)
            except NormaliserRefusedError as error:
                raise InputError(f"{path}: {error}") from None
        return dict([_named_key(path, content)])
    try:
        names = sorted(name for name in os.listdir(path) if not name.startswith("."))
    except OSError as error:
        expected = "expected a directory that can be read"
        raise InputError(f"{path!r:.200}: {error.strerror}; {expected}") from None
    if len(names) > MAX_KEY_FILES:
        raise InputError(f"{path}: {len(names)} files, expected at most {MAX_KEY_FILES}")
    keys: dict[str, bytes] = {}
    for name in names:
        file = os.path.join(path, name)
        key_id, key = _named_key(file, read_file(file))
        if key_id in keys:
            raise InputError(f"{file}: the second key named {key_id}, expected one")
        keys[key_id] = key
    return keys


def _named_key(path: str, content: bytes) -> tuple[str, bytes]:
    key_id = os.path.basename(path)
    for suffix in _SUFFIXES:
        key_id = key_id.removesuffix(suffix)
    if not is_key_id(key_id):
        expected = "expected a name of at most 63 letters, digits, '-', '.' and '_'"
        raise InputError(f"{path!r:.200}: no id of a key, {expected}")
    try:
        return key_id, parse_public_key(content)
    except NormaliserRefusedError as error:
        raise InputError(f"{path}: {error}") from None
