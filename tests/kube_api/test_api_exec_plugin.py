"""Exec plugins: real programs that print credentials, or something else."""

import asyncio
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from api_server import OTHER_AUTHORITY, answer, api_error, client_of, run, server_context, until

from afflux.kube.api.credentials import Credential
from afflux.kube.api.errors import ApiError, CredentialError
from afflux.kube.api.exec_plugin import API_VERSIONS, ExecPlugin, Program
from movable_clock import advance

pytestmark = pytest.mark.slow


def script(tmp_path: Path, body: str) -> Path:
    """A script that counts its runs in a file beside it and then runs `body`."""
    path = tmp_path / "plugin"
    path.write_text(f"#!/bin/sh\necho run >> {tmp_path}/runs\n{body}\n")
    path.chmod(0o755)
    return path


def runs(tmp_path: Path) -> int:
    counted = tmp_path / "runs"
    return len(counted.read_text().splitlines()) if counted.exists() else 0


def printed(version: str = API_VERSIONS[0], **status: Any) -> str:
    text = json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})
    return f"cat <<'END'\n{text}\nEND"


def tokened(token: object, **status: Any) -> str:
    return printed(**{"token": token, **status})


def program(path: Path | str, **fields: Any) -> Program:
    given = {"api_version": API_VERSIONS[0], "interactive_mode": "Never", **fields}
    return Program(origin="test", command=str(path), **given)


def rfc3339(seconds_from_now: float) -> str:
    moment = datetime.now(UTC) + timedelta(seconds=seconds_from_now)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class Clock:
    """A clock that a test moves on."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


async def failure(made: Program) -> str:
    with pytest.raises(CredentialError) as raised:
        await ExecPlugin(made).current()
    assert not raised.value.sent
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize("version", API_VERSIONS)
def test_concurrent_requests_share_one_run(tmp_path: Path, version: str) -> None:
    async def test() -> None:
        path = script(tmp_path, tokened("abc", version=version))
        plugin = ExecPlugin(program(path, api_version=version))
        got = await asyncio.gather(*(plugin.current() for _ in range(20)))
        assert {credential.authorization for credential in got} == {"Bearer abc"}
        assert runs(tmp_path) == 1

    run(test)


def test_the_program_gets_exec_info_arguments_and_environment(tmp_path: Path) -> None:
    async def test() -> None:
        body = f'printf "%s" "$KUBERNETES_EXEC_INFO" > {tmp_path}/info\n'
        body += f'echo "$*|$EXTRA|$HOME|$(cat)" > {tmp_path}/rest\n'
        path = script(tmp_path, body + tokened("abc"))
        cluster = {
            "server": "https://a:1",
            "certificate-authority-data": b"pem",
            "config": {"a": 1},
        }
        made = program(path, args=("get", "a token"), env={"EXTRA": "yes"}, cluster=cluster)
        await ExecPlugin(made).current()
        assert json.loads((tmp_path / "info").read_text()) == {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "spec": {
                "interactive": False,
                "cluster": {
                    "server": "https://a:1",
                    "certificate-authority-data": "cGVt",
                    "config": {"a": 1},
                },
            },
        }
        assert (tmp_path / "rest").read_text() == f"get a token|yes|{os.environ['HOME']}|\n"

    run(test)


def test_it_runs_again_when_its_credential_has_expired(tmp_path: Path) -> None:
    async def test() -> None:
        for moment, expected in ((3600.0, 1), (-3600.0, 2)):
            (tmp_path / "runs").unlink(missing_ok=True)
            path = script(tmp_path, tokened("abc", expirationTimestamp=rfc3339(moment)))
            clock = Clock()
            plugin = ExecPlugin(program(path), monotonic_clock=clock)
            first = await plugin.current()
            clock.seconds += 0.9
            # An expired credential is used for a second too.
            assert await plugin.current() is first
            clock.seconds += 0.2
            await plugin.current()
            assert runs(tmp_path) == expected

    run(test)


def test_it_runs_again_when_the_server_refuses(tmp_path: Path) -> None:
    async def test() -> None:
        accepted, seen = {"now": "Bearer one"}, list[str]()

        async def handle(request: web.Request) -> web.Response:
            seen.append(request.headers["Authorization"])
            if seen[-1] != accepted["now"]:
                return answer(api_error(401, "Unauthorized"), status=401)
            return answer({})

        path, clock = script(tmp_path, tokened("one")), Clock()
        plugin = ExecPlugin(program(path), monotonic_clock=clock)
        async with client_of(handle, credentials=plugin) as api:
            await api.send("POST", "/x", {})
            accepted["now"] = "Bearer two"
            script(tmp_path, tokened("two"))
            clock.seconds += 1.1
            await asyncio.gather(*(api.send("POST", "/x", {}) for _ in range(20)))
            assert runs(tmp_path) == 2
            # A server that refuses every credential does not make it run for every request.
            accepted["now"] = "Bearer three"
            for _ in range(20):
                with pytest.raises(ApiError):
                    await api.send("POST", "/x", {})
            assert runs(tmp_path) == 2

    run(test)


def test_a_certificate_from_the_program(tmp_path: Path) -> None:
    async def test() -> None:
        made = OTHER_AUTHORITY.issue_cert("us@example.org")
        status = {
            "clientCertificateData": made.cert_chain_pems[0].bytes().decode(),
            "clientKeyData": made.private_key_pem.bytes().decode(),
        }
        context = server_context(clients=OTHER_AUTHORITY)

        async def handle(request: web.Request) -> web.Response:
            assert "Authorization" not in request.headers
            return answer({})

        plugin = ExecPlugin(program(script(tmp_path, printed(**status))))
        async with client_of(handle, context, credentials=plugin) as api:
            await api.send("POST", "/x", {})
        junk = {"clientCertificateData": "junk", "clientKeyData": "junk"}
        plugin = ExecPlugin(program(script(tmp_path, printed(**junk))))
        async with client_of(handle, context, credentials=plugin) as api:
            with pytest.raises(CredentialError):
                await api.send("POST", "/x", {})

    run(test)


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    async def test() -> None:
        made = program(tmp_path / "missing", install_hint="install it with: brew install x")
        assert await failure(made) == (
            f"test: '{tmp_path}/missing': No such file or directory, expected a program; "
            "install it with: brew install x"
        )
        not_executable = tmp_path / "plain"
        not_executable.write_text("")
        assert "Permission denied" in await failure(program(not_executable))

    run(test)


def test_a_program_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    async def test() -> None:
        script(tmp_path, tokened("abc"))
        got = await ExecPlugin(program("plugin")).current()
        assert got.authorization == "Bearer abc"

    run(test)


def test_a_program_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    async def test() -> None:
        pid = tmp_path / "child"
        path = script(tmp_path, f"sleep 600 &\necho $! > {pid}.new\nmv {pid}.new {pid}\nwait")
        failing = asyncio.create_task(failure(program(path, timeout_seconds=300)))
        await until(pid.exists)
        await advance(301)
        assert (await failing).endswith("still running after 300 seconds, ended")
        child = int(pid.read_text())
        await until(lambda: not _is_running(child))

    run(test)


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("exit 3", "exit code 3, expected 0"),
        ("echo hello", "expected an ExecCredential as JSON"),
        ('echo \'{"token": "secret"}\'', "expected an ExecCredential as JSON"),
        (
            tokened("secret", version="client.authentication.k8s.io/v1beta1"),
            "expected ExecCredential of",
        ),
        (printed(), "printed no credential"),
        (tokened(""), "printed no credential"),
        (printed(clientKeyData="secret"), "only one of certificate and key"),
        (tokened("sec\nret"), "not plain ASCII"),
        (tokened(7777), "expected an ExecCredential as JSON"),
        (tokened("secret", expirationTimestamp="tomorrow"), "expected an ExecCredential"),
    ],
)
def test_invalid_output_is_an_error_without_a_quote(
    tmp_path: Path, body: str, problem: str
) -> None:
    async def test() -> None:
        said = await failure(program(script(tmp_path, body)))
        assert problem in said
        assert "secret" not in said
        assert "7777" not in said

    run(test)


def test_a_failure_is_shared_by_concurrent_requests_and_then_forgotten(tmp_path: Path) -> None:
    async def test() -> None:
        path = script(tmp_path, "exit 1")
        clock = Clock()
        plugin = ExecPlugin(program(path), monotonic_clock=clock)
        results = await asyncio.gather(
            *(plugin.current() for _ in range(20)), return_exceptions=True
        )
        assert all(isinstance(result, CredentialError) for result in results)
        assert runs(tmp_path) == 1
        script(tmp_path, tokened("abc"))
        with pytest.raises(CredentialError):
            await plugin.current()
        clock.seconds += 2.1
        assert isinstance(await plugin.current(), Credential)

    run(test)


def test_interactive_mode_always_needs_a_terminal(tmp_path: Path) -> None:
    async def test() -> None:
        path = script(tmp_path, tokened("abc"))
        said = await failure(program(path, interactive_mode="Always"))
        assert "interactiveMode: 'Always', expected a terminal" in said
        assert runs(tmp_path) == 0
        await ExecPlugin(program(path, interactive_mode="IfAvailable")).current()

    run(test)
