"""The client of the inspection service, with the credentials of a kubeconfig's user.

It sends the credentials for the API server to the service, over TLS that is always verified, and
nowhere else. Not here: what is done with the answers.
"""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Self, TypeVar
from urllib.parse import quote, urlsplit

from afflux.cycle.inspection_types import (
    MAX_LINES,
    ROOT,
    GroupDetails,
    HistoryList,
    InspectionError,
    ListQuery,
    QueueList,
    ReservationList,
)
from afflux.kube.api.client import Api
from afflux.kube.api.client_config import ClientConfig
from afflux.kube.api.errors import ApiError, CredentialError, UnreachableError
from afflux.kube.api.http_proxy import proxy_for
from afflux.kube.input_errors import shown
from afflux.model.errors import InputError

_TLS_CLOSE_SECONDS = 0.1

T = TypeVar("T")


def service_connection(
    user: ClientConfig, url: str, authority: str | None = None, server_name: str | None = None
) -> ClientConfig:
    """The client configuration for the service at this address, with this user's credentials.

    The certificate authority is the file `authority`, or else that of the user's cluster. The name
    in the certificate is `server_name`, or else that of the address.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, usable = urlsplit(""), False
    if not usable or parts.username or parts.query or parts.fragment:
        # Without TLS the credentials could be read on the way.
        raise InputError(f"--service: {shown(url)}, expected https://host:port")
    if user.headers:
        problem = "the service does not impersonate users; expected a user without it"
        raise InputError(f"{user.origin}: as: {problem}")
    return replace(
        user,
        server=url.rstrip("/"),
        ca=Path(authority) if authority else user.ca,
        tls_server_name=server_name or "",
        # insecure-skip-tls-verify of the kubeconfig applies to the API server only.
        insecure=False,
        proxy_url=proxy_for(url),
    )


class ServiceInspection:
    def __init__(self, connection: ClientConfig, timeout_seconds: float) -> None:
        self._connection = connection
        self._api = Api(connection, connections=1, timeout_seconds=timeout_seconds)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._api.close()
        if self._connection.client_certificate is not None:
            # The service then closes each connection. aiohttp does not wait for the end of TLS; its
            # documentation recommends this pause.
            await asyncio.sleep(_TLS_CLOSE_SECONDS)

    async def queue(self, query: ListQuery) -> QueueList:
        """Groups that have not ended, by queue and position."""
        return await self._get(_path("queue", query), QueueList, _parameters(query, states=True))

    async def reservations(self, query: ListQuery) -> ReservationList:
        """Reservations, the earliest first."""
        return await self._get(_path("reservations", query), ReservationList, _parameters(query))

    async def history(self, query: ListQuery) -> HistoryList:
        """Groups that have ended, the latest first."""
        return await self._get(_path("history", query), HistoryList, _parameters(query))

    async def group(self, namespace: str, name: str) -> GroupDetails | None:
        """One group; None if the service knows of none."""
        path = f"{ROOT}/namespaces/{quote(namespace, safe='')}/groups/{quote(name, safe='')}"
        try:
            return await self._api.get(path, GroupDetails)
        except ApiError as error:
            # With this reason the 404 comes from the service itself, not from a proxy before it.
            if error.is_not_found and error.reason == "NotFound":
                return None
            raise self._problem(error) from None
        except UnreachableError as error:
            raise self._problem(error) from None

    async def _get(self, path: str, answer: type[T], parameters: dict[str, str]) -> T:
        try:
            return await self._api.get(path, answer, parameters)
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
                # A TLS handshake ends like this if the service does not trust our certificate.
                said += (
                    "; if it does not know the authority of your client certificate, expected a"
                    " user with a token, or one of the cluster in which the service runs"
                )
            return InspectionError(f"{where}: {said}")
        if error.status == 400:
            return InputError(f"{where}: {error.message}")
        if error.is_not_found:
            return InspectionError(
                f"{where}: there is no inspection service; expected an afflux that keeps a ledger"
                " and serves TLS"
            )
        return InspectionError(f"{where}: {error.status} {error.reason}: {error.message}")


def _path(resource: str, query: ListQuery) -> str:
    namespace = query.namespace
    scope = "" if namespace is None else f"/namespaces/{quote(namespace, safe='')}"
    return f"{ROOT}{scope}/{resource}"


def _parameters(query: ListQuery, *, states: bool = False) -> dict[str, str]:
    parameters = {"limit": str(min(query.limit, MAX_LINES))}
    if query.queue:
        parameters["queue"] = query.queue
    if query.continue_token:
        parameters["continue"] = query.continue_token
    if states and query.states:
        parameters["state"] = ",".join(query.states)
    return parameters
