"""Downloads the content of a normaliser, bounded in time and size.

Only http and https, also behind redirects, of which there are few, and none from https to http. No
proxy, no cookie and no credential of this process takes part. What is downloaded is not trusted:
the caller holds its digest against a signed entry.
"""

import asyncio
from dataclasses import dataclass
from typing import Self

import aiohttp
from yarl import URL

from afflux.kube.api.transport import TRANSPORT_ERRORS, cause

MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_CHUNK_BYTES = 1 << 16


class DownloadError(Exception):
    """Why there is no content, in a sentence that contains no secret of the address."""


@dataclass(frozen=True, slots=True)
class DownloadLimits:
    timeout_seconds: float = 10.0
    max_bytes: int = 4 * 2**20


class ContentDownload:
    """Downloads, in one event loop, while it is entered."""

    def __init__(self, limits: DownloadLimits) -> None:
        self._limits = limits
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            headers={"Accept-Encoding": "identity", "User-Agent": "afflux"},
            requote_redirect_url=False,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, address: str) -> bytes:
        """The content at this address; a DownloadError if it cannot be had."""
        try:
            async with asyncio.timeout(self._limits.timeout_seconds):
                return await self._follow(_checked(address))
        except TimeoutError:
            limit = f"within {self._limits.timeout_seconds:g} s"
            raise DownloadError(f"{_shown(address)}: no content {limit}") from None
        except TRANSPORT_ERRORS as error:
            raise DownloadError(f"{_shown(address)}: {cause(error)}") from None

    async def _follow(self, url: URL) -> bytes:
        if self._session is None:
            raise RuntimeError("the download is not entered")
        for _ in range(MAX_REDIRECTS + 1):
            async with self._session.get(url, allow_redirects=False) as response:
                if response.status not in _REDIRECTS:
                    return await self._body(url, response)
                location = response.headers.get("Location", "")
                url = _redirected(url, location)
        raise DownloadError(f"{_host(url)}: more than {MAX_REDIRECTS} redirects")

    async def _body(self, url: URL, response: aiohttp.ClientResponse) -> bytes:
        if response.status != 200:
            raise DownloadError(f"{_host(url)}: status {response.status}, expected 200")
        encoding = response.headers.get("Content-Encoding", "identity")
        if encoding != "identity":
            raise DownloadError(f"{_host(url)}: the content is encoded, expected it as it is")
        body = bytearray()
        async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
            body += chunk
            if len(body) > self._limits.max_bytes:
                most = self._limits.max_bytes
                raise DownloadError(f"{_host(url)}: more than {most} bytes, expected at most that")
        return bytes(body)


def _checked(address: str) -> URL:
    try:
        url = URL(address)
    except ValueError:
        raise DownloadError("url: no address, expected http://... or https://...") from None
    if url.scheme not in {"http", "https"} or not url.host:
        scheme = f"{url.scheme[:20]!r}" if url.scheme else "no scheme"
        raise DownloadError(f"url: {scheme}, expected http or https")
    return url


def _redirected(url: URL, location: str) -> URL:
    try:
        target = url.join(URL(location))
    except ValueError:
        raise DownloadError(f"{_host(url)}: a redirect to no address") from None
    allowed = {"https"} if url.scheme == "https" else {"http", "https"}
    if not location or target.scheme not in allowed or not target.host:
        expected = " or ".join(sorted(allowed))
        raise DownloadError(
            f"{_host(url)}: a redirect to scheme {target.scheme[:20]!r}, expected {expected}"
        )
    return target


def _shown(address: str) -> str:
    try:
        return _host(URL(address))
    except ValueError:
        return "url"


def _host(url: URL) -> str:
    """The address without what may be secret: user, password, path and query."""
    return f"{url.scheme}://{url.host}" + (f":{url.explicit_port}" if url.explicit_port else "")
