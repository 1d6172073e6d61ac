"""TLS verification, client certificates, tokens and passwords, also when files change."""

import asyncio
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web
from api_server import (
    AUTHORITY,
    AUTHORITY_PEM,
    OTHER_AUTHORITY,
    answer,
    api_error,
    client_of,
    config_for,
    run,
    server_context,
    serving,
)

from afflux.kube.api.client import Api
from afflux.kube.api.client_config import ClientConfig
from afflux.kube.api.credentials import StaticCredentials, TokenFile, basic, bearer
from afflux.kube.api.errors import ApiError, CredentialError, UnreachableError
from afflux.model.errors import InputError


async def empty_answer(request: web.Request) -> web.Response:
    return answer({})


async def ask(config: ClientConfig) -> None:
    async with Api(config) as api:
        await api.send("POST", "/x", {})


async def unreachable(config: ClientConfig) -> UnreachableError:
    with pytest.raises(UnreachableError) as raised:
        await ask(config)
    return raised.value


# --- The server


@pytest.mark.parametrize("other", [{"ca": OTHER_AUTHORITY.cert_pem.bytes()}, {"ca": None}])
def test_a_server_certificate_of_another_authority_is_rejected(other: dict[str, Any]) -> None:
    async def test() -> None:
        token = StaticCredentials(bearer("secret"))
        async with serving(empty_answer, credentials=token, **other) as config:
            error = await unreachable(config)
            assert not error.sent
            assert "certificate is not accepted" in str(error)
            assert "secret" not in str(error)

    run(test)


def test_a_server_certificate_for_another_name_is_rejected() -> None:
    async def test() -> None:
        async with serving(empty_answer, server_context("elsewhere.example")) as config:
            error = await unreachable(config)
            assert not error.sent
            assert "certificate is not accepted" in str(error)

    run(test)


@pytest.mark.parametrize(
    "fields", [{"tls_server_name": "elsewhere.example"}, {"insecure": True, "ca": None}]
)
def test_tls_server_name_and_insecure_accept_another_name(fields: dict[str, Any]) -> None:
    async def test() -> None:
        async with serving(empty_answer, server_context("elsewhere.example"), **fields) as config:
            await ask(config)

    run(test)


def test_a_ca_may_have_several_certificates_with_text_between_them() -> None:
    async def test() -> None:
        both = "# für alle\n".encode() + OTHER_AUTHORITY.cert_pem.bytes() + AUTHORITY_PEM
        async with serving(empty_answer, ca=both) as config:
            await ask(config)

    run(test)


def test_a_ca_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"

    async def test() -> None:
        OTHER_AUTHORITY.cert_pem.write_to_path(file)
        async with (
            serving(empty_answer, ca=file) as config,
            Api(config, tls_reload_interval_seconds=0.0) as api,
        ):
            with pytest.raises(UnreachableError):
                await api.send("POST", "/x", {})
            AUTHORITY.cert_pem.write_to_path(file)
            await api.send("POST", "/x", {})
            # Half written: the last good content stays in use.
            file.write_text("-----BEGIN CERTI")
            await api.send("POST", "/x", {})

    run(test)


# --- Our certificate


def files(tmp_path: Path, authority: trustme.CA, name: str = "us") -> tuple[Path, Path]:
    made = authority.issue_cert(f"{name}@example.org")
    certificate, key = tmp_path / f"{name}.crt", tmp_path / f"{name}.key"
    certificate.write_bytes(b"".join(pem.bytes() for pem in made.cert_chain_pems))
    made.private_key_pem.write_to_path(key)
    return certificate, key


@pytest.mark.parametrize("as_data", [True, False])
def test_the_client_certificate_is_sent(tmp_path: Path, as_data: bool) -> None:
    async def test() -> None:
        pair = files(tmp_path, OTHER_AUTHORITY)
        certificate, key = [path.read_bytes() for path in pair] if as_data else pair
        async with serving(empty_answer, server_context(clients=OTHER_AUTHORITY)) as config:
            assert (await unreachable(config)) is not None
            shown = config_for(
                int(config.server.rsplit(":", 1)[1]), client_certificate=certificate, client_key=key
            )
            await ask(shown)

    run(test)


def test_a_key_of_another_certificate_is_rejected(tmp_path: Path) -> None:
    certificate, _ = files(tmp_path, AUTHORITY, "us")
    _, key = files(tmp_path, AUTHORITY, "them")
    config = config_for(1, client_certificate=certificate, client_key=key)
    with pytest.raises(InputError, match="client-certificate, client-key: key values mismatch"):
        Api(config)


@pytest.mark.parametrize(
    "fields",
    [
        {"ca": b"junk"},
        {"ca": b"\xff"},
        {"ca": b""},
        {"ca": b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"},
        {"ca": Path("/nowhere/ca.crt")},
        {"client_certificate": b"junk", "client_key": b"junk"},
    ],
)
def test_unusable_certificates_raise_before_any_request(fields: dict[str, Any]) -> None:
    async def test() -> None:
        with pytest.raises(InputError, match=r"^test: (certificate-authority|client-certificate)"):
            Api(config_for(1, **fields))

    run(test)


# --- Tokens and passwords


def accepting(authorization: dict[str, str], seen: list[str]) -> Any:
    async def handle(request: web.Request) -> web.Response:
        given = request.headers.get("Authorization", "")
        seen.append(given)
        if given != authorization["now"]:
            return answer(api_error(401, "Unauthorized"), status=401)
        return answer({})

    return handle


def test_tokens_and_passwords_are_sent_and_never_shown() -> None:
    async def test() -> None:
        seen: list[str] = []
        handle = accepting({"now": "nothing"}, seen)
        for credential in (bearer("top-secret"), basic("us", "top-secret")):
            async with serving(handle, credentials=StaticCredentials(credential)) as config:
                with pytest.raises(ApiError) as raised:
                    await ask(config)
                assert raised.value.is_refused
                for shown in (str(raised.value), repr(raised.value), repr(config)):
                    assert "top-secret" not in shown
                    assert seen[-1] not in shown
        assert seen[0] == "Bearer top-secret"
        assert b64decode(seen[1].removeprefix("Basic ")) == b"us:top-secret"

    run(test)


def test_after_a_401_the_token_file_is_read_again_and_the_request_retried(tmp_path: Path) -> None:
    async def test() -> None:
        file, accepted, seen = tmp_path / "token", {"now": "Bearer one"}, list[str]()
        file.write_text("one\n")
        handle = accepting(accepted, seen)
        async with client_of(handle, credentials=TokenFile(file)) as api:
            await api.send("POST", "/x", {})
            accepted["now"] = "Bearer two"
            file.write_text("two")
            await api.send("POST", "/x", {})
            await api.send("POST", "/x", {})
            assert seen == ["Bearer one", "Bearer one", "Bearer two", "Bearer two"]
            # Without a newer token there is no second attempt.
            accepted["now"] = "Bearer three"
            with pytest.raises(ApiError):
                await api.send("POST", "/x", {})
            assert seen[4:] == ["Bearer two"]

    run(test)


def test_a_stream_is_retried_with_the_newer_token(tmp_path: Path) -> None:
    async def test() -> None:
        file, accepted, seen = tmp_path / "token", {"now": "Bearer two"}, list[str]()
        file.write_text("one")
        source = TokenFile(file)
        await source.current()
        file.write_text("two")
        async with client_of(accepting(accepted, seen), credentials=source) as api:
            assert [piece async for piece in api.stream("/x", idle_timeout_seconds=5)] == [b"{}"]

    run(test)


@pytest.mark.parametrize(("interval_seconds", "expected"), [(3600.0, "one"), (0.0, "two")])
def test_a_token_file_is_read_again_after_an_interval(
    tmp_path: Path, interval_seconds: float, expected: str
) -> None:
    async def test() -> None:
        file = tmp_path / "token"
        file.write_text("one")
        source = TokenFile(file, reread_interval_seconds=interval_seconds)
        assert (await source.current()).authorization == "Bearer one"
        file.write_text("two")
        assert (await source.current()).authorization == f"Bearer {expected}"
        file.unlink()
        assert (await source.current()).authorization == f"Bearer {expected}"

    run(test)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "No such file or directory"),
        (b"", "empty"),
        (b" \n", "empty"),
        (b"one\ntwo", "more than one line"),
        (b"\xff", "not ASCII"),
    ],
)
def test_without_a_usable_token_nothing_is_sent(
    tmp_path: Path, content: bytes | None, problem: str
) -> None:
    async def test() -> None:
        file, seen = tmp_path / "token", list[str]()
        if content is not None:
            file.write_bytes(content)
        handle = accepting({"now": ""}, seen)
        async with serving(handle, credentials=TokenFile(file)) as config:
            error = await unreachable(config)
            assert isinstance(error, CredentialError)
            assert not error.sent
            assert str(error).startswith(f"{file}: {problem}")
        assert seen == []

    run(test)


def test_concurrent_401s_all_succeed_with_the_newer_token(tmp_path: Path) -> None:
    async def test() -> None:
        file, accepted, seen = tmp_path / "token", {"now": "Bearer two"}, list[str]()
        file.write_text("one")
        source = TokenFile(file)
        await source.current()
        file.write_text("two")
        async with client_of(accepting(accepted, seen), credentials=source) as api:
            await asyncio.gather(*(api.send("POST", "/x", {}) for _ in range(50)))
        assert seen.count("Bearer two") == 50

    run(test)
