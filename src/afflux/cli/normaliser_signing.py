"""afflux diskio keygen, sign and verify: the way of a normaliser from its vendor to a scheduler."""

import base64
import os
import secrets
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from afflux.bounded_read import read_file
from afflux.cli.data_output import print_data
from afflux.cli.diskio_arguments import KeygenOptions, SignOptions, VerifyOptions
from afflux.cli.exit_codes import ExitCode
from afflux.cli.file_arguments import read_source
from afflux.cli.output_option import is_data
from afflux.cli.safe_output import print_error
from afflux.cli.text_table import format_table
from afflux.kube.trusted_key_files import read_trusted_keys
from afflux.model.errors import InputError
from afflux.normalisers.catalogue import (
    MAX_CATALOGUE_BYTES,
    Entry,
    parse_entry,
    verify_content,
    verify_entry,
)
from afflux.normalisers.errors import NormaliserRefusedError, NotAuthenticError
from afflux.normalisers.normaliser import load_normaliser
from afflux.normalisers.signatures import (
    SEED_BYTES,
    Signed,
    content_digest,
    default_key_id,
    is_key_id,
    parse_private_key,
    private_key_pem,
    public_key,
    public_key_pem,
    sign,
)
from afflux.normalisers.strict_json import parse_json

VERSION = 1


def keygen(options: KeygenOptions) -> ExitCode:
    """Writes a new pair of keys."""
    private_pem = private_key_pem(secrets.token_bytes(SEED_BYTES))
    public = public_key(parse_private_key(private_pem))
    key_id = _checked_key_id(options.key_id, default_key_id(public))
    folder = Path(options.out)
    private_path, public_path = folder / f"{key_id}.key", folder / f"{key_id}.pub"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_new(private_path, private_pem, 0o600)
        try:
            _write_new(public_path, public_key_pem(public), 0o644)
        except OSError:
            private_path.unlink()
            raise
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        name = (error.filename if isinstance(error, OSError) else None) or options.out
        raise InputError(f"{str(name)!r:.200}: {why}; expected a new file") from None
    encoded = base64.b64encode(public).decode()
    if is_data(options.output):
        answer = {
            "version": VERSION,
            "keyId": key_id,
            "privateKey": str(private_path),
            "publicKey": str(public_path),
            "public": encoded,
        }
        print_data(answer, options.output)
    else:
        wide = options.output == "wide"
        header = ["KEY ID", "PRIVATE KEY", "PUBLIC KEY", *(["IN BASE64"] if wide else [])]
        row = [key_id, str(private_path), str(public_path), *([encoded] if wide else [])]
        print(format_table(header, [row], right_align=False))
    return ExitCode.DONE


def sign_content(options: SignOptions) -> ExitCode:
    """Prints the entry of a content that the scheduler can use."""
    name, content = read_source(options.content)
    _load(name, content)
    private = _parsed_private_key(options.key)
    digest = content_digest(content)
    stem = Path(options.key).name.removesuffix(".key").removesuffix(".pem")
    entry: dict[str, object] = {
        "vendorName": options.vendor,
        "model": options.model,
        **({"url": options.url} if options.url is not None else {}),
        "version": _version(options.version),
        "digest": digest,
        "keyId": _checked_key_id(options.key_id, stem),
    }
    checked = parse_entry(entry | {"signature": "A" * 86 + "=="})
    signed = Signed(checked.vendor, checked.model, checked.version or 0, digest)
    print_data(entry | {"signature": sign(private, signed)}, "json")
    return ExitCode.DONE


def verify(options: VerifyOptions) -> ExitCode:
    """Judges a content and its entry as the scheduler does."""
    name, content = read_source(options.content)
    entry = _read_entry(options.entry)
    keys = read_trusted_keys(options.trusted_keys)
    try:
        verify_entry(entry, keys)
        verify_content(entry, content)
        normaliser = load_normaliser(content)
    except NotAuthenticError as error:
        print_error(f"afflux {options.command}: {name}: {error}")
        return ExitCode.NO
    except NormaliserRefusedError as error:
        print_error(f"afflux {options.command}: {name}: signed, but of no use: {error}")
        return ExitCode.NO
    if is_data(options.output):
        answer = {
            "version": VERSION,
            "diskModel": entry.disk_model,
            "contentVersion": entry.version,
            "keyId": entry.key_id,
            "name": normaliser.name,
            "kind": normaliser.kind,
            "digest": entry.digest,
        }
        print_data(answer, options.output)
    else:
        more = [("DIGEST", str(entry.digest))] if options.output == "wide" else []
        columns = [
            ("MODEL", entry.disk_model),
            ("VERSION", str(entry.version)),
            ("KEY ID", str(entry.key_id)),
            ("KIND", normaliser.kind),
            *more,
            ("NAME", normaliser.name),
        ]
        header, row = zip(*columns, strict=True)
        print(format_table(header, [row], right_align=False))
    return ExitCode.DONE


def _write_new(path: Path, content: bytes, mode: int) -> None:
    """Writes a file that does not exist yet; OSError if it does."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
    except OSError:
        path.unlink()
        raise


def _load(name: str, content: bytes) -> None:
    try:
        load_normaliser(content)
    except NormaliserRefusedError as error:
        raise InputError(f"{name}: {error}") from None


def _parsed_private_key(path: str) -> Ed25519PrivateKey:
    try:
        return parse_private_key(read_file(path))
    except NormaliserRefusedError as error:
        raise InputError(f"{path}: {error}") from None


def _checked_key_id(given: str | None, default: str) -> str:
    key_id = default if given is None else given
    if not is_key_id(key_id):
        expected = "expected at most 63 letters, digits, '-', '.' and '_'"
        raise InputError(f"--key-id: {key_id!r:.80}, {expected}")
    return key_id


def _version(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 16):
        raise InputError(f"--version: {text!r:.40}, expected an integer from 1")
    return int(text)


def _read_entry(given: str) -> Entry:
    """The entry from the JSON on the command line, or from a file."""
    if given.lstrip().startswith("{"):
        name, content = "--entry", given.encode(errors="replace")
    else:
        name, content = given, read_file(given)
    try:
        return parse_entry(parse_json(content, MAX_CATALOGUE_BYTES))
    except NormaliserRefusedError as error:
        raise InputError(f"{name}: {error}") from None
