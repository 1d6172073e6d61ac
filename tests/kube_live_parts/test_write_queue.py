"""Telling the API server things in the background: latest news, in order, bounded."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_api import run, until

from afflux.kube.api.errors import ApiError, UnreachableError
from afflux.kube.live.delivering import Deliveries, insist, shortened


class Office:
    """Deliveries whose deliverers wait at the door until it is opened."""

    def __init__(self, *, workers: int = 2, room: int = 1000, open_: bool = True) -> None:
        self.delivered: list[tuple[str, int]] = []
        self.begun: list[tuple[str, int]] = []
        self.dropped = 0
        self.door = asyncio.Event()
        if open_:
            self.door.set()
        self.deliveries = Deliveries[int](
            self._deliver, workers=workers, room=room, dropped=self._drop
        )

    async def _deliver(self, key: str, job: int) -> None:
        self.begun.append((key, job))
        await self.door.wait()
        await asyncio.sleep(0)
        self.delivered.append((key, job))

    def _drop(self) -> None:
        self.dropped += 1


def test_everything_arrives_in_order() -> None:
    async def test() -> None:
        office = Office(workers=1)
        for number in range(50):
            office.deliveries.put(f"k{number}", number)
        await office.deliveries.close(10)
        assert office.delivered == [(f"k{number}", number) for number in range(50)]
        assert office.dropped == 0

    run(test)


def test_of_one_key_only_the_latest_is_told_and_never_two_at_once() -> None:
    async def test() -> None:
        office = Office(workers=4, open_=False)
        for number in range(10):
            office.deliveries.put("same", number)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert office.begun == [("same", 0)]
        assert office.deliveries.is_busy("same")
        assert office.deliveries.waiting("same") == 9
        office.door.set()
        await office.deliveries.close(10)
        assert office.delivered == [("same", 0), ("same", 9)]
        assert not office.deliveries.is_busy("same")

    run(test)


def test_a_key_that_is_busy_does_not_hold_up_the_others() -> None:
    async def test() -> None:
        office = Office(workers=2, open_=False)
        office.deliveries.put("a", 1)
        await until(lambda: office.begun == [("a", 1)])
        office.deliveries.put("a", 2)
        office.deliveries.put("b", 3)
        await until(lambda: office.begun == [("a", 1), ("b", 3)])
        office.door.set()
        await office.deliveries.close(10)
        assert office.delivered[-1] == ("a", 2)

    run(test)


def test_what_finds_no_room_is_dropped_and_counted() -> None:
    async def test() -> None:
        office = Office(workers=1, room=3, open_=False)
        for number in range(5):
            office.deliveries.put(f"k{number}", number)
        # Not those that have a place already.
        office.deliveries.put("k0", 10)
        assert (len(office.deliveries), office.dropped) == (3, 2)
        office.door.set()
        await office.deliveries.close(10)
        assert office.delivered == [("k0", 10), ("k1", 1), ("k2", 2)]

    run(test)


def test_no_more_than_so_many_at_once() -> None:
    async def test() -> None:
        office = Office(workers=3, open_=False)
        for number in range(20):
            office.deliveries.put(f"k{number}", number)
        await asyncio.sleep(0.05)
        assert len(office.begun) == 3
        office.door.set()
        await office.deliveries.close(10)
        assert len(office.delivered) == 20

    run(test)


def test_what_is_held_waits_its_time_and_stays_the_latest() -> None:
    async def test() -> None:
        office = Office()
        office.deliveries.put("later", 1, wait_seconds=0.3)
        office.deliveries.put("later", 2, wait_seconds=60)
        office.deliveries.put("sooner", 3, wait_seconds=0.1)
        office.deliveries.put("now", 4)
        assert office.deliveries.waiting("later") == 2
        await until(lambda: len(office.delivered) == 3)
        assert office.delivered == [("now", 4), ("sooner", 3), ("later", 2)]
        await office.deliveries.close(10)

    run(test)


def test_what_was_held_can_become_urgent() -> None:
    async def test() -> None:
        office = Office()
        office.deliveries.put("a", 1, wait_seconds=60)
        office.deliveries.put("a", 2)
        await until(lambda: office.delivered == [("a", 2)])
        assert len(office.deliveries) == 0
        await office.deliveries.close(10)
        assert office.delivered == [("a", 2)]

    run(test)


def test_what_was_discarded_is_not_told() -> None:
    async def test() -> None:
        office = Office(workers=1, open_=False)
        office.deliveries.put("first", 0)
        office.deliveries.put("a", 1)
        office.deliveries.put("b", 2, wait_seconds=0.01)
        await until(lambda: office.begun == [("first", 0)])
        office.deliveries.discard("a")
        office.deliveries.discard("b")
        await asyncio.sleep(0.05)
        office.door.set()
        await office.deliveries.close(10)
        assert office.delivered == [("first", 0)]
        assert office.dropped == 0

    run(test)


def test_at_the_end_what_is_held_is_told_and_what_takes_too_long_is_dropped() -> None:
    async def test() -> None:
        office = Office()
        office.deliveries.put("held", 1, wait_seconds=600)
        await office.deliveries.close(10)
        assert office.delivered == [("held", 1)]
        office.deliveries.put("too late", 2)
        assert office.dropped == 1

        slow = Office(workers=2, open_=False)
        for number in range(5):
            slow.deliveries.put(f"k{number}", number)
        await slow.deliveries.close(0.05)
        assert (slow.delivered, slow.dropped) == ([], 5)

    run(test)


def test_one_that_breaks_does_not_stop_the_others() -> None:
    async def test() -> None:
        done: list[str] = []

        async def deliver(key: str, _: int) -> None:
            if key == "bad":
                raise RuntimeError("a bug")
            done.append(key)

        deliveries = Deliveries[int](deliver, workers=1, room=10, dropped=lambda: None)
        deliveries.put("bad", 0)
        deliveries.put("good", 0)
        await deliveries.close(10)
        assert done == ["good"]

    run(test)


# --- Trying again


def failing(errors: list[Exception]) -> Callable[[], Awaitable[str]]:
    async def send() -> str:
        if errors:
            raise errors.pop(0)
        return "done"

    return send


def test_a_server_that_comes_back_is_asked_again() -> None:
    async def test() -> None:
        errors = [UnreachableError("away", sent=True), ApiError(500, "InternalError", "down")]
        assert await insist(failing(errors)) == "done"

    run(test)


@pytest.mark.parametrize("status", [400, 403, 404, 409, 422])
def test_a_refusal_is_final(status: int) -> None:
    async def test() -> None:
        with pytest.raises(ApiError):
            await insist(failing([ApiError(status, "No", "no")]))

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


@settings(deadline=None)
@given(st.text(), st.integers(4, 40))
def test_cut_text_fits_and_is_text(text: str, most: int) -> None:
    cut = shortened(text, most)
    assert len(cut.encode()) <= most
    assert cut == text or cut.endswith(" ...")
