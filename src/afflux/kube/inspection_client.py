"""The inspection service from outside: asked as the user of a kubeconfig.

The same credentials that open the API server are shown to the service, over TLS that is always
verified, and nowhere else. Not here: what is done with the answers.
"""

import asyncio
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote, urlsplit

from afflux.cycle.inspection import (
    MOST_LINES,
    ROOT,
    Asked,
    GroupDetails,
    HistoryList,
    InspectionError,
    QueueList,
    ReservationList,
)
from afflux.kube.api.client import Api
from afflux.kube.api.connection import Connection
from afflux.kube.api.errors import ApiError, CredentialError, UnreachableError
from afflux.kube.api.proxies import proxy_for
from afflux.kube.complaints import shown
from afflux.model.errors import InputError

_FAREWELL_SECONDS = 0.1

T = TypeVar("T")


def service_connection(
    user: Connection, url: str, authority: str | None = None, server_name: str | None = None
) -> Connection:
    """The way to the service at this address, with this user's credentials.

    Its certificate is checked by the authority in that file, or else by that of the user's cluster,
    for its own name or else for that of the address.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, usable = urlsplit(""), False
    if not usable or parts.username or parts.query or parts.fragment:
        # In the clear, everybody on the way could read the credentials.
        raise InputError(f"--service: {shown(url)}, expected https://host:port")
    if user.headers:
        raise InputError(
            f"{user.origin}: as: the service impersonates nobody; expected a user without it"
        )
    return replace(
        user,
        server=url.rstrip("/"),
        ca=Path(authority) if authority else user.ca,
        tls_server_name=server_name or "",
        # Whoever skips the check for the API server has not said so for anybody else.
        insecure=False,
        proxy_url=proxy_for(url),
    )


class ServiceInspection:
    """Answers from the service."""

    def __init__(self, connection: Connection, timeout_seconds: float) -> None:
        self._connection = connection
        self._api = Api(connection, connections=1, timeout_seconds=timeout_seconds)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._api.close()
        if self._connection.client_certificate is not None:
            # Then the service ends each connection, and the library does not wait for the end of
            # its TLS; its own advice is to give it a moment.
            await asyncio.sleep(_FAREWELL_SECONDS)

    async def queue(self, asked: Asked) -> QueueList:
        """Who waits."""
        return await self._get(_path("queue", asked), QueueList, _query(asked, states=True))

    async def reservations(self, asked: Asked) -> ReservationList:
        """Who was promised what."""
        return await self._get(_path("reservations", asked), ReservationList, _query(asked))

    async def history(self, asked: Asked) -> HistoryList:
        """Who has ended."""
        return await self._get(_path("history", asked), HistoryList, _query(asked))

    async def group(self, namespace: str, name: str) -> GroupDetails | None:
        """One group; None if the service knows of none."""
        path = f"{ROOT}/namespaces/{quote(namespace, safe='')}/groups/{quote(name, safe='')}"
        try:
            return await self._api.get(path, GroupDetails)
        except ApiError as error:
            # Said by the service itself. Somebody else's 404 is no word about groups.
            if error.is_missing and error.reason == "NotFound":
                return None
            raise self._problem(error) from None
        except UnreachableError as error:
            raise self._problem(error) from None

    async def _get(self, path: str, answer: type[T], query: dict[str, str]) -> T:
        try:
            return await self._api.get(path, answer, query)
        except (ApiError, UnreachableError) as error:
            raise self._problem(error) from None

    def _problem(self, error: ApiError | UnreachableError) -> InspectionError | InputError:
        where = self._connection.server
        if isinstance(error, CredentialError):
            return InspectionError(str(error))
        if isinstance(error, UnreachableError):
            said = str(error)
            ended = "closed the connection" in said or "reset by peer" in said
            if ended and self._connection.client_certificate is not None:
                # So ends a handshake in which our certificate was not believed.
                said += (
                    "; if it does not know the authority of your client certificate, expected a"
                    " user with a token, or one of the cluster in which the service runs"
                )
            return InspectionError(f"{where}: {said}")
        if error.status == 400:
            return InputError(f"{where}: {error.message}")
        if error.is_missing:
            return InspectionError(
                f"{where}: there is no inspection service; expected an afflux that keeps a ledger"
                " and serves TLS"
            )
        return InspectionError(f"{where}: {error.status} {error.reason}: {error.message}")


def _path(what: str, asked: Asked) -> str:
    where = "" if asked.namespace is None else f"/namespaces/{quote(asked.namespace, safe='')}"
    return f"{ROOT}{where}/{what}"


def _query(asked: Asked, *, states: bool = False) -> dict[str, str]:
    query = {"limit": str(min(asked.limit, MOST_LINES))}
    if asked.queue:
        query["queue"] = asked.queue
    if asked.resume:
        query["continue"] = asked.resume
    if states:
        query["state"] = ",".join(asked.states)
    return query
