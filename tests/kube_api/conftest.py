"""Both event loops: the one that afflux runs on, and the one that every Python has."""

from collections.abc import Iterator

import api_server
import pytest


@pytest.fixture(params=["asyncio", "uvloop"])
def _each_loop(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "uvloop":
        uvloop = pytest.importorskip("uvloop")
        api_server.loop_factory = uvloop.new_event_loop
    yield
    api_server.loop_factory = None
