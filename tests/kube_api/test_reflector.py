"""The reflector lists, watches and reports objects that cannot be decoded."""

import asyncio
import json

import pytest
from aiohttp import web
from api_server import answer, api_error, client_of, run, serving, until
from watched_server import (
    PODS,
    Manifest,
    Script,
    Seen,
    Server,
    ends_after,
    event,
    page,
    pod,
    reflecting,
    says,
    stays,
)

from afflux.kube import objects
from afflux.kube.api.client import Api
from afflux.kube.api.errors import UnreachableError
from afflux.kube.api.reflector import Collection, UnreadableError, run_reflector

pytestmark = pytest.mark.slow


# --- Lists


def test_a_list_is_followed_by_its_changes() -> None:
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
        async with reflecting(server) as seen:
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


def test_of_listed_objects_only_the_essence_is_kept() -> None:
    def named(item: objects.Pod) -> objects.Pod:
        return objects.Pod(item.metadata)

    async def test() -> None:
        on_node = {"spec": {"nodeName": "n"}}
        server = Server(
            [page(10, pod("a", 1, **on_node), more="token 1"), page(10, pod("b", 2, **on_node))],
            [says(event("ADDED", pod("c", 11, **on_node)))],
        )
        async with reflecting(server, Collection(PODS.path, objects.Pod, essence=named)) as seen:
            await until(lambda: "c" in seen.now)
            nodes = {name: item.spec.node_name for name, item in seen.now.items()}
            assert nodes == {"a": None, "b": None, "c": "n"}

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
        async with reflecting(server, pods) as seen:
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


def test_a_list_whose_continue_token_expires_is_repeated_without_pages() -> None:
    async def test() -> None:
        server = Server(
            [
                page(10, pod("a", 1), more="old"),
                answer(api_error(410, "Expired"), status=410),
                page(20, pod("a", 1), pod("b", 11)),
            ],
            [stays],
        )
        async with reflecting(server) as seen:
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
        async with serving(handle, compressed=compressed) as config, Api(config) as api:
            task = asyncio.create_task(run_reflector(api, PODS, seen))
            await until(lambda: len(seen.now) == 2000)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert offered[0] == ("gzip" if compressed else "identity")

    run(test)


def test_an_empty_list() -> None:
    async def test() -> None:
        nothing = {"kind": "PodList", "metadata": {"resourceVersion": "3"}, "items": None}
        server = Server([nothing], [stays])
        async with reflecting(server) as seen:
            await until(lambda: server.watched_from == ["3"])
            assert seen.told == ["replaced "]

    run(test)


def test_a_failed_list_is_retried_with_backoff() -> None:
    async def test() -> None:
        down = answer(api_error(500, "InternalError"), status=500)
        again = answer(api_error(500, "InternalError"), status=500)
        forbidden = answer(api_error(403, "Forbidden"), status=403)
        server = Server([down, again, forbidden, page(1, pod("a", 1))], [stays])
        async with reflecting(server) as seen:
            await until(lambda: seen.told == ["replaced a"])
            assert [error.status for error in seen.errors] == [500, 500, 403]
            # Each wait is drawn from the upper half of one that doubles.
            assert 0.1 <= seen.waits[0] <= 0.2 <= seen.waits[1] <= 0.4 <= seen.waits[2] <= 0.8

    run(test)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"items": 3, "metadata": {}}', b"\xff"])
def test_an_undecodable_list_is_retried(body: bytes) -> None:
    async def test() -> None:
        server = Server([web.Response(body=body), page(1, pod("a", 1))], [stays])
        async with reflecting(server) as seen:
            await until(lambda: seen.told == ["replaced a"])
            assert [type(error) for error in seen.errors] == [UnreachableError]

    run(test)


# --- What cannot be read


def test_an_undecodable_object_is_reported_and_skipped() -> None:
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
        async with reflecting(server) as seen:
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


def test_the_sink_gets_the_identity_of_undecodable_objects() -> None:
    async def test() -> None:
        bad = pod("bad", 6, spec={"tolerations": 3})
        worse = pod("worse", 7, metadata={"labels": 3})
        nameless = pod("", 8, spec={"tolerations": 3})
        server = Server([page(10, pod("a", 5), bad, worse, nameless)], [stays])
        async with reflecting(server) as seen:
            await until(lambda: len(server.watched_from) == 1)
            assert seen.told == ["replaced a"]
            assert seen.unreadable == ["bad uid-bad", "worse uid-worse"]

    run(test)


def test_an_undecodable_object_is_reported_once() -> None:
    async def test() -> None:
        def bad(version: int) -> Manifest:
            return pod("bad", version, spec={"tolerations": 3})

        def ends(*lines: bytes) -> Script:
            return ends_after(*lines, cut=False)

        again = event("ERROR", api_error(410, "Expired"))
        server = Server(
            [page(10, bad(5)), page(20, bad(14)), page(30, bad(25))],
            [
                ends(event("MODIFIED", bad(11)), event("MODIFIED", bad(12)), again),
                # Mended, and broken again.
                ends(event("MODIFIED", pod("bad", 21)), event("MODIFIED", bad(22)), again),
                ends(event("DELETED", bad(31)), event("ADDED", bad(32))),
                stays,
            ],
        )
        async with reflecting(server) as seen:
            await until(lambda: len(server.watched_from) == 4)
            unreadable = [each for each in seen.errors if isinstance(each, UnreadableError)]
            assert len(unreadable) == 3

    run(test)


def test_a_deleted_object_is_removed_even_if_it_cannot_be_decoded() -> None:
    async def test() -> None:
        server = Server(
            [page(10, pod("a", 5), pod("b", 6))],
            [says(event("DELETED", pod("a", 11, spec={"priority": "high"})))],
        )
        async with reflecting(server) as seen:
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
def test_an_undecodable_event_causes_a_relist(junk: bytes) -> None:
    async def test() -> None:
        server = Server(
            [page(10), page(20, pod("x", 11))], [says(event("ADDED", pod("a", 11)), junk), stays]
        )
        async with reflecting(server) as seen:
            await until(lambda: server.watched_from == ["10", "20"])
            assert seen.told == ["replaced ", "changed a", "replaced x"]

    run(test)


def test_events_of_unknown_types_and_fields_are_ignored() -> None:
    async def test() -> None:
        odd = {"type": "SHUFFLED", "object": pod("x", 11), "hint": {"a": [1]}}
        server = Server(
            [page(10)], [says(json.dumps(odd).encode() + b"\n\n\r\n", event("ADDED", pod("a", 12)))]
        )
        async with reflecting(server) as seen:
            await until(lambda: "a" in seen.now)
            assert seen.told == ["replaced ", "changed a"]

    run(test)


# --- Size


def test_long_lines_and_many_lines_in_a_chunk() -> None:
    async def test() -> None:
        large = pod("large", 11, metadata={"annotations": {"a": "x" * 3_000_000}})
        many = b"".join(event("ADDED", pod(f"p{n}", 100 + n)) for n in range(5000))
        server = Server([page(10)], [says(event("ADDED", large), many)])
        async with reflecting(server) as seen:
            turns_while_busy = 0
            while len(seen.now) < 5001:
                await asyncio.sleep(0)
                turns_while_busy += 0 < len(seen.now) < 5001
            assert len((seen.now["large"].metadata.annotations or {})["a"]) == 3_000_000
            assert turns_while_busy > 10
            assert seen.errors == []

    run(test)


def test_an_error_of_the_sink_is_not_swallowed() -> None:
    class BrokenReservation(Seen):
        def changed(self, item: objects.Pod) -> None:
            raise ZeroDivisionError

    async def test() -> None:
        server = Server([page(10)], [says(event("ADDED", pod("a", 11)))])
        async with client_of(server.handle) as api:
            with pytest.raises(ZeroDivisionError):
                await run_reflector(api, PODS, BrokenReservation())

    run(test)
