"""Deleting, and sleeping until it is time to: what those share who delete anything.

Everything is deleted by its uid, so that another object of the same name is never meant, and
nothing by a replica that does not lead any more.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

from afflux.kube.api.client import Api
from afflux.kube.api.errors import ApiError
from afflux.kube.live.delivering import MOST_TRIES, insist

_log = logging.getLogger(__name__)


class Timetable(Protocol):
    """Something is due at times that may change."""

    changed: asyncio.Event

    def next_seconds(self) -> float | None:
        """When, None if nothing is."""
        ...


async def sleep_until_due(timetable: Timetable, clock: Callable[[], float]) -> None:
    """Until it is time for the next one, or another one is the next."""
    due = timetable.next_seconds()
    seconds = None if due is None else max(0.0, due - clock())
    try:
        async with asyncio.timeout(seconds):
            await timetable.changed.wait()
    except TimeoutError:
        pass
    timetable.changed.clear()


class Deleting:
    """Deletes; `remaining_seconds` says how long we may act, None without end.

    Made for one attempt: once the server has insisted on being out of order it is asked once about
    each of the others, who would otherwise wait a minute for every one before them.
    """

    def __init__(self, api: Api, remaining_seconds: Callable[[], float | None]) -> None:
        self._api = api
        self._remaining_seconds = remaining_seconds
        self._tries = MOST_TRIES

    async def delete(self, path: str, uid: str) -> str | None:
        """Delete what has this uid; why that could not be done, None if it is gone.

        An UnreachableError if there is no server to say so.
        """
        remaining = self._remaining_seconds()
        if remaining is not None and remaining <= 0:
            return "another replica leads"
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
        }
        try:
            await insist(partial(self._api.send, "DELETE", path, body), tries=self._tries)
        except ApiError as error:
            # Gone, or another one of this name: either way it is not there any more.
            if error.is_missing or error.is_conflict:
                return None
            if error.may_pass:
                self._tries = 1
            # Also what is no refusal: a webhook that is down is about this object, not the others.
            _log.warning("deleting: %s", error)
            return error.message
        return None
