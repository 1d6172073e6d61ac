"""A kubeconfig is read as kubectl reads it; errors are one line."""

import asyncio
import os
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from api_server import AUTHORITY_PEM, OTHER_AUTHORITY, answer, run, server_context, serving

from afflux.kube.api.client import Api
from afflux.kube.api.client_config import ClientConfig
from afflux.kube.api.exec_plugin import ExecPlugin
from afflux.kube.api.kubeconfig import read_kubeconfig
from afflux.model.errors import InputError

SERVER = "https://10.0.0.1:6443"


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KUBECONFIG", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def config(
    name: str = "main",
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    **context: Any,
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": SERVER, **(cluster or {})}}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, **context}}],
    }


def written(path: Path, content: object) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(path)


def read(tmp_path: Path, content: object, context: str | None = None) -> ClientConfig:
    return read_kubeconfig(written(tmp_path / "config", content), context)


def error_text(tmp_path: Path, content: object, context: str | None = None) -> str:
    with pytest.raises(InputError) as raised:
        read(tmp_path, content, context)
    said = str(raised.value)
    assert "\n" not in said
    assert said.startswith(f"{tmp_path}/config: ")
    return said.removeprefix(f"{tmp_path}/config: ")


def authorization(config: ClientConfig) -> str:
    return asyncio.run(config.credentials.current()).authorization


# --- Which files, which context


def test_the_fields_of_a_cluster(tmp_path: Path) -> None:
    stated = {
        "server": f"{SERVER}/prefix/?x=1#y",
        "tls-server-name": "kubernetes",
        "certificate-authority-data": b64encode(AUTHORITY_PEM).decode(),
        "proxy-url": "http://proxy:3128",
        "disable-compression": True,
        "some-future-field": [1, 2],
    }
    got = read(tmp_path, config(cluster=stated, namespace="team"))
    assert got.server == f"{SERVER}/prefix"
    assert got.tls_server_name == "kubernetes"
    assert got.ca == AUTHORITY_PEM
    assert got.proxy_url == "http://proxy:3128"
    assert got.namespace == "team"
    assert not got.compressed
    assert not got.insecure
    assert got.origin == f"{tmp_path}/config: contexts[main].context"


def test_defaults(tmp_path: Path) -> None:
    got = read(tmp_path, config())
    assert (got.ca, got.namespace, got.insecure) == (None, "default", False)
    assert (got.proxy_url, got.tls_server_name, got.headers) == ("", "", ())
    assert got.compressed
    assert authorization(got) == ""


def test_json_is_accepted_and_null_means_absent(tmp_path: Path) -> None:
    text = """{"clusters": [{"name": "a", "cluster": {"server": "https://b:1",
      "proxy-url": null, "extensions": null}}], "users": [{"name": "a", "user": null}],
      "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": null}}],
      "current-context": "a", "preferences": {}}"""
    assert read(tmp_path, text).server == "https://b:1"


def test_another_context_than_the_current_one(tmp_path: Path) -> None:
    content = config()
    content["contexts"].append(
        {"name": "other", "context": {"cluster": "main", "user": "main", "namespace": "n2"}}
    )
    assert read(tmp_path, content, "other").namespace == "n2"
    assert error_text(tmp_path, content, "none") == (
        "context: 'none', expected one of the contexts: main, other"
    )


def test_the_file_in_the_home_directory(tmp_path: Path) -> None:
    home = tmp_path / "home" / ".kube" / "config"
    with pytest.raises(InputError) as raised:
        read_kubeconfig(None)
    assert str(raised.value) == f"{home}: no such file, expected a kubeconfig"
    written(home, config(cluster={"server": "https://home:1"}))
    assert read_kubeconfig(None).server == "https://home:1"


def test_the_first_of_several_files_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = config("a", cluster={"server": "https://first:1"}, user={"tokenFile": "token"})
    first["current-context"] = ""
    second = config("a", cluster={"server": "https://second:1"}, namespace="second")
    second["current-context"] = "b"
    third = config("b", cluster={"server": "https://third:1"})
    written(tmp_path / "x" / "token", "from-x")
    paths = [
        written(tmp_path / "x" / "config", first),
        str(tmp_path / "missing"),
        "",
        written(tmp_path / "empty", "# nothing\n"),
        written(tmp_path / "y", second),
        written(tmp_path / "y", second),
        written(tmp_path / "z", third),
    ]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(paths))
    assert read_kubeconfig(None).server == "https://third:1"
    a = read_kubeconfig(None, "a")
    assert (a.server, a.namespace) == ("https://first:1", "default")
    # Paths are relative to the file they are written in.
    assert authorization(a) == "Bearer from-x"
    # A named file is the only one.
    assert read_kubeconfig(paths[4], "a").server == "https://second:1"


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none: no such file, expected a kubeconfig"):
        read_kubeconfig(str(tmp_path / "none"))
    with pytest.raises(InputError, match="Is a directory, expected a file that can be read"):
        read_kubeconfig(str(tmp_path))


# --- Users


def test_tokens(tmp_path: Path) -> None:
    assert authorization(read(tmp_path, config(user={"token": "abc"}))) == "Bearer abc"
    written(tmp_path / "token", "from-file\n")
    both = {"token": "abc", "tokenFile": "token"}
    assert authorization(read(tmp_path, config(user=both))) == "Bearer from-file"
    (tmp_path / "token").unlink()
    assert authorization(read(tmp_path, config(user=both))) == "Bearer abc"


def test_name_and_password(tmp_path: Path) -> None:
    got = read(tmp_path, config(user={"username": "us", "password": "ü"}))
    assert authorization(got) == "Basic " + b64encode("us:ü".encode()).decode()


def test_no_secrets_over_plain_http(tmp_path: Path) -> None:
    got = read(tmp_path, config(cluster={"server": "http://a:1"}, user={"token": "abc"}))
    assert authorization(got) == ""


def test_impersonation(tmp_path: Path) -> None:
    user = {
        "as": "jane",
        "as-uid": "42",
        "as-groups": ["a", "b"],
        "as-user-extra": {"example.org/why": ["x", "z"]},
    }
    assert read(tmp_path, config(user=user)).headers == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "42"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-example.org%2Fwhy", "x"),
        ("Impersonate-Extra-example.org%2Fwhy", "z"),
    )


def test_an_exec_plugin_relative_to_the_file(tmp_path: Path) -> None:
    written(
        tmp_path / "bin" / "plugin",
        "#!/bin/sh\nprintf '%s' \"$KUBERNETES_EXEC_INFO\" >&2\n"
        'echo \'{"apiVersion": "client.authentication.k8s.io/v1beta1", '
        '"kind": "ExecCredential", "status": {"token": "\'"$A$1"\'"}}\'\n',
    )
    (tmp_path / "bin" / "plugin").chmod(0o755)
    stated = {
        "command": "./bin/plugin",
        "args": ["-arg"],
        "env": [{"name": "A", "value": "env"}],
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "provideClusterInfo": True,
    }
    got = read(tmp_path, config(user={"exec": stated}))
    assert isinstance(got.credentials, ExecPlugin)
    assert authorization(got) == "Bearer env-arg"
    # Other credentials come before an exec plugin.
    assert authorization(read(tmp_path, config(user={"exec": stated, "token": "t"}))) == "Bearer t"


def test_a_request_with_every_part_of_a_kubeconfig(tmp_path: Path) -> None:
    async def test() -> None:
        async def handle(request: web.Request) -> web.Response:
            assert request.path == "/prefix/version"
            assert request.headers.getall("Impersonate-Group") == ["a", "b"]
            return answer({"ok": "yes"})

        made = OTHER_AUTHORITY.issue_cert("us@example.org")
        made.private_key_pem.write_to_path(str(tmp_path / "us.key"))
        made.cert_chain_pems[0].write_to_path(str(tmp_path / "us.crt"))
        (tmp_path / "ca.crt").write_bytes(AUTHORITY_PEM)
        user = {
            "client-certificate": "us.crt",
            "client-key": "us.key",
            "as": "jane",
            "as-groups": ["a", "b"],
        }
        context = server_context("other.example", clients=OTHER_AUTHORITY)
        async with serving(handle, context) as there:
            cluster = {
                "server": f"{there.server}/prefix",
                "certificate-authority": "ca.crt",
                "tls-server-name": "other.example",
            }
            made = read(tmp_path, config(cluster=cluster, user=user))
            async with Api(made) as api:
                assert await api.get("/version", dict[str, str]) == {"ok": "yes"}

    run(test)


# --- Errors


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a: [", "line 2, column 1: not valid YAML"),
        ("a: 1\n---\nb: 2", "2 documents, expected one kubeconfig"),
        ("# nothing", "current-context: missing, expected one of the contexts: none"),
        ("[]", "[], expected a mapping"),
        ({"kind": "Pod"}, "kind: 'Pod', expected Config"),
        ({"users": 3}, "users: 3, expected a list"),
        ({"users": [{"user": {}}]}, "users[0].name: missing, expected a value"),
        ({**config(), "current-context": "x"}, "current-context: 'x', expected one of"),
        (
            {**config(), "users": []},
            "contexts[main].context.user: 'main', expected one of the users: none",
        ),
        (
            {**config(), "clusters": config()["clusters"] * 2},
            "clusters: 'main' twice, expected unique names",
        ),
        (config(cluster={"server": ""}), "clusters[main].cluster.server: missing, expected https"),
        (config(cluster={"server": "a:6443"}), "clusters[main].cluster.server: 'a:6443', expected"),
        (config(cluster={"server": "https://a:x"}), "clusters[main].cluster.server: 'https://a:x'"),
        (
            config(cluster={"proxy-url": "socks5://us:secret@a:1"}),
            "clusters[main].cluster.proxy-url: a socks5 proxy, expected http://host:port",
        ),
        (
            config(cluster={"certificate-authority": "none.crt"}),
            "clusters[main].cluster.certificate-authority: '",
        ),
        (
            config(cluster={"certificate-authority-data": "%%%"}),
            "clusters[main].cluster.certificate-authority-data: not base64",
        ),
        (
            config(
                cluster={"certificate-authority-data": "YQ==", "insecure-skip-tls-verify": True}
            ),
            "clusters[main].cluster.insecure-skip-tls-verify: true beside a certificate-authority",
        ),
        (config(cluster={"insecure-skip-tls-verify": "yes"}), "clusters[0].cluster.insecure-skip"),
        (
            config(user={"client-certificate-data": "YQ=="}),
            "users[main].user.client-key: missing, expected the key of client-certificate",
        ),
        (
            config(user={"token": "secret", "username": "a"}),
            "users[main].user.token: given beside username or password",
        ),
        (config(user={"token": "sec\nret"}), "users[main].user.token: not plain ASCII"),
        (config(user={"token": 12345}), "users[0].user.token: '(not shown)', expected a string"),
        (config(user={"tokenFile": "none"}), "users[main].user.tokenFile: "),
        (
            config(user={"auth-provider": {"name": "gcp", "config": {"access-token": "secret"}}}),
            "users[main].user.auth-provider: 'gcp', expected an exec plugin: auth providers are",
        ),
        (config(user={"as-groups": ["a"]}), "users[main].user.as: missing, expected the user"),
        (config(user={"exec": {}}), "users[main].user.exec.command: missing, expected a program"),
        (
            config(user={"exec": {"command": "x", "apiVersion": "v2"}}),
            "users[main].user.exec.apiVersion: 'v2', expected client.authentication.k8s.io/v1 or",
        ),
        (
            config(
                user={"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1"}}
            ),
            "users[main].user.exec.interactiveMode: '', expected Never or IfAvailable or Always",
        ),
    ],
)
def test_errors_name_the_field_and_hide_secrets(tmp_path: Path, content: object, said: str) -> None:
    got = error_text(tmp_path, content)
    assert got.startswith(said)
    assert "secret" not in got
    assert "12345" not in got
