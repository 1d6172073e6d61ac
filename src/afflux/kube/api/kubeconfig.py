"""A kubeconfig to a client configuration: the chosen context, its cluster, its user.

Refuses what kubectl refuses. Errors name the file, the field and what was expected, and never
contain tokens, passwords or keys.
"""

from base64 import b64decode
from binascii import Error as Base64Error
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlsplit

from afflux.kube.api.client_config import ClientConfig, Pem
from afflux.kube.api.credentials import (
    ANONYMOUS,
    Credentials,
    StaticCredentials,
    TokenFile,
    basic,
    bearer,
    read_token,
)
from afflux.kube.api.errors import CredentialError
from afflux.kube.api.exec_plugin import API_VERSIONS, INTERACTIVE_MODES, ExecPlugin, Program
from afflux.kube.api.http_proxy import checked_proxy, proxy_for
from afflux.kube.api.kubeconfig_files import (
    Cluster,
    Context,
    Entry,
    Exec,
    Merged,
    User,
    read_merged,
)
from afflux.kube.input_errors import shown
from afflux.model.errors import InputError

# The extension of a cluster that is passed to exec plugins.
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"
# Characters of header names beside letters and digits, without %, which escapes the others.
_HEADER_MARKS = "!#$&'*+-.^_`|~"

E = TypeVar("E")


def read_kubeconfig(path: str | None, context: str | None = None) -> ClientConfig:
    """The client configuration of a context, by default the current one. Without a path the files
    are those of $KUBECONFIG, or else ~/.kube/config."""
    merged = read_merged(path)
    chosen = _context(merged, context)
    cluster = _named(merged.clusters, chosen, "cluster", chosen.value.cluster)
    user = _named(merged.users, chosen, "user", chosen.value.user)
    server, ca = _server(cluster), _ca(cluster)
    certificate: Pem | None = None
    key: Pem | None = None
    credentials: Credentials = ANONYMOUS
    # As with kubectl, no secrets are sent over plain HTTP.
    if server.startswith("https://"):
        certificate, key = _certificate(user)
        credentials = _credentials(user, certificate, cluster)
    return ClientConfig(
        server=server,
        origin=f"{chosen.file}: {chosen.path}",
        ca=ca,
        client_certificate=certificate,
        client_key=key,
        credentials=credentials,
        tls_server_name=cluster.value.tls_server_name or "",
        insecure=bool(cluster.value.insecure_skip_tls_verify),
        proxy_url=_proxy(cluster) or proxy_for(server),
        namespace=chosen.value.namespace or "default",
        compressed=not cluster.value.disable_compression,
        headers=_impersonation(user),
    )


def _context(merged: Merged, asked_for: str | None) -> Entry[Context]:
    name = asked_for or merged.current_context
    expected = f"expected one of the contexts: {', '.join(sorted(merged.contexts)) or 'none'}"
    if not name:
        raise InputError(f"{merged.origin}: current-context: missing, {expected}")
    if name not in merged.contexts:
        field = "context" if asked_for else "current-context"
        raise InputError(f"{merged.origin}: {field}: {shown(name)}, {expected}")
    return merged.contexts[name]


def _named(
    entries: dict[str, Entry[E]], context: Entry[Context], field: str, name: str | None
) -> Entry[E]:
    if not name:
        raise context.error(field, "missing, expected a name")
    if name not in entries:
        known = ", ".join(sorted(entries)) or "none"
        raise context.error(field, f"{shown(name)}, expected one of the {field}s: {known}")
    return entries[name]


# --- The cluster


def _server(cluster: Entry[Cluster]) -> str:
    written = cluster.value.server
    if not written:
        raise cluster.error("server", "missing, expected https://host:port")
    try:
        url = urlsplit(written)
        if url.scheme in {"http", "https"} and url.hostname and url.port != 0:
            return url._replace(query="", fragment="").geturl().rstrip("/")
    except ValueError:
        pass
    raise cluster.error("server", f"{shown(written)}, expected https://host:port")


def _ca(cluster: Entry[Cluster]) -> Pem | None:
    stated = cluster.value
    data, file = stated.certificate_authority_data, stated.certificate_authority
    ca = _pem(cluster, "certificate-authority", data, file)
    if ca is not None and stated.insecure_skip_tls_verify:
        problem = "true beside a certificate-authority, expected only one of the two"
        raise cluster.error("insecure-skip-tls-verify", problem)
    return ca


def _proxy(cluster: Entry[Cluster]) -> str:
    written = cluster.value.proxy_url
    if not written:
        return ""
    return checked_proxy(written, f"{cluster.file}: {cluster.path}.proxy-url")


# --- The user


def _certificate(user: Entry[User]) -> tuple[Pem | None, Pem | None]:
    stated = user.value
    data, file = stated.client_certificate_data, stated.client_certificate
    certificate = _pem(user, "client-certificate", data, file)
    if certificate is None:
        return None, None
    key = _pem(user, "client-key", stated.client_key_data, stated.client_key)
    if key is None:
        raise user.error("client-key", "missing, expected the key of client-certificate")
    return certificate, key


def _credentials(
    user: Entry[User], certificate: Pem | None, cluster: Entry[Cluster]
) -> Credentials:
    stated = user.value
    if stated.auth_provider is not None:
        problem = "expected an exec plugin: auth providers are not supported"
        raise user.error("auth-provider", f"{shown(stated.auth_provider.name or '')}, {problem}")
    has_password = bool(stated.username or stated.password)
    if stated.token and has_password:
        raise user.error("token", "given beside username or password, expected one of the two")
    # As in kubectl, a token, a password or a certificate comes before a plugin.
    if stated.token_file:
        return _token_file(user, stated.token_file, stated.token or "")
    if stated.token:
        if not (stated.token.isascii() and stated.token.isprintable()):
            raise user.error("token", "not plain ASCII on one line, expected a token")
        return StaticCredentials(bearer(stated.token))
    if has_password:
        return StaticCredentials(basic(stated.username or "", stated.password or ""))
    if stated.exec is not None and certificate is None:
        return ExecPlugin(_program(user, stated.exec, cluster))
    return ANONYMOUS


def _token_file(user: Entry[User], written: str, fallback: str) -> TokenFile:
    path = user.beside(written)
    if not fallback:
        try:
            read_token(path)
        except CredentialError as error:
            raise user.error("tokenFile", str(error)) from None
    return TokenFile(path, fallback)


def _program(user: Entry[User], stated: Exec, cluster: Entry[Cluster]) -> Program:
    if not stated.command:
        raise user.error("exec.command", "missing, expected a program")
    if stated.api_version not in API_VERSIONS:
        expected = f"expected {' or '.join(API_VERSIONS)}"
        raise user.error("exec.apiVersion", f"{shown(stated.api_version or '')}, {expected}")
    mode = stated.interactive_mode
    if not mode and stated.api_version != API_VERSIONS[0]:
        mode = "IfAvailable"
    if mode not in INTERACTIVE_MODES:
        expected = f"expected {' or '.join(INTERACTIVE_MODES)}"
        raise user.error("exec.interactiveMode", f"{shown(mode or '')}, {expected}")
    # A bare name is looked up in PATH, a path is relative to the folder of the file.
    command = str(user.beside(stated.command)) if "/" in stated.command else stated.command
    return Program(
        origin=f"{user.file}: {user.path}.exec",
        command=command,
        args=stated.args or (),
        env={variable.name: variable.value or "" for variable in stated.env or ()},
        api_version=stated.api_version,
        interactive_mode=mode,
        install_hint=" ".join((stated.install_hint or "").split()),
        cluster=_cluster_info(cluster) if stated.provide_cluster_info else None,
    )


def _cluster_info(cluster: Entry[Cluster]) -> dict[str, object]:
    """The cluster as exec plugins get it, with certificates as data."""
    stated = cluster.value
    ca = _ca(cluster)
    config = next((e.extension for e in stated.extensions or () if e.name == _EXEC_EXTENSION), None)
    fields: dict[str, object] = {
        "server": stated.server,
        "tls-server-name": stated.tls_server_name,
        "insecure-skip-tls-verify": stated.insecure_skip_tls_verify,
        "certificate-authority-data": ca.read_bytes() if isinstance(ca, Path) else ca,
        "proxy-url": stated.proxy_url,
        "disable-compression": stated.disable_compression,
        "config": config,
    }
    return {name: value for name, value in fields.items() if value}


def _impersonation(user: Entry[User]) -> tuple[tuple[str, str], ...]:
    stated = user.value
    if not stated.as_user:
        if stated.as_uid or stated.as_groups or stated.as_user_extra:
            problem = "missing, expected the user that as-uid, as-groups and so on add to"
            raise user.error("as", problem)
        return ()
    headers = [("Impersonate-User", stated.as_user)]
    if stated.as_uid:
        headers.append(("Impersonate-Uid", stated.as_uid))
    headers.extend(("Impersonate-Group", group) for group in stated.as_groups or ())
    for key, values in (stated.as_user_extra or {}).items():
        name = f"Impersonate-Extra-{quote(key, safe=_HEADER_MARKS)}"
        headers.extend((name, value) for value in values)
    return tuple(headers)


# --- Certificates and keys


def _pem(entry: Entry[E], field: str, data: str | None, file: str | None) -> Pem | None:
    """Inline data if there is any, else the file, of which only the existence is checked."""
    if data:
        try:
            return b64decode("".join(data.split()), validate=True)
        except (Base64Error, ValueError):
            raise entry.error(f"{field}-data", "not base64, expected PEM in base64") from None
    if not file:
        return None
    path = entry.beside(file)
    try:
        path.open("rb").close()
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise entry.error(field, f"{shown(str(path))}: {why}, expected a PEM file") from None
    return path
