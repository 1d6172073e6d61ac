"""Requests that are expected to fail."""

from typing import Any

import msgspec
import pytest

from afflux.kube.api.client import Api
from afflux.kube.api.errors import ApiError, UnreachableError


class Version(msgspec.Struct):
    major: str
    minor: str


async def caught(api: Api, method: str = "GET", **options: Any) -> Exception:
    """The error of a request."""
    try:
        if method == "GET":
            await api.get("/x", Version)
        else:
            await api.send(method, "/x", {"a": 1}, **options)
    except (ApiError, UnreachableError) as error:
        return error
    pytest.fail("the request succeeded")
