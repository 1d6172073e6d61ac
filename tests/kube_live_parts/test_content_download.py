"""Downloads of normalisers are bounded in size, time and redirects, and go nowhere else."""

import asyncio

import pytest
from aiohttp import web
from content_server import Answer, served
from small_api import run

from afflux.kube.live.content_download import (
    MAX_REDIRECTS,
    ContentDownload,
    DownloadError,
    DownloadLimits,
)

LIMITS = DownloadLimits(timeout_seconds=20.0, max_bytes=1000)


def fetch(answer: Answer, limits: DownloadLimits = LIMITS, path: str = "/content") -> bytes:
    found: list[bytes] = []

    async def test() -> None:
        async with served(answer) as url, ContentDownload(limits) as download:
            found.append(await download.get(url + path))

    run(test)
    return found[0]


def refused(answer: Answer, limits: DownloadLimits = LIMITS, path: str = "/content") -> str:
    said: list[str] = []

    async def test() -> None:
        async with served(answer) as url, ContentDownload(limits) as download:
            with pytest.raises(DownloadError) as error:
                await download.get(url + path)
            said.append(str(error.value))

    run(test)
    assert said[0].isprintable()
    return said[0]


def redirecting(*locations: str) -> Answer:
    """Redirects /content to the first location, /1 to the second, and so on."""

    async def answer(request: web.Request) -> web.Response:
        step = int(request.path.strip("/")) if request.path != "/content" else 0
        if step < len(locations):
            return web.Response(status=302, headers={"Location": locations[step]})
        return web.Response(body=b"found")

    return answer


async def large(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"x" * 1000)


async def slow(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"x")
        await asyncio.sleep(0.05)


async def compressed(_: web.Request) -> web.Response:
    return web.Response(body=b"x", headers={"Content-Encoding": "gzip"})


async def missing(_: web.Request) -> web.Response:
    return web.Response(status=404, text="secret")


def test_a_content_is_returned_as_it_is() -> None:
    async def answer(request: web.Request) -> web.Response:
        assert request.headers["Accept-Encoding"] == "identity"
        assert "Authorization" not in request.headers
        return web.Response(body=b"\0asm" + bytes(996))

    assert fetch(answer) == b"\0asm" + bytes(996)


def test_a_content_that_is_too_large_is_not_read_to_its_end() -> None:
    assert refused(large).endswith("more than 1000 bytes, expected at most that")


def test_a_content_that_takes_too_long_is_given_up() -> None:
    limits = DownloadLimits(timeout_seconds=0.3, max_bytes=1000)
    assert refused(slow, limits).endswith("no content within 0.3 s")


def test_an_encoded_content_is_refused() -> None:
    assert "the content is encoded" in refused(compressed)


def test_another_status_is_named_and_its_text_is_not() -> None:
    said = refused(missing)
    assert said.endswith("status 404, expected 200")
    assert "secret" not in said


def test_redirects_are_followed() -> None:
    assert fetch(redirecting("/1", "/2")) == b"found"


def test_but_only_a_few() -> None:
    said = refused(redirecting(*(f"/{n + 1}" for n in range(MAX_REDIRECTS + 1))))
    assert said.endswith(f"more than {MAX_REDIRECTS} redirects")


@pytest.mark.parametrize(
    ("location", "scheme"),
    [("file:///etc/passwd", "file"), ("data:,x", "data"), ("ftp://h/x", "ftp")],
)
def test_a_redirect_to_another_scheme_is_refused(location: str, scheme: str) -> None:
    said = refused(redirecting(location))
    assert said.endswith(f"a redirect to scheme '{scheme}', expected http or https")


def test_a_redirect_without_a_location_is_refused() -> None:
    assert "a redirect to" in refused(redirecting(""))


@pytest.mark.parametrize(
    "address", ["file:///etc/passwd", "data:,x", "unix://x", "nothing", "http://", "http://[::1"]
)
def test_other_addresses_are_refused_before_anything_is_sent(address: str) -> None:
    async def test() -> None:
        async with ContentDownload(LIMITS) as download:
            with pytest.raises(DownloadError):
                await download.get(address)

    run(test)


def test_a_server_that_is_not_there_is_named_without_password_and_query() -> None:
    async def test() -> None:
        async with ContentDownload(LIMITS) as download:
            with pytest.raises(DownloadError) as error:
                await download.get("http://user:secret@127.0.0.1:1/path?token=secret")
            assert str(error.value).startswith("http://127.0.0.1:1: ")
            assert "secret" not in str(error.value)

    run(test)
