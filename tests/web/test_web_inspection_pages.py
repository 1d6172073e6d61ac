"""Pages of the inspection service: answers, refusals, and behaviour under load."""

import asyncio
from pathlib import Path

import pytest
from inspection_service import QUEUE, run, service

from afflux.cycle.inspection_types import MAX_LINES, ROOT, InspectionError, ListQuery
from afflux.model.errors import InputError
from afflux.web.authentication import Access
from afflux.web.inspection_pages import MAX_IN_FLIGHT
from movable_clock import advance

pytestmark = pytest.mark.slow


# --- Answers


def test_the_queue_is_a_list_in_the_form_of_the_kubernetes_api(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            reply = await served.get(QUEUE, "alices")
            assert reply.status == 200
            assert reply.body == {
                "kind": "QueueList",
                "apiVersion": "inspect.afflux.dev/v1alpha1",
                "metadata": {
                    "time": "2027-01-15T08:00:00Z",
                    "continue": "",
                    "remainingItemCount": 0,
                },
                "items": [
                    {
                        "namespace": "team-a",
                        "name": "train",
                        "queue": "default",
                        "position": 1,
                        "size": 4,
                        "present": 4,
                        "priority": 0,
                        "state": "waiting",
                        "waitingSince": "2027-01-15T07:54:48Z",
                        "runSeconds": 3600.0,
                        "promised": True,
                        "expectedStart": "2027-01-15T08:05:12.500000Z",
                        "reason": "0/5 nodes are available: 5 Insufficient cpu.",
                        "fullName": "train",
                        "waiting": 4,
                    }
                ],
            }
            assert reply.headers["Cache-Control"] == "no-store"
            assert served.answers.asked == [ListQuery(namespace="team-a")]

    run(test)


@pytest.mark.parametrize(
    ("what", "kind"),
    [("queue", "QueueList"), ("reservations", "ReservationList"), ("history", "HistoryList")],
)
def test_lists_are_of_one_namespace_or_of_all(tmp_path: Path, what: str, kind: str) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            for path, namespace in ((f"/namespaces/x/{what}", "x"), (f"/{what}", None)):
                query = "?limit=7&continue=abc&queue=night"
                reply = await served.get(f"{ROOT}{path}{query}", "roots")
                assert (reply.status, reply.body["kind"]) == (200, kind)
                assert served.answers.asked[-1] == ListQuery(
                    namespace=namespace,
                    queue="night",
                    limit=7,
                    continue_token="abc",  # noqa: S106
                )

    run(test)


def test_the_queue_can_be_filtered_by_states(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            await served.get(f"{QUEUE}?state=running,waiting", "alices")
            assert served.answers.asked[-1].states == ("waiting", "running")
            await served.get(QUEUE, "alices")
            assert served.answers.asked[-1].states == ()

    run(test)


def test_a_group_is_an_object_with_its_details(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            reply = await served.get(f"{ROOT}/namespaces/team-a/groups/train", "alices")
            assert reply.status == 200
            assert reply.body["kind"] == "GroupDetails"
            assert reply.body["name"] == "train"
            assert reply.body["until"] is None
            assert served.reviewer.accesses[-1][1] == Access("get", "team-a", "train")
            missing = await served.get(f"{ROOT}/namespaces/team-a/groups/no", "alices")
            assert missing.refusal == (404, "NotFound")
            assert missing.body["message"] == "there is no group 'no' in namespace 'team-a'"

    run(test)


def test_forbidden_users_cannot_learn_whether_a_group_exists(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            for name in ("train", "no"):
                reply = await served.get(f"{ROOT}/namespaces/team-b/groups/{name}", "alices")
                assert reply.refusal == (403, "Forbidden")
            assert served.answers.asked == []

    run(test)


# --- Refusals


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        (f"{QUEUE}?limit=0", f"limit: '0', expected a whole number from 1 to {MAX_LINES}"),
        (f"{QUEUE}?limit={MAX_LINES + 1}", "expected a whole number"),
        (f"{QUEUE}?limit=1e3", "expected a whole number"),
        (f"{QUEUE}?limit=٣", "expected a whole number"),
        (f"{QUEUE}?continue={'a' * 3000}", "continue: too long, expected"),
        (f"{QUEUE}?queue=a%00b", "queue: 'a\\x00b', expected a queue's name"),
        (f"{QUEUE}?state=finished", "state: 'finished', expected some of: provisional"),
        (f"{QUEUE}?watch=true", "'watch': no such parameter, expected one of: limit"),
        (f"{ROOT}/namespaces/team-a/history?state=running", "'state': no such parameter"),
        (f"{ROOT}/namespaces/Team_A/queue", "namespace: 'Team_A', expected a namespace's name"),
        (f"{ROOT}/namespaces/team-a/groups/a%2Fb", "name: 'a/b', expected a group's name"),
    ],
)
def test_invalid_parameters_are_refused_with_what_was_expected(
    tmp_path: Path, path: str, complaint: str
) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            reply = await served.get(path, "roots")
            assert reply.refusal == (400, "BadRequest")
            assert complaint in reply.body["message"]
            assert served.answers.asked == []

    run(test)


@pytest.mark.parametrize("path", ["/apis", "/apis/", ROOT, f"{ROOT}/pods", "/apis/apps/v1/x"])
def test_other_paths_are_not_found(tmp_path: Path, path: str) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            assert (await served.get(path)).refusal == (401, "Unauthorized")
            reply = await served.get(path, "alices")
            assert reply.refusal == (404, "NotFound")
            assert "/namespaces/NAMESPACE/groups/NAME" in reply.body["message"]

    run(test)


def test_only_reading_methods_are_allowed(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            for method in ("POST", "PUT", "PATCH", "DELETE"):
                reply = await served.get(QUEUE, "roots", method=method)
                assert reply.refusal == (405, "MethodNotAllowed")
            assert (await served.get(QUEUE, "roots", method="HEAD")).status == 200

    run(test)


# --- Load and errors


def test_equal_requests_at_once_cost_one_query(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            served.answers.hold = asyncio.Event()
            asking = [asyncio.create_task(served.get(QUEUE, "alices")) for _ in range(20)]
            while not served.answers.asked:
                await asyncio.sleep(0.01)
            served.answers.hold.set()
            assert [reply.status for reply in await asyncio.gather(*asking)] == [200] * 20
            assert len(served.answers.asked) == 1
            # A cached answer is shown only to users who may see it.
            assert (await served.get(QUEUE, "nobodys")).status == 401

    run(test)


def test_requests_beyond_the_limit_get_429(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            served.answers.hold = asyncio.Event()
            asking = [
                asyncio.create_task(served.get(QUEUE, "alices")) for _ in range(MAX_IN_FLIGHT + 5)
            ]
            done, waiting = await asyncio.wait(asking, timeout=60, return_when="FIRST_COMPLETED")
            while len(done) < 5:
                more, waiting = await asyncio.wait(waiting, return_when="FIRST_COMPLETED")
                done |= more
            for task in done:
                assert task.result().refusal == (429, "TooManyRequests")
                assert task.result().headers["Retry-After"] == "1"
            # Probes and metrics are not affected.
            assert (await served.get("/livez")).body == "ok"
            served.answers.hold.set()
            assert {reply.status for reply in await asyncio.gather(*waiting)} == {200}

    run(test)


def test_a_query_that_takes_too_long_is_cancelled(tmp_path: Path) -> None:
    async def test() -> None:
        async with service(tmp_path, timeout_seconds=60) as served:
            served.answers.hold = asyncio.Event()
            for number in (1, 2, 3):
                asking = asyncio.create_task(served.get(f"{QUEUE}?limit={number}", "alices"))
                while len(served.answers.asked) < number:
                    await asyncio.sleep(0.01)
                await advance(61)
                assert (await asking).refusal == (504, "Timeout")
                # The query is cancelled too: queries without a client would accumulate.
                while served.answers.held > 0:
                    await asyncio.sleep(0.01)
            assert len(served.answers.asked) == 3

    run(test)


@pytest.mark.parametrize(
    ("problem", "refusal"),
    [
        (InspectionError("the ledger cannot be reached: refused"), (503, "ServiceUnavailable")),
        (InputError("continue: 'x', expected what the page before has"), (400, "BadRequest")),
        (ZeroDivisionError("secret"), (500, "InternalError")),
    ],
)
def test_errors_are_reported_and_not_cached(
    tmp_path: Path, problem: Exception, refusal: tuple[int, str]
) -> None:
    async def test() -> None:
        async with service(tmp_path) as served:
            served.answers.problem = problem
            reply = await served.get(QUEUE, "alices")
            assert reply.refusal == refusal
            assert "secret" not in reply.body["message"]
            served.answers.problem = None
            assert (await served.get(QUEUE, "alices")).status == 200

    run(test)
