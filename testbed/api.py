"""A plain HTTP client of the API server, with which tests create and read objects.

It does not use afflux's client, because that is under test.
"""

import http.client
import json
import ssl
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

# An API object as decoded JSON, without a schema.
Manifest = dict[str, Any]

Item = TypeVar("Item")
Answer = TypeVar("Answer")

# With more connections the API server is slower on two cores.
CONNECTIONS = 16
TIMEOUT_SECONDS = 60.0
PAGE = 5000

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
SERVER_SIDE = "application/apply-patch+yaml"


class ApiError(Exception):
    """The API server refused a request."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason


class Api:
    """Sends requests over persistent connections. Thread-safe."""

    def __init__(self, url: str, context: ssl.SSLContext, token: str | None = None) -> None:
        self.url = url
        self._context = context
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._idle: deque[http.client.HTTPSConnection] = deque()

    def close(self) -> None:
        """Closes idle connections: at the end, and after the server was killed."""
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
        """DELETE an object, or a whole collection."""
        return self.request("DELETE", path, parameters=parameters)

    def each(self, call: Callable[[Item], Answer], items: Iterable[Item]) -> Sequence[Answer]:
        """Calls `call` for all items in parallel and returns the results in order.

        Raises the first error.
        """
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
        """Sends one request and returns the decoded answer; raises ApiError."""
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
        """Sends a request and returns its connection.

        The server may have closed an idle connection. Sending then fails before anything has
        arrived, and a new connection is used.
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
