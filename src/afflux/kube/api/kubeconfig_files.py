"""The files of a kubeconfig, read and merged as kubectl does.

Of clusters, users and contexts of the same name, the one of the first file counts, as a whole; so
does the first current-context. Unknown fields are skipped. Missing files are skipped unless the
caller named one.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from afflux.bounded_read import read_all
from afflux.kube.input_errors import entry, field_error, shown
from afflux.kube.yaml_reader import Value, documents
from afflux.model.errors import InputError

# Messages never show the values of these fields.
_SECRETS = frozenset({"token", "password", "client-key-data", "value"})


class _Kebab(msgspec.Struct, frozen=True, rename="kebab"):
    """Fields in lower case with dashes."""


class _Camel(msgspec.Struct, frozen=True, rename="camel"):
    """Fields in camel case."""


class Extension(_Camel, frozen=True):
    name: str
    extension: object = None


class Cluster(_Kebab, frozen=True):
    server: str | None = None
    tls_server_name: str | None = None
    insecure_skip_tls_verify: bool | None = None
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    proxy_url: str | None = None
    disable_compression: bool | None = None
    extensions: tuple[Extension, ...] | None = None


class Variable(_Camel, frozen=True):
    name: str
    value: str | None = None


class Exec(_Camel, frozen=True):
    command: str | None = None
    args: tuple[str, ...] | None = None
    env: tuple[Variable, ...] | None = None
    api_version: str | None = None
    install_hint: str | None = None
    provide_cluster_info: bool | None = None
    interactive_mode: str | None = None


class AuthProvider(_Camel, frozen=True):
    name: str | None = None


class User(_Kebab, frozen=True):
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = msgspec.field(name="tokenFile", default=None)
    username: str | None = None
    password: str | None = None
    exec: Exec | None = None
    auth_provider: AuthProvider | None = None
    as_user: str | None = msgspec.field(name="as", default=None)
    as_uid: str | None = None
    as_groups: tuple[str, ...] | None = None
    as_user_extra: dict[str, tuple[str, ...]] | None = None


class Context(_Kebab, frozen=True):
    cluster: str | None = None
    user: str | None = None
    namespace: str | None = None


class _NamedCluster(_Kebab, frozen=True):
    name: str
    cluster: Cluster | None = None


class _NamedUser(_Kebab, frozen=True):
    name: str
    user: User | None = None


class _NamedContext(_Kebab, frozen=True):
    name: str
    context: Context | None = None


class _File(_Kebab, frozen=True):
    kind: str | None = None
    current_context: str | None = None
    clusters: tuple[_NamedCluster, ...] | None = None
    users: tuple[_NamedUser, ...] | None = None
    contexts: tuple[_NamedContext, ...] | None = None


_file = msgspec.json.Decoder(_File)

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Entry(Generic[E]):
    """A cluster, user or context, and the file it was read from."""

    value: E
    file: Path
    path: str

    def error(self, place: str, problem: str) -> InputError:
        return InputError(f"{self.file}: {self.path}.{place}: {problem}")

    def beside(self, written: str) -> Path:
        """A path written in the file, relative to the folder of the file."""
        return self.file.parent / written


@dataclass(frozen=True, slots=True)
class Merged:
    """The merged content of all files. `origin` lists the files, for messages."""

    origin: str
    clusters: dict[str, Entry[Cluster]] = field(default_factory=dict[str, Entry[Cluster]])
    users: dict[str, Entry[User]] = field(default_factory=dict[str, Entry[User]])
    contexts: dict[str, Entry[Context]] = field(default_factory=dict[str, Entry[Context]])
    current_context: str = ""


def read_merged(path: str | None) -> Merged:
    """This file, or else those of $KUBECONFIG, or else ~/.kube/config."""
    names = [path] if path else os.environ.get("KUBECONFIG", "").split(os.pathsep)
    files = list(dict.fromkeys(Path(name).absolute() for name in names if name))
    if not files:
        files = [Path.home() / ".kube" / "config"]
    found = [(file, content) for file in files if (content := _read(file)) is not None]
    if not found:
        tried = ", ".join(str(file) for file in files)
        raise InputError(f"{tried}: no such file, expected a kubeconfig")
    merged = Merged(
        origin=", ".join(str(file) for file, _ in found),
        current_context=next((c.current_context for _, c in found if c.current_context), ""),
    )
    for file, content in found:
        clusters = [(c.name, c.cluster or Cluster()) for c in content.clusters or ()]
        users = [(u.name, u.user or User()) for u in content.users or ()]
        contexts = [(c.name, c.context or Context()) for c in content.contexts or ()]
        _merge(merged.clusters, clusters, file, ("clusters", "cluster"))
        _merge(merged.users, users, file, ("users", "user"))
        _merge(merged.contexts, contexts, file, ("contexts", "context"))
    return merged


def _merge(
    into: dict[str, Entry[E]], named: Sequence[tuple[str, E]], file: Path, words: tuple[str, str]
) -> None:
    plural, singular = words
    seen: set[str] = set()
    for name, value in named:
        if name in seen:
            raise InputError(f"{file}: {plural}: {shown(name)} twice, expected unique names")
        seen.add(name)
        into.setdefault(name, Entry(value, file, f"{entry(plural, name)}.{singular}"))


def _read(file: Path) -> _File | None:
    """The content of the file, None if there is no such file."""
    try:
        with file.open("rb") as opened:
            text = read_all(opened, str(file)).decode("utf-8-sig")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: byte {error.start} is not UTF-8 text, expected YAML") from None
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise InputError(f"{file}: {why}, expected a file that can be read") from None
    try:
        found = [value for value in documents(text) if value is not None]
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    if not found:
        return _File()
    if len(found) > 1:
        raise InputError(f"{file}: {len(found)} documents, expected one kubeconfig")
    try:
        content = _file.decode(msgspec.json.encode(found[0]))
    except msgspec.ValidationError as error:
        hidden = msgspec.json.encode(_without_secrets(found[0]))
        raise InputError(f"{file}: {field_error(error, hidden)}") from None
    if content.kind not in {None, "", "Config"}:
        raise InputError(f"{file}: kind: {shown(content.kind)}, expected Config")
    return content


def _without_secrets(value: Value) -> Value:
    match value:
        case dict():
            return {
                key: "(not shown)" if key in _SECRETS else _without_secrets(inner)
                for key, inner in value.items()
            }
        case list():
            return [_without_secrets(inner) for inner in value]
        case _:
            return value
