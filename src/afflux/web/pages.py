"""The pages of a running process: /livez, /readyz, /healthz, /metrics and /configz.

They answer as those of the Kubernetes components do: `ok`, a list of checks with `?verbose`, 500
with the names of the checks that fail. Why they fail is on the check's own page, as /livez/cycle.
They are read-only and need no authentication: nothing secret may be shown, and work and logs are
limited. The inspection service, which needs it, is in `inspection_pages`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, Self

import msgspec
from aiohttp import web
from aiohttp.log import server_logger
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from afflux.model.errors import InputError
from afflux.web.inspection_pages import InspectionPages
from afflux.web.rate_limited_log import RateLimitedLog
from afflux.web.server_tls import RELOAD_INTERVAL_SECONDS, ServerTls

# Returns why the check fails, None if it passes.
Check = Callable[[], str | None]

CONFIGURATION_KEY = "afflux.dev"

_SHUTDOWN_TIMEOUT_SECONDS = 5.0
# Tokens of some providers list every group of their user.
_MAX_HEADER_BYTES = 1 << 15
_PLAIN = "text/plain"
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}

_log = logging.getLogger(__name__)


class Routes(Protocol):
    """Further pages, with paths of their own."""

    def add_to(self, app: web.Application) -> None:
        """Adds them to the server's pages."""
        ...


class Pages:
    """A server of these pages.

    `live` fails if only a restart helps, `ready` while this replica cannot work or take over; a
    replica that waits to become the leader is ready. /healthz, the older name, equals /livez.
    `configuration` is the effective one. `before_metrics` updates metrics that are computed on
    demand. `inspection` is served too, if given; it refuses requests without TLS itself. So is what
    another process than the scheduler has, in `further`, with bodies of `max_body_bytes`.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        live: Mapping[str, Check],
        ready: Mapping[str, Check],
        configuration: Mapping[str, object],
        before_metrics: Callable[[], None] = lambda: None,
        inspection: InspectionPages | None = None,
        further: Sequence[Routes] = (),
        max_body_bytes: int = 1 << 20,
    ) -> None:
        self._registry = registry
        self._before_metrics = before_metrics
        self._configuration = msgspec.json.encode({CONFIGURATION_KEY: configuration})
        app = web.Application(middlewares=[_error_pages], client_max_size=max_body_bytes)
        for name, checks in (("livez", live), ("readyz", ready), ("healthz", live)):
            _add_health(app, name, {"ping": lambda: None, **checks})
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/configz", self._configz)
        for routes in (*further, *([] if inspection is None else [inspection])):
            routes.add_to(app)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=_SHUTDOWN_TIMEOUT_SECONDS,
            max_field_size=_MAX_HEADER_BYTES,
            logger=RateLimitedLog(server_logger),
        )
        self._tls: ServerTls | None = None
        self._client_authorities = b""
        self._reloading: asyncio.Task[None] | None = None
        # Where it listens, once it does.
        self.port = 0

    async def start(
        self,
        address: str,
        port: int,
        cert_file: str = "",
        key_file: str = "",
        *,
        reload_interval_seconds: float = RELOAD_INTERVAL_SECONDS,
    ) -> None:
        """Listen; port 0 means any free port. With a certificate and its key, only HTTPS."""
        tls = ServerTls(cert_file, key_file) if cert_file else None
        context = None if tls is None else tls.context
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, address, port, ssl_context=context).start()
        except OSError as error:
            await self._runner.cleanup()
            raise InputError(
                f"serving.port: {port} on {address}: {error.strerror or error};"
                " expected an address of this machine and a free port"
            ) from None
        self.port = self._runner.addresses[0][1]
        if tls is not None:
            tls.trust_clients_of(self._client_authorities)
            self._tls = tls
            self._reloading = asyncio.create_task(tls.reload(reload_interval_seconds))
        _log.info("serving health and metrics on %s, port %d", address, self.port)

    def trust_clients_of(self, authorities: bytes) -> None:
        """Accept client certificates of these authorities, in PEM form, and no others. Without
        any, none are requested. An InputError if the text has no certificate."""
        if self._tls is not None:
            self._tls.trust_clients_of(authorities)
        self._client_authorities = authorities

    async def close(self) -> None:
        """Finish the requests under way and stop listening."""
        if self._reloading is not None:
            self._reloading.cancel()
            await asyncio.wait({self._reloading})
        await self._runner.cleanup()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _metrics(self, request: web.Request) -> web.Response:
        self._before_metrics()
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        response = web.Response(
            body=encode(self._registry), headers={**_HEADERS, "Content-Type": content_type}
        )
        response.enable_compression()
        return response

    async def _configz(self, _: web.Request) -> web.Response:
        return web.Response(
            body=self._configuration, content_type="application/json", headers=_HEADERS
        )


def _add_health(app: web.Application, name: str, checks: Mapping[str, Check]) -> None:
    """The page with all checks, and one page for each."""
    log = RateLimitedLog(_log)

    async def all_checks(request: web.Request) -> web.Response:
        excluded = set(request.query.getall("exclude", []))
        lines: list[str] = []
        failed: list[str] = []
        for check, look in checks.items():
            if check in excluded:
                lines.append(f"[+]{check} excluded: ok")
            elif (complaint := _complaint(look)) is None:
                lines.append(f"[+]{check} ok")
            else:
                lines.append(f"[-]{check} failed: reason withheld")
                failed.append(f"{check}: {complaint}")
        if unknown := sorted(excluded - set(checks)):
            names = ",".join(f'"{each}"' for each in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        if failed:
            log.warning("%s check failed: %s", name, "; ".join(failed))
            return _text(500, "\n".join([*lines, f"{name} check failed\n"]))
        if "verbose" not in request.query:
            return _text(200, "ok")
        return _text(200, "\n".join([*lines, f"{name} check passed\n"]))

    async def one_check(request: web.Request) -> web.Response:
        look = checks.get(request.match_info["check"])
        if look is None:
            known = ", ".join(checks)
            return _text(404, f"{request.path}: no such check, expected one of {known}\n")
        complaint = _complaint(look)
        if complaint is None:
            return _text(200, "ok")
        return _text(500, f"internal server error: {complaint}\n")

    app.router.add_get(f"/{name}", all_checks)
    app.router.add_get(f"/{name}/{{check}}", one_check)


def _complaint(look: Check) -> str | None:
    """A check that raises an exception fails."""
    try:
        return look()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@web.middleware
async def _error_pages(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Plain-text answers for wrong paths and methods."""
    try:
        return await handler(request)
    except web.HTTPNotFound:
        return _text(
            404,
            f"{request.path}: no such page, expected one of"
            " /livez, /readyz, /healthz, /metrics, /configz\n",
        )
    except web.HTTPMethodNotAllowed as error:
        allowed = ", ".join(sorted(error.allowed_methods))
        response = _text(405, f"{request.path}: {request.method}, expected one of {allowed}\n")
        response.headers["Allow"] = allowed
        return response


def _text(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text, content_type=_PLAIN, headers=_HEADERS)
