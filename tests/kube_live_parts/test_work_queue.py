"""Work queues: which keys wake their consumer, and when."""

import asyncio

from afflux.kube.reader.work_queue import PATIENCE_SECONDS, WorkQueue


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def is_awake(waiting: "asyncio.Task[None]") -> bool:
    """Whether the consumer is woken without any time passing."""
    for _ in range(5):
        await asyncio.sleep(0)
    return waiting.done()


def test_a_patient_key_waits_for_an_urgent_one() -> None:
    async def consume() -> None:
        queue = WorkQueue[str](Clock())
        queue.take()
        waiting = asyncio.create_task(queue.wait())
        queue.put("status", is_patient=True)
        assert not await is_awake(waiting)
        queue.put("pod")
        assert await is_awake(waiting)
        assert queue.take() == ["status", "pod"]

    asyncio.run(consume())


def test_a_patient_key_wakes_a_consumer_that_took_nothing_lately() -> None:
    async def consume() -> None:
        clock = Clock()
        queue = WorkQueue[str](clock)
        for _ in range(2):
            queue.put("status", is_patient=True)
            assert await is_awake(asyncio.create_task(queue.wait()))
            assert queue.take() == ["status"]
            clock.now += PATIENCE_SECONDS

    asyncio.run(consume())


def test_a_patient_key_is_taken_without_any_urgent_one() -> None:
    async def consume() -> None:
        queue = WorkQueue[str]()
        queue.take()
        queue.put("status", is_patient=True)
        await queue.wait()
        assert queue.take() == ["status"]

    asyncio.run(consume())


def test_an_urgent_key_that_was_taken_hurries_no_later_one() -> None:
    async def consume() -> None:
        queue = WorkQueue[str](Clock())
        queue.put("pod")
        await queue.wait()
        queue.take()
        waiting = asyncio.create_task(queue.wait())
        queue.put("status", is_patient=True)
        assert not await is_awake(waiting)
        waiting.cancel()

    asyncio.run(consume())
