"""The reflector resumes its watch after errors, and relists only when it must."""

from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from api_server import answer, api_error, run, until
from watched_server import (
    PODS,
    Script,
    Server,
    Stream,
    bookmark,
    ends_after,
    event,
    page,
    pod,
    reflecting,
    says,
    stays,
)

from afflux.kube import objects
from afflux.kube.api.errors import ApiError
from afflux.kube.api.reflector import Collection
from movable_clock import advance

pytestmark = pytest.mark.slow


# --- Cuts and resumption


@pytest.mark.parametrize("cut", [True, False])
def test_a_watch_resumes_at_the_last_resource_version(cut: bool) -> None:
    async def test() -> None:
        server = Server(
            [page(10, pod("a", 5))],
            [
                ends_after(event("ADDED", pod("b", 11)), event("ADDED", pod("c", 12)), cut=cut),
                ends_after(event("DELETED", pod("b", 13)), cut=cut),
                says(event("ADDED", pod("d", 14))),
            ],
        )
        async with reflecting(server) as seen:
            await until(lambda: "d" in seen.now)
            assert seen.told == ["replaced a", "changed b", "changed c", "deleted b", "changed d"]
            assert len(seen.errors) == (2 if cut else 0)
        assert server.watched_from == ["10", "12", "13"]
        assert len(server.listed) == 1

    run(test)


def test_a_cut_inside_a_line_loses_no_event() -> None:
    async def test() -> None:
        lines = event("ADDED", pod("b", 11)) + event("ADDED", pod("c", 12))
        whole = event("ADDED", pod("c", 12))
        server = Server(
            [page(10)],
            [ends_after(lines[:-20], cut=True), ends_after(whole[:30], cut=False), says(whole)],
        )
        async with reflecting(server) as seen:
            await until(lambda: "c" in seen.now)
            assert seen.told == ["replaced ", "changed b", "changed c"]
        assert server.watched_from == ["10", "11", "11"]

    run(test)


def test_a_bookmark_moves_the_resource_version_only() -> None:
    async def test() -> None:
        server = Server([page(10)], [ends_after(bookmark(500), cut=True), stays])
        async with reflecting(server) as seen:
            await until(lambda: len(server.watched_from) == 2)
            assert seen.told == ["replaced "]
        assert server.watched_from == ["10", "500"]

    run(test)


def test_a_watch_that_ends_at_once_is_retried_with_backoff() -> None:
    async def test() -> None:
        server = Server([page(10)], [ends_after(cut=False)])
        async with reflecting(server) as seen:
            await until(lambda: len(seen.waits) == 4)
            assert seen.waits[3] >= 0.8 > 0.2 >= seen.waits[0]
        assert len(server.listed) == 1

    run(test)


def test_the_backoff_is_reset_after_success() -> None:
    async def test() -> None:
        bad = answer(api_error(503, "ServiceUnavailable"), status=503)
        worse = answer(api_error(503, "ServiceUnavailable"), status=503)
        server = Server(
            [page(10)], [bad, worse, ends_after(event("ADDED", pod("a", 11)), cut=True), stays]
        )
        async with reflecting(server) as seen:
            await until(lambda: len(server.watched_from) == 4)
            assert len(seen.waits) == 3
            assert seen.waits[1] >= 0.2 >= seen.waits[2]
        assert len(server.listed) == 1

    run(test)


def test_a_silent_watch_times_out() -> None:
    async def test() -> None:
        server = Server([page(10)], [stays, says(event("ADDED", pod("a", 11)))])
        timing = {"watch_seconds": (0, 0), "watch_grace_seconds": 0.5}
        async with reflecting(server, timing=timing) as seen:
            await until(lambda: "a" in seen.now)
            assert str(seen.errors[0]) == "GET /api/v1/pods: timed out"

    run(test)


def test_the_request_timeout_does_not_end_a_watch() -> None:
    async def test() -> None:
        async def script(stream: Stream, request: web.Request) -> None:
            await advance(90)
            await stream.say(event("ADDED", pod("a", 11)))
            await stream.stay()

        server = Server([page(10)], [script])
        async with reflecting(server, timeout_seconds=60) as seen:
            await until(lambda: "a" in seen.now)
            assert seen.errors == []

    run(test)


# --- 410 Gone


def gone_as_status() -> web.Response:
    return answer(api_error(410, "Expired", "too old resource version"), status=410)


def gone_as_event() -> Script:
    return says(event("ERROR", api_error(410, "Expired", "too old resource version")))


@pytest.mark.parametrize("gone", [gone_as_status, gone_as_event])
@pytest.mark.parametrize("item", [objects.Pod, objects.Namespace])
def test_a_resource_version_that_is_gone_causes_a_relist(
    gone: Callable[[], Script | web.Response], item: type[Any]
) -> None:
    async def test() -> None:
        server = Server(
            [page(10, pod("a", 5), pod("b", 6)), page(90, pod("b", 6), pod("c", 80))],
            [gone(), says(event("ADDED", pod("d", 91)))],
        )
        async with reflecting(server, Collection(PODS.path, item)) as seen:
            await until(lambda: "d" in seen.now)
            assert seen.told == ["replaced a b", "replaced b c", "changed d"]
            assert set(seen.now) == {"b", "c", "d"}
            (error,) = seen.errors
            assert isinstance(error, ApiError)
            assert error.is_gone
            assert error.message == "too old resource version"
            assert seen.waits == [0.0]
        assert server.watched_from == ["10", "90"]

    run(test)


def test_repeated_410_gone_backs_off() -> None:
    async def test() -> None:
        server = Server([page(10)], [gone_as_event()])
        async with reflecting(server) as seen:
            await until(lambda: len(seen.waits) == 5)
            assert seen.waits[0] == 0.0
            assert all(wait >= 0.1 for wait in seen.waits[1:])

    run(test)


def test_other_errors_about_a_resource_version_cause_a_relist() -> None:
    async def test() -> None:
        too_large = api_error(504, "Timeout", "Too large resource version: 10, current: 3")
        server = Server([page(10, pod("a", 5)), page(3)], [answer(too_large, status=504), stays])
        async with reflecting(server) as seen:
            await until(lambda: server.watched_from == ["10", "3"])
            assert seen.told == ["replaced a", "replaced "]

    run(test)


@pytest.mark.parametrize("status", [401, 403, 429, 503])
def test_busy_and_forbidden_do_not_cause_a_relist(status: int) -> None:
    async def test() -> None:
        server = Server(
            [page(10)],
            [
                answer(api_error(status, "No"), status=status, Retry_After="1"),
                says(event("ADDED", pod("a", 11))),
            ],
        )
        async with reflecting(server) as seen:
            await until(lambda: "a" in seen.now)
            assert seen.waits[0] >= 1.0
        assert len(server.listed) == 1
        assert server.watched_from == ["10", "10"]

    run(test)
