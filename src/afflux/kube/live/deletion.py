"""Deletes objects by uid.

The uid is a precondition, so that another object of the same name is never deleted. A replica that
does not lead deletes nothing.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from afflux.kube.api.client import Api
from afflux.kube.api.errors import ApiError
from afflux.kube.live.write_queue import RETRIES, Retries, send_with_retries

_log = logging.getLogger(__name__)


class Deletion:
    """Deletes the objects of one attempt.

    `remaining_seconds` says how long this replica may act as leader, None for without limit. After
    the server has failed on all tries for one object, each further object is tried once only:
    otherwise each of them would take a minute.
    """

    def __init__(
        self, api: Api, remaining_seconds: Callable[[], float | None], retries: Retries = RETRIES
    ) -> None:
        self._api = api
        self._remaining_seconds = remaining_seconds
        self._retries = retries

    async def delete(self, path: str, uid: str) -> str | None:
        """Delete the object of this uid. Returns why that failed, None if the object is gone.
        Raises UnreachableError if the server cannot be reached."""
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
            await send_with_retries(partial(self._api.send, "DELETE", path, body), self._retries)
        except ApiError as error:
            # Not found, or the name belongs to another object: this object is gone.
            if error.is_not_found or error.is_conflict:
                return None
            if error.is_temporary:
                self._retries = replace(self._retries, max_tries=1)
            # Every other error is reported per object: a failing webhook may concern only this one.
            _log.warning("deleting: %s", error)
            return error.message
        return None
