"""A collection is followed for ever: nothing is lost, whatever happens to server or connection."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from api_server import answer, client_of, refusal, run, serving, until

from afflux.kube import objects
from afflux.kube.api import watching
from afflux.kube.api.client import Api
from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.kube.api.watching import Collection, UnreadableError, follow

pytestmark = pytest.mark.slow

PODS = Collection("/api/v1/pods", objects.Pod)
Manifest = dict[str, Any]
Script = Callable[["Stream", web.Request], Awaitable[None]]


def pod(name: str, version: int, **more: Any) -> Manifest:
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", **more.pop("metadata", {})}
    metadata["resourceVersion"] = str(version)
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {}, **more}


def event(kind: str, item: Manifest) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


def bookmark(version: int) -> bytes:
    item = {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": str(version)}}
    return event("BOOKMARK", item)


def page(version: int, *items: Manifest, more: str = "") -> Manifest:
    metadata = {"resourceVersion": str(version), "continue": more}
    return {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": list(items)}


@dataclass
class Seen:
    """A sink that remembers what it was told, in order."""

    told: list[str] = field(default_factory=list)
    now: dict[str, objects.Pod] = field(default_factory=dict)
    errors: list[Exception] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    def replaced(self, items: Sequence[objects.Pod], unread: Sequence[objects.Metadata]) -> None:
        self.now = {item.metadata.name or "": item for item in items}
        self.unread = [f"{each.name} {each.uid}" for each in unread]
        self.told.append("replaced " + " ".join(self.now))

    def changed(self, item: objects.Pod) -> None:
        self.now[item.metadata.name or ""] = item
        self.told.append(f"changed {item.metadata.name}")

    def deleted(self, item: objects.Pod) -> None:
        self.now.pop(item.metadata.name or "", None)
        self.told.append(f"deleted {item.metadata.name}")

    def erred(self, error: Exception, wait_seconds: float) -> None:
        self.errors.append(error)
        self.waits.append(wait_seconds)


@dataclass
class Stream:
    """The server's side of one watch."""

    response: web.StreamResponse
    request: web.Request

    async def say(self, *lines: bytes) -> None:
        for line in lines:
            await self.response.write(line)

    async def stay(self) -> None:
        await asyncio.sleep(60)

    def cut(self) -> None:
        assert self.request.transport is not None
        self.request.transport.abort()


@dataclass
class Server:
    """Answers lists and watches one after the other as written; the last of each for ever."""

    lists: list[Manifest | web.Response]
    watches: list[Script | web.Response]
    asked: list[dict[str, str]] = field(default_factory=list)

    @property
    def watched_from(self) -> list[str]:
        return [query["resourceVersion"] for query in self.asked if "watch" in query]

    @property
    def listed(self) -> list[dict[str, str]]:
        return [query for query in self.asked if "watch" not in query]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        assert request.path == PODS.path
        self.asked.append(dict(request.query))
        if "watch" not in request.query:
            given = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
            return given if isinstance(given, web.Response) else answer(given)
        script = self.watches.pop(0) if len(self.watches) > 1 else self.watches[0]
        if isinstance(script, web.Response):
            return script
        response = web.StreamResponse()
        await response.prepare(request)
        await script(Stream(response, request), request)
        return response


@asynccontextmanager
async def followed(
    server: Server, collection: Collection[objects.Pod] = PODS, **options: Any
) -> Any:
    seen = Seen()
    async with client_of(server.handle, **options) as api:
        task = asyncio.create_task(follow(api, collection, seen, on_error=seen.erred))
        try:
            yield seen
        finally:
            task.cancel()
            results = await asyncio.gather(task, return_exceptions=True)
            assert isinstance(results[0], asyncio.CancelledError)


async def stays(stream: Stream, request: web.Request) -> None:
    await stream.stay()


def says(*lines: bytes) -> Script:
    """A watch that says this, and then nothing."""

    async def script(stream: Stream, request: web.Request) -> None:
        await stream.say(*lines)
        await stream.stay()

    return script


def ends_after(*lines: bytes, cut: bool) -> Script:
    """A watch that says this and ends, well or not."""

    async def script(stream: Stream, request: web.Request) -> None:
        await stream.say(*lines)
        if cut:
            await asyncio.sleep(0.05)
            stream.cut()

    return script


# --- Lists


def test_everything_there_is_then_every_change() -> None:
    async def test() -> None:
        server = Server(
            [page(10, pod("a", 5), pod("b", 7))],
            [
                says(
                    event("ADDED", pod("c", 11)),
                    event("MODIFIED", pod("a", 12, spec={"nodeName": "n1"})),
                    event("DELETED", pod("b", 13)),
                )
            ],
        )
        async with followed(server) as seen:
            await until(lambda: len(seen.told) == 4)
            assert seen.told == ["replaced a b", "changed c", "changed a", "deleted b"]
            assert seen.now["a"].spec.node_name == "n1"
            assert seen.errors == []
        (watch,) = [query for query in server.asked if "watch" in query]
        assert watch["resourceVersion"] == "10"
        assert watch["allowWatchBookmarks"] == "true"
        assert 300 <= int(watch["timeoutSeconds"]) <= 600
        assert "resourceVersionMatch" not in watch

    run(test)


def test_a_list_comes_in_pages_and_selectors_go_with_every_request() -> None:
    async def test() -> None:
        pods = Collection(PODS.path, objects.Pod, "spec.nodeName=", "app=web,tier in (a)", 2)
        server = Server(
            [
                page(10, pod("a", 1), pod("b", 2), more="token 1"),
                page(10, pod("c", 3), pod("d", 4), more="token 2"),
                page(10, pod("e", 5)),
            ],
            [stays],
        )
        async with followed(server, pods) as seen:
            await until(lambda: len(server.asked) == 4)
            assert seen.told == ["replaced a b c d e"]
        selectors = {"fieldSelector": "spec.nodeName=", "labelSelector": "app=web,tier in (a)"}
        assert server.listed == [
            {"limit": "2", **selectors},
            {"limit": "2", "continue": "token 1", **selectors},
            {"limit": "2", "continue": "token 2", **selectors},
        ]
        assert server.asked[3].items() >= selectors.items()

    run(test)


def test_a_list_that_expires_in_the_middle_is_begun_again_in_one_piece() -> None:
    async def test() -> None:
        server = Server(
            [
                page(10, pod("a", 1), more="old"),
                answer(refusal(410, "Expired"), status=410),
                page(20, pod("a", 1), pod("b", 11)),
            ],
            [stays],
        )
        async with followed(server) as seen:
            await until(lambda: len(server.asked) == 4)
            assert seen.told == ["replaced a b"]
            assert [error.is_gone for error in seen.errors] == [True]
        assert ["limit" in query for query in server.listed] == [True, True, False]
        assert server.watched_from == ["20"]

    run(test)


@pytest.mark.parametrize("compressed", [True, False])
def test_a_list_may_travel_compressed(compressed: bool) -> None:
    async def test() -> None:
        offered: list[str] = []

        async def handle(request: web.Request) -> web.Response:
            offered.append(request.headers["Accept-Encoding"])
            response = answer(page(10, *(pod(f"p{n}", n) for n in range(2000))))
            if "gzip" in offered[-1]:
                response.enable_compression(web.ContentCoding.gzip)
            return response

        seen = Seen()
        async with serving(handle, compressed=compressed) as connection, Api(connection) as api:
            task = asyncio.create_task(follow(api, PODS, seen))
            await until(lambda: len(seen.now) == 2000)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert offered[0] == ("gzip" if compressed else "identity")

    run(test)


def test_an_empty_list() -> None:
    async def test() -> None:
        nothing = {"kind": "PodList", "metadata": {"resourceVersion": "3"}, "items": None}
        server = Server([nothing], [stays])
        async with followed(server) as seen:
            await until(lambda: server.watched_from == ["3"])
            assert seen.told == ["replaced "]

    run(test)


def test_a_server_that_cannot_list_yet_is_asked_again_with_patience() -> None:
    async def test() -> None:
        down = answer(refusal(500, "InternalError"), status=500)
        again = answer(refusal(500, "InternalError"), status=500)
        forbidden = answer(refusal(403, "Forbidden"), status=403)
        server = Server([down, again, forbidden, page(1, pod("a", 1))], [stays])
        async with followed(server) as seen:
            await until(lambda: seen.told == ["replaced a"])
            assert [error.status for error in seen.errors] == [500, 500, 403]
            # Each wait is drawn from the upper half of one that doubles.
            assert 0.1 <= seen.waits[0] <= 0.2 <= seen.waits[1] <= 0.4 <= seen.waits[2] <= 0.8

    run(test)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"items": 3, "metadata": {}}', b"\xff"])
def test_a_list_that_makes_no_sense_is_asked_for_again(body: bytes) -> None:
    async def test() -> None:
        server = Server([web.Response(body=body), page(1, pod("a", 1))], [stays])
        async with followed(server) as seen:
            await until(lambda: seen.told == ["replaced a"])
            assert [type(error) for error in seen.errors] == [UnreachableError]

    run(test)


# --- Cuts and resumption


@pytest.mark.parametrize("cut", [True, False])
def test_after_a_cut_the_watch_goes_on_from_the_last_version_seen(cut: bool) -> None:
    async def test() -> None:
        server = Server(
            [page(10, pod("a", 5))],
            [
                ends_after(event("ADDED", pod("b", 11)), event("ADDED", pod("c", 12)), cut=cut),
                ends_after(event("DELETED", pod("b", 13)), cut=cut),
                says(event("ADDED", pod("d", 14))),
            ],
        )
        async with followed(server) as seen:
            await until(lambda: "d" in seen.now)
            assert seen.told == [
                "replaced a",
                "changed b",
                "changed c",
                "deleted b",
                "changed d",
            ]
            assert len(seen.errors) == (2 if cut else 0)
        assert server.watched_from == ["10", "12", "13"]
        assert len(server.listed) == 1

    run(test)


def test_a_cut_in_the_middle_of_a_line_loses_nothing() -> None:
    async def test() -> None:
        lines = event("ADDED", pod("b", 11)) + event("ADDED", pod("c", 12))
        whole = event("ADDED", pod("c", 12))
        server = Server(
            [page(10)],
            [
                ends_after(lines[:-20], cut=True),
                ends_after(whole[:30], cut=False),
                says(whole),
            ],
        )
        async with followed(server) as seen:
            await until(lambda: "c" in seen.now)
            assert seen.told == ["replaced ", "changed b", "changed c"]
        assert server.watched_from == ["10", "11", "11"]

    run(test)


def test_bookmarks_move_the_version_and_nothing_else() -> None:
    async def test() -> None:
        server = Server([page(10)], [ends_after(bookmark(500), cut=True), stays])
        async with followed(server) as seen:
            await until(lambda: len(server.watched_from) == 2)
            assert seen.told == ["replaced "]
        assert server.watched_from == ["10", "500"]

    run(test)


def test_a_watch_that_ends_as_soon_as_it_begins_is_not_begun_again_at_once() -> None:
    async def test() -> None:
        server = Server([page(10)], [ends_after(cut=False)])
        async with followed(server) as seen:
            await until(lambda: len(seen.waits) == 4)
            assert seen.waits[3] >= 0.8 > 0.2 >= seen.waits[0]
        assert len(server.listed) == 1

    run(test)


def test_waits_are_short_again_after_success() -> None:
    async def test() -> None:
        bad = answer(refusal(503, "ServiceUnavailable"), status=503)
        worse = answer(refusal(503, "ServiceUnavailable"), status=503)
        server = Server(
            [page(10)], [bad, worse, ends_after(event("ADDED", pod("a", 11)), cut=True), stays]
        )
        async with followed(server) as seen:
            await until(lambda: len(server.watched_from) == 4)
            assert len(seen.waits) == 3
            assert seen.waits[1] >= 0.2 >= seen.waits[2]
        assert len(server.listed) == 1

    run(test)


def test_a_silent_watch_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_WATCH_SECONDS", (0, 0))
    monkeypatch.setattr(watching, "_GRACE_SECONDS", 0.5)

    async def test() -> None:
        server = Server([page(10)], [stays, says(event("ADDED", pod("a", 11)))])
        async with followed(server) as seen:
            await until(lambda: "a" in seen.now)
            assert str(seen.errors[0]) == "GET /api/v1/pods: timed out"

    run(test)


def test_a_watch_is_not_bound_by_the_timeout_of_requests() -> None:
    async def test() -> None:
        async def script(stream: Stream, request: web.Request) -> None:
            await asyncio.sleep(2.5)
            await stream.say(event("ADDED", pod("a", 11)))
            await stream.stay()

        server = Server([page(10)], [script])
        async with followed(server, timeout_seconds=2.0) as seen:
            await until(lambda: "a" in seen.now)
            assert seen.errors == []

    run(test)


# --- A version that the server has forgotten


def gone_as_status() -> web.Response:
    return answer(refusal(410, "Expired", "too old resource version"), status=410)


def gone_as_event() -> Script:
    return says(event("ERROR", refusal(410, "Expired", "too old resource version")))


@pytest.mark.parametrize("gone", [gone_as_status, gone_as_event])
@pytest.mark.parametrize("item", [objects.Pod, objects.Namespace])
def test_what_is_gone_is_listed_again(
    gone: Callable[[], Script | web.Response], item: type[Any]
) -> None:
    async def test() -> None:
        server = Server(
            [page(10, pod("a", 5), pod("b", 6)), page(90, pod("b", 6), pod("c", 80))],
            [gone(), says(event("ADDED", pod("d", 91)))],
        )
        async with followed(server, Collection(PODS.path, item)) as seen:
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


def test_a_server_that_forgets_everything_at_once_is_not_listed_without_end() -> None:
    async def test() -> None:
        server = Server([page(10)], [gone_as_event()])
        async with followed(server) as seen:
            await until(lambda: len(seen.waits) == 5)
            assert seen.waits[0] == 0.0
            assert all(wait >= 0.1 for wait in seen.waits[1:])

    run(test)


def test_any_other_trouble_with_a_version_leads_to_a_list_too() -> None:
    async def test() -> None:
        too_large = refusal(504, "Timeout", "Too large resource version: 10, current: 3")
        server = Server(
            [page(10, pod("a", 5)), page(3)],
            [answer(too_large, status=504), stays],
        )
        async with followed(server) as seen:
            await until(lambda: server.watched_from == ["10", "3"])
            assert seen.told == ["replaced a", "replaced "]

    run(test)


@pytest.mark.parametrize("status", [401, 403, 429, 503])
def test_a_server_that_is_busy_or_does_not_let_us_in_has_nothing_against_the_version(
    status: int,
) -> None:
    async def test() -> None:
        server = Server(
            [page(10)],
            [
                answer(refusal(status, "No"), status=status, Retry_After="1"),
                says(event("ADDED", pod("a", 11))),
            ],
        )
        async with followed(server) as seen:
            await until(lambda: "a" in seen.now)
            assert seen.waits[0] >= 1.0
        assert len(server.listed) == 1
        assert server.watched_from == ["10", "10"]

    run(test)


# --- What cannot be read


def test_an_object_that_cannot_be_read_is_named_and_skipped() -> None:
    async def test() -> None:
        junk = pod("junk", 11, spec={"priority": "high"})
        server = Server(
            [page(10, pod("a", 5), pod("bad", 6, spec={"tolerations": 3}), pod("c", 7))],
            [
                ends_after(event("MODIFIED", junk), event("ADDED", pod("d", 12)), cut=False),
                ends_after(event("MODIFIED", pod("junk", 13, spec=[])), cut=False),
                stays,
            ],
        )
        async with followed(server) as seen:
            await until(lambda: len(server.watched_from) == 3)
            assert seen.told == ["replaced a c", "changed d"]
            assert all(isinstance(error, UnreadableError) for error in seen.errors)
            assert [str(error) for error in seen.errors] == [
                "/api/v1/pods: ns/bad: spec.tolerations: 3, expected a list",
                "/api/v1/pods: ns/junk: spec.priority: 'high', expected a whole number",
                "/api/v1/pods: ns/junk: spec: [], expected a mapping",
            ]
            assert seen.waits == [0.0, 0.0, 0.0]
        assert server.watched_from == ["10", "12", "13"]

    run(test)


def test_who_cannot_be_read_is_named_to_whoever_knows_them_from_before() -> None:
    async def test() -> None:
        bad = pod("bad", 6, spec={"tolerations": 3})
        worse = pod("worse", 7, metadata={"labels": 3})
        nameless = pod("", 8, spec={"tolerations": 3})
        server = Server([page(10, pod("a", 5), bad, worse, nameless)], [stays])
        async with followed(server) as seen:
            await until(lambda: len(server.watched_from) == 1)
            assert seen.told == ["replaced a"]
            assert seen.unread == ["bad uid-bad", "worse uid-worse"]

    run(test)


def test_about_an_object_that_cannot_be_read_there_is_one_complaint() -> None:
    async def test() -> None:
        def bad(version: int) -> Manifest:
            return pod("bad", version, spec={"tolerations": 3})

        def ends(*lines: bytes) -> Script:
            return ends_after(*lines, cut=False)

        again = event("ERROR", refusal(410, "Expired"))
        server = Server(
            [page(10, bad(5)), page(20, bad(14)), page(30, bad(25))],
            [
                ends(event("MODIFIED", bad(11)), event("MODIFIED", bad(12)), again),
                # Somebody mends it, and breaks it again.
                ends(event("MODIFIED", pod("bad", 21)), event("MODIFIED", bad(22)), again),
                ends(event("DELETED", bad(31)), event("ADDED", bad(32))),
                stays,
            ],
        )
        async with followed(server) as seen:
            await until(lambda: len(server.watched_from) == 4)
            unreadable = [each for each in seen.errors if isinstance(each, UnreadableError)]
            assert len(unreadable) == 3

    run(test)


def test_what_is_gone_is_taken_away_even_if_it_cannot_be_read() -> None:
    async def test() -> None:
        server = Server(
            [page(10, pod("a", 5), pod("b", 6))],
            [says(event("DELETED", pod("a", 11, spec={"priority": "high"})))],
        )
        async with followed(server) as seen:
            await until(lambda: "a" not in seen.now and len(seen.told) == 2)
            assert seen.told == ["replaced a b", "deleted a"]
            assert seen.errors == []

    run(test)


@pytest.mark.parametrize(
    "junk",
    [
        b"nonsense\n",
        b"{}\n",
        b'{"type": "ADDED"}\n',
        b'{"type": "ADDED", "object": 3}\n',
        b'{"type": "ADDED", "object": {"metadata": []}}\n',
        b'{"type": 7, "object": {}}\n',
        b"\xff\xff\n",
        b"[" * 100_000 + b"\n",
    ],
)
def test_an_event_without_sense_leads_to_a_list(junk: bytes) -> None:
    async def test() -> None:
        server = Server(
            [page(10), page(20, pod("x", 11))], [says(event("ADDED", pod("a", 11)), junk), stays]
        )
        async with followed(server) as seen:
            await until(lambda: server.watched_from == ["10", "20"])
            assert seen.told == ["replaced ", "changed a", "replaced x"]

    run(test)


def test_events_of_unknown_types_and_fields_are_no_trouble() -> None:
    async def test() -> None:
        odd = {"type": "SHUFFLED", "object": pod("x", 11), "hint": {"a": [1]}}
        server = Server(
            [page(10)],
            [says(json.dumps(odd).encode() + b"\n\n\r\n", event("ADDED", pod("a", 12)))],
        )
        async with followed(server) as seen:
            await until(lambda: "a" in seen.now)
            assert seen.told == ["replaced ", "changed a"]

    run(test)


# --- Size


def test_lines_of_megabytes_and_thousands_of_lines_in_a_piece() -> None:
    async def test() -> None:
        large = pod("large", 11, metadata={"annotations": {"a": "x" * 3_000_000}})
        many = b"".join(event("ADDED", pod(f"p{n}", 100 + n)) for n in range(5000))
        server = Server([page(10)], [says(event("ADDED", large), many)])
        async with followed(server) as seen:
            turns_while_busy = 0
            while len(seen.now) < 5001:
                await asyncio.sleep(0)
                turns_while_busy += 0 < len(seen.now) < 5001
            assert len((seen.now["large"].metadata.annotations or {})["a"]) == 3_000_000
            assert turns_while_busy > 10
            assert seen.errors == []

    run(test)


def test_an_error_of_the_sink_is_not_swallowed() -> None:
    class Broken(Seen):
        def changed(self, item: objects.Pod) -> None:
            raise ZeroDivisionError

    async def test() -> None:
        server = Server([page(10)], [says(event("ADDED", pod("a", 11)))])
        async with client_of(server.handle) as api:
            with pytest.raises(ZeroDivisionError):
                await follow(api, PODS, Broken())

    run(test)
