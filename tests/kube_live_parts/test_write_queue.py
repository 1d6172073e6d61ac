"""Write queue: the latest job per key, in order, bounded, with retries."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_api import run, until

from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.kube.live.write_queue import WriteQueue, send_with_retries, shortened


class Writes:
    """A write queue whose workers wait until `release` is set."""

    def __init__(self, *, workers: int = 2, max_waiting: int = 1000, released: bool = True) -> None:
        self.written: list[tuple[str, int]] = []
        self.begun: list[tuple[str, int]] = []
        self.dropped = 0
        self.release = asyncio.Event()
        if released:
            self.release.set()
        self.queue = WriteQueue[int](
            self._write, workers=workers, max_waiting=max_waiting, on_drop=self._drop
        )

    async def _write(self, key: str, job: int) -> None:
        self.begun.append((key, job))
        await self.release.wait()
        await asyncio.sleep(0)
        self.written.append((key, job))

    def _drop(self) -> None:
        self.dropped += 1


def test_jobs_are_written_in_order() -> None:
    async def test() -> None:
        writes = Writes(workers=1)
        for number in range(50):
            writes.queue.put(f"k{number}", number)
        await writes.queue.close(10)
        assert writes.written == [(f"k{number}", number) for number in range(50)]
        assert writes.dropped == 0

    run(test)


def test_only_the_latest_job_of_a_key_is_written_and_never_two_at_once() -> None:
    async def test() -> None:
        writes = Writes(workers=4, released=False)
        for number in range(10):
            writes.queue.put("same", number)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert writes.begun == [("same", 0)]
        assert writes.queue.is_busy("same")
        assert writes.queue.waiting("same") == 9
        writes.release.set()
        await writes.queue.close(10)
        assert writes.written == [("same", 0), ("same", 9)]
        assert not writes.queue.is_busy("same")

    run(test)


def test_a_busy_key_does_not_delay_others() -> None:
    async def test() -> None:
        writes = Writes(workers=2, released=False)
        writes.queue.put("a", 1)
        await until(lambda: writes.begun == [("a", 1)])
        writes.queue.put("a", 2)
        writes.queue.put("b", 3)
        await until(lambda: writes.begun == [("a", 1), ("b", 3)])
        writes.release.set()
        await writes.queue.close(10)
        assert writes.written[-1] == ("a", 2)

    run(test)


def test_jobs_without_room_are_dropped_and_counted() -> None:
    async def test() -> None:
        writes = Writes(workers=1, max_waiting=3, released=False)
        for number in range(5):
            writes.queue.put(f"k{number}", number)
        # A job that replaces a waiting one needs no room.
        writes.queue.put("k0", 10)
        assert (len(writes.queue), writes.dropped) == (3, 2)
        writes.release.set()
        await writes.queue.close(10)
        assert writes.written == [("k0", 10), ("k1", 1), ("k2", 2)]

    run(test)


def test_no_more_jobs_run_at_once_than_there_are_workers() -> None:
    async def test() -> None:
        writes = Writes(workers=3, released=False)
        for number in range(20):
            writes.queue.put(f"k{number}", number)
        await until(lambda: len(writes.begun) == 3)
        # More workers would have begun by now.
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(writes.begun) == 3
        writes.release.set()
        await writes.queue.close(10)
        assert len(writes.written) == 20

    run(test)


def test_a_delayed_job_waits_and_is_replaced_by_the_latest() -> None:
    async def test() -> None:
        writes = Writes()
        writes.queue.put("later", 1, wait_seconds=0.3)
        writes.queue.put("later", 2, wait_seconds=60)
        writes.queue.put("sooner", 3, wait_seconds=0.1)
        writes.queue.put("now", 4)
        assert writes.queue.waiting("later") == 2
        await until(lambda: len(writes.written) == 3)
        assert writes.written == [("now", 4), ("sooner", 3), ("later", 2)]
        await writes.queue.close(10)

    run(test)


def test_a_delayed_job_can_be_replaced_by_an_immediate_one() -> None:
    async def test() -> None:
        writes = Writes()
        writes.queue.put("a", 1, wait_seconds=60)
        writes.queue.put("a", 2)
        await until(lambda: writes.written == [("a", 2)])
        assert len(writes.queue) == 0
        await writes.queue.close(10)
        assert writes.written == [("a", 2)]

    run(test)


def test_discarded_jobs_are_not_written() -> None:
    async def test() -> None:
        writes = Writes(workers=1, released=False)
        writes.queue.put("first", 0)
        writes.queue.put("a", 1)
        writes.queue.put("b", 2, wait_seconds=0.01)
        await until(lambda: writes.begun == [("first", 0)])
        writes.queue.discard("a")
        writes.queue.discard("b")
        # The time of the discarded job has come.
        await until(lambda: not writes.queue._due)
        writes.release.set()
        await writes.queue.close(10)
        assert writes.written == [("first", 0)]
        assert writes.dropped == 0

    run(test)


def test_closing_writes_delayed_jobs_and_drops_those_that_take_too_long() -> None:
    async def test() -> None:
        writes = Writes()
        writes.queue.put("held", 1, wait_seconds=600)
        await writes.queue.close(10)
        assert writes.written == [("held", 1)]
        writes.queue.put("too late", 2)
        assert writes.dropped == 1

        slow = Writes(workers=2, released=False)
        for number in range(5):
            slow.queue.put(f"k{number}", number)
        await slow.queue.close(0.05)
        assert (slow.written, slow.dropped) == ([], 5)

    run(test)


def test_a_failing_job_does_not_stop_the_others() -> None:
    async def test() -> None:
        done: list[str] = []

        async def write(key: str, _: int) -> None:
            if key == "bad":
                raise RuntimeError("a bug")
            done.append(key)

        queue = WriteQueue[int](write, workers=1, max_waiting=10, on_drop=lambda: None)
        queue.put("bad", 0)
        queue.put("good", 0)
        await queue.close(10)
        assert done == ["good"]

    run(test)


# --- Retries


def failing(errors: list[Exception]) -> Callable[[], Awaitable[str]]:
    async def send() -> str:
        if errors:
            raise errors.pop(0)
        return "done"

    return send


def test_passing_errors_are_retried() -> None:
    async def test() -> None:
        errors = [UnreachableError("away", sent=True), ApiError(500, "InternalError", "down")]
        assert await send_with_retries(failing(errors)) == "done"

    run(test)


@pytest.mark.parametrize("status", [400, 403, 404, 409, 422])
def test_a_refusal_is_final(status: int) -> None:
    async def test() -> None:
        with pytest.raises(ApiError):
            await send_with_retries(failing([ApiError(status, "No", "no")]))

    run(test)


# --- Cutting


@pytest.mark.parametrize(
    ("text", "most", "wanted"),
    [
        ("short", 10, "short"),
        ("0123456789", 10, "0123456789"),
        ("01234567890", 10, "012345 ..."),
        ("äöü", 6, "äöü"),
        ("äöüß", 7, "ä ..."),
        ("\ud800", 10, "?"),
    ],
)
def test_long_text_is_cut_between_characters(text: str, most: int, wanted: str) -> None:
    assert shortened(text, most) == wanted


@given(st.text(), st.integers(4, 40))
def test_shortened_text_fits_and_is_valid(text: str, most: int) -> None:
    cut = shortened(text, most)
    assert len(cut.encode()) <= most
    assert cut == text or cut.endswith(" ...")
