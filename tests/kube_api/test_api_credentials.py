"""The server has to prove itself to us, and we to it, also when certificates and tokens change."""

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
    client_of,
    connection_to,
    refusal,
    run,
    server_context,
    serving,
)

from afflux.kube.api import credentials, tls
from afflux.kube.api.client import Api
from afflux.kube.api.connection import Connection
from afflux.kube.api.credentials import Fixed, TokenFile, basic, bearer
from afflux.kube.api.errors import ApiError, CredentialError, UnreachableError
from afflux.model.errors import InputError


async def fine(request: web.Request) -> web.Response:
    return answer({})


async def ask(connection: Connection) -> None:
    async with Api(connection) as api:
        await api.send("POST", "/x", {})


async def unreachable(connection: Connection) -> UnreachableError:
    with pytest.raises(UnreachableError) as raised:
        await ask(connection)
    return raised.value


# --- The server


@pytest.mark.parametrize("other", [{"ca": OTHER_AUTHORITY.cert_pem.bytes()}, {"ca": None}])
def test_a_server_of_another_authority_is_not_talked_to(other: dict[str, Any]) -> None:
    async def test() -> None:
        async with serving(fine, credentials=Fixed(bearer("secret")), **other) as connection:
            error = await unreachable(connection)
            assert not error.sent
            assert "certificate is not accepted" in str(error)
            assert "secret" not in str(error)

    run(test)


def test_a_server_of_another_name_is_not_talked_to() -> None:
    async def test() -> None:
        async with serving(fine, server_context("elsewhere.example")) as connection:
            error = await unreachable(connection)
            assert not error.sent
            assert "certificate is not accepted" in str(error)

    run(test)


@pytest.mark.parametrize(
    "fields", [{"tls_server_name": "elsewhere.example"}, {"insecure": True, "ca": None}]
)
def test_unless_that_is_what_was_asked_for(fields: dict[str, Any]) -> None:
    async def test() -> None:
        async with serving(fine, server_context("elsewhere.example"), **fields) as connection:
            await ask(connection)

    run(test)


def test_authorities_may_be_many_with_words_between_them() -> None:
    async def test() -> None:
        both = "# für alle\n".encode() + OTHER_AUTHORITY.cert_pem.bytes() + AUTHORITY_PEM
        async with serving(fine, ca=both) as connection:
            await ask(connection)

    run(test)


def test_an_authority_in_a_file_may_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "LOOK_AGAIN_SECONDS", 0.0)
    file = tmp_path / "ca.crt"

    async def test() -> None:
        OTHER_AUTHORITY.cert_pem.write_to_path(file)
        async with serving(fine, ca=file) as connection, Api(connection) as api:
            with pytest.raises(UnreachableError):
                await api.send("POST", "/x", {})
            AUTHORITY.cert_pem.write_to_path(file)
            await api.send("POST", "/x", {})
            # Half written: what was good is used on.
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
def test_we_show_our_certificate(tmp_path: Path, as_data: bool) -> None:
    async def test() -> None:
        pair = files(tmp_path, OTHER_AUTHORITY)
        certificate, key = [path.read_bytes() for path in pair] if as_data else pair
        async with serving(fine, server_context(clients=OTHER_AUTHORITY)) as connection:
            assert (await unreachable(connection)) is not None
            shown = connection_to(
                int(connection.server.rsplit(":", 1)[1]),
                client_certificate=certificate,
                client_key=key,
            )
            await ask(shown)

    run(test)


def test_a_certificate_and_a_key_that_do_not_belong_together(tmp_path: Path) -> None:
    certificate, _ = files(tmp_path, AUTHORITY, "us")
    _, key = files(tmp_path, AUTHORITY, "them")
    connection = connection_to(1, client_certificate=certificate, client_key=key)
    with pytest.raises(InputError, match="client-certificate, client-key: key values mismatch"):
        Api(connection)


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
def test_certificates_that_cannot_be_used_are_found_at_once(fields: dict[str, Any]) -> None:
    async def test() -> None:
        with pytest.raises(InputError, match=r"^test: (certificate-authority|client-certificate)"):
            Api(connection_to(1, **fields))

    run(test)


# --- Tokens and passwords


def only_with(authorization: dict[str, str], seen: list[str]) -> Any:
    async def handle(request: web.Request) -> web.Response:
        given = request.headers.get("Authorization", "")
        seen.append(given)
        if given != authorization["now"]:
            return answer(refusal(401, "Unauthorized"), status=401)
        return answer({})

    return handle


def test_tokens_and_passwords_are_sent_and_not_shown() -> None:
    async def test() -> None:
        seen: list[str] = []
        handle = only_with({"now": "nothing"}, seen)
        for credential in (bearer("top-secret"), basic("us", "top-secret")):
            async with serving(handle, credentials=Fixed(credential)) as connection:
                with pytest.raises(ApiError) as raised:
                    await ask(connection)
                assert raised.value.is_refused
                for shown in (str(raised.value), repr(raised.value), repr(connection)):
                    assert "top-secret" not in shown
                    assert seen[-1] not in shown
        assert seen[0] == "Bearer top-secret"
        assert b64decode(seen[1].removeprefix("Basic ")) == b"us:top-secret"

    run(test)


def test_a_refused_token_is_read_again_and_the_request_repeated(tmp_path: Path) -> None:
    async def test() -> None:
        file, accepted, seen = tmp_path / "token", {"now": "Bearer one"}, list[str]()
        file.write_text("one\n")
        handle = only_with(accepted, seen)
        async with client_of(handle, credentials=TokenFile(file)) as api:
            await api.send("POST", "/x", {})
            accepted["now"] = "Bearer two"
            file.write_text("two")
            await api.send("POST", "/x", {})
            await api.send("POST", "/x", {})
            assert seen == ["Bearer one", "Bearer one", "Bearer two", "Bearer two"]
            # The same token again: no use in asking twice.
            accepted["now"] = "Bearer three"
            with pytest.raises(ApiError):
                await api.send("POST", "/x", {})
            assert seen[4:] == ["Bearer two"]

    run(test)


def test_a_stream_uses_the_newer_token_as_well(tmp_path: Path) -> None:
    async def test() -> None:
        file, accepted, seen = tmp_path / "token", {"now": "Bearer two"}, list[str]()
        file.write_text("one")
        source = TokenFile(file)
        await source.current()
        file.write_text("two")
        async with client_of(only_with(accepted, seen), credentials=source) as api:
            assert [piece async for piece in api.stream("/x", silence_seconds=5)] == [b"{}"]

    run(test)


def test_a_token_is_read_again_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        file = tmp_path / "token"
        file.write_text("one")
        source = TokenFile(file)
        first = await source.current()
        file.write_text("two")
        assert await source.current() is first
        monkeypatch.setattr(credentials, "REREAD_SECONDS", 0.0)
        assert (await source.current()).authorization == "Bearer two"
        file.unlink()
        assert (await source.current()).authorization == "Bearer two"

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
        handle = only_with({"now": ""}, seen)
        async with serving(handle, credentials=TokenFile(file)) as connection:
            error = await unreachable(connection)
            assert isinstance(error, CredentialError)
            assert not error.sent
            assert str(error).startswith(f"{file}: {problem}")
        assert seen == []

    run(test)


def test_many_refused_at_once_read_the_file_and_all_succeed(tmp_path: Path) -> None:
    async def test() -> None:
        file, accepted, seen = tmp_path / "token", {"now": "Bearer two"}, list[str]()
        file.write_text("one")
        source = TokenFile(file)
        await source.current()
        file.write_text("two")
        async with client_of(only_with(accepted, seen), credentials=source) as api:
            await asyncio.gather(*(api.send("POST", "/x", {}) for _ in range(50)))
        assert seen.count("Bearer two") == 50

    run(test)
