"""Serves the normalisers of the driver's disks, for the url of the ConfigMap's diskVendors.

`/normalisers/VENDOR/MODEL` is the table of coefficients in the bytes that a vendor signs: the
digest in the header `Digest` is that of the content. Read-only and public: nothing is secret here,
and the scheduler believes a content only by its signature.
"""

from collections.abc import Mapping
from hashlib import sha256

import msgspec
from aiohttp import web

from afflux.diskio.device_profile import DeviceProfile

NORMALISERS_PATH = "/normalisers"


def normaliser_content(profile: DeviceProfile) -> bytes:
    """The content of the normaliser of a profile's model."""
    return msgspec.json.encode(profile.coefficients())


class NormaliserPages:
    """`contents` are by model, vendor/model."""

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self._contents = dict(contents)

    def add_to(self, app: web.Application) -> None:
        """Adds the pages."""
        app.router.add_get(NORMALISERS_PATH, self._list)
        app.router.add_get(f"{NORMALISERS_PATH}/{{vendor}}/{{model}}", self._one)

    async def _list(self, _: web.Request) -> web.Response:
        listed = {model: _digest(content) for model, content in self._contents.items()}
        return _answer(msgspec.json.encode(listed))

    async def _one(self, request: web.Request) -> web.Response:
        model = f"{request.match_info['vendor']}/{request.match_info['model']}"
        content = self._contents.get(model)
        if content is None:
            known = ", ".join(sorted(self._contents)) or "none"
            text = f"{model:.200}: no normaliser here, expected one of: {known}\n"
            return web.Response(status=404, text=text)
        response = _answer(content)
        response.headers["Digest"] = _digest(content)
        return response


def _digest(content: bytes) -> str:
    return f"sha256:{sha256(content).hexdigest()}"


def _answer(content: bytes) -> web.Response:
    return web.Response(
        body=content,
        content_type="application/json",
        headers={"X-Content-Type-Options": "nosniff"},
    )
