"""Plain HTTP to the API server, as administrator: what tests set up and look at.

On purpose not afflux's own client, which is what is being tested.
"""

import http.client
import json
import ssl
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

# An object of the API as JSON has it: tests look into it freely, no schema stands between.
Manifest = dict[str, Any]

Item = TypeVar("Item")
Answer = TypeVar("Answer")

# More connections than that make the API server slower on two cores, not faster.
CONNECTIONS = 16
TIMEOUT_SECONDS = 60.0
PAGE = 5000

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
SERVER_SIDE = "application/apply-patch+yaml"


class ApiError(Exception):
    """The API server refused."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason


class Api:
    """Requests over connections that are kept; any thread may ask."""

    def __init__(self, url: str, context: ssl.SSLContext, token: str | None = None) -> None:
        self.url = url
        self._context = context
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._idle: deque[http.client.HTTPSConnection] = deque()

    def close(self) -> None:
        """Close what is kept open: at the end, and when the server was killed."""
        while self._idle:
            self._idle.pop().close()

    def get(self, path: str, **parameters: str | int) -> Manifest:
        """One object, or one page of a list."""
        return self.request("GET", path, parameters=parameters)

    def list(self, path: str, **parameters: str | int) -> list[Manifest]:
        """All objects of a list, page by page."""
        items: list[Manifest] = []
        following: dict[str, str] = {}
        while True:
            page = self.get(path, limit=PAGE, **parameters, **following)
            items += page["items"]
            token = page["metadata"].get("continue")
            if not token:
                return items
            following = {"continue": token}

    def create(self, path: str, body: Manifest) -> Manifest:
        """POST an object."""
        return self.request("POST", path, body)

    def patch(self, path: str, body: Manifest, content_type: str = MERGE) -> Manifest:
        """PATCH an object, or a subresource of it."""
        return self.request("PATCH", path, body, content_type)

    def delete(self, path: str, **parameters: str | int) -> Manifest:
        """DELETE an object, or everything under a path that names a collection."""
        return self.request("DELETE", path, parameters=parameters)

    def each(self, call: Callable[[Item], Answer], items: Iterable[Item]) -> Sequence[Answer]:
        """Call for every item, some at a time; answers in order, the first error raised."""
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            return list(pool.map(call, items))

    def request(
        self,
        method: str,
        path: str,
        body: Manifest | None = None,
        content_type: str = "application/json",
        parameters: Mapping[str, str | int] | None = None,
    ) -> Manifest:
        """One request; the answer's object, or an ApiError."""
        target = f"{path}?{urlencode(parameters)}" if parameters else path
        content = None if body is None else json.dumps(body).encode()
        headers = self._headers | ({} if body is None else {"Content-Type": content_type})
        connection = self._sent(method, target, content, headers)
        try:
            response = connection.getresponse()
            raw = response.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            raise
        self._idle.append(connection)
        answer = _decode(raw)
        if response.status >= 300:
            raise ApiError(
                response.status, answer.get("reason", response.reason), answer.get("message", "")
            )
        return answer

    def _sent(
        self, method: str, target: str, content: bytes | None, headers: dict[str, str]
    ) -> http.client.HTTPSConnection:
        """A connection over which the request went out.

        A kept one may have been closed by the server, which is found out on sending: then nothing
        has arrived, and a new one is used.
        """
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:
                break
            try:
                connection.request(method, target, content, headers)
            except OSError:
                connection.close()
            else:
                return connection
        parts = urlsplit(self.url)
        connection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port, timeout=TIMEOUT_SECONDS, context=self._context
        )
        try:
            connection.request(method, target, content, headers)
        except OSError:
            connection.close()
            raise
        return connection


def _decode(raw: bytes) -> Manifest:
    try:
        decoded = json.loads(raw)
    except ValueError:
        return {"message": raw.decode(errors="replace")}
    return decoded if isinstance(decoded, dict) else {"message": decoded}  # pyright: ignore
