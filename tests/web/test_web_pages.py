"""The pages of a running process: health, metrics, configuration, HTTPS."""

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from afflux.config import default_configuration, effective_configuration
from afflux.model.errors import InputError
from afflux.web.pages import Check, Pages
from afflux.web.rate_limited_log import RateLimitedLog
from afflux.web.scheduler_metrics import Metrics
from afflux.web.watchdog import Watchdog


def pages(
    live: Mapping[str, Check] | None = None, ready: Mapping[str, Check] | None = None
) -> Pages:
    return Pages(
        Metrics().registry,
        live=live or {},
        ready=ready or {},
        configuration=effective_configuration(default_configuration()),
    )


class Client:
    """A client of the pages."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session, self.url = session, url

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        async with self.session.get(self.url + path, headers=headers) as response:
            return response.status, await response.text()


@asynccontextmanager
async def asking(served: Pages) -> AsyncIterator[Client]:
    async with served:
        await served.start("127.0.0.1", 0)
        async with aiohttp.ClientSession() as session:
            yield Client(session, f"http://127.0.0.1:{served.port}")


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await test()

    asyncio.run(bounded())


# --- Health


@pytest.mark.parametrize("page", ["livez", "readyz", "healthz"])
def test_health_checks_that_pass_answer_ok(page: str) -> None:
    async def test() -> None:
        checks = {"cycle": lambda: None}
        async with asking(pages(checks, checks)) as ask:
            assert await ask.get(f"/{page}") == (200, "ok")
            assert await ask.get(f"/{page}?verbose") == (
                200,
                f"[+]ping ok\n[+]cycle ok\n{page} check passed\n",
            )
            assert await ask.get(f"/{page}/ping") == (200, "ok")
            assert await ask.get(f"/{page}/cycle") == (200, "ok")

    run(test)


def test_a_failing_check_is_named_and_its_own_page_has_the_reason() -> None:
    async def test() -> None:
        ready: dict[str, Check] = {"watches": lambda: "3 of 9 not synced", "leader": lambda: None}
        async with asking(pages(ready=ready)) as ask:
            assert await ask.get("/readyz") == (
                500,
                "[+]ping ok\n[-]watches failed: reason withheld\n[+]leader ok\n"
                "readyz check failed\n",
            )
            assert await ask.get("/readyz/watches") == (
                500,
                "internal server error: 3 of 9 not synced\n",
            )
            # Liveness does not depend on it.
            assert await ask.get("/livez") == (200, "ok")

    run(test)


def test_a_check_can_be_excluded() -> None:
    async def test() -> None:
        async with asking(pages(live={"cycle": lambda: "stuck"})) as ask:
            assert await ask.get("/livez?exclude=cycle") == (200, "ok")
            assert await ask.get("/livez?exclude=cycle&exclude=no&verbose") == (
                200,
                "[+]ping ok\n[+]cycle excluded: ok\n"
                'warn: some health checks cannot be excluded: no matches for "no"\n'
                "livez check passed\n",
            )

    run(test)


def test_checks_run_at_each_request() -> None:
    async def test() -> None:
        synced = False
        async with asking(pages(ready={"watches": lambda: None if synced else "no"})) as ask:
            assert (await ask.get("/readyz"))[0] == 500
            synced = True
            assert (await ask.get("/readyz"))[0] == 200

    run(test)


def test_a_check_that_raises_fails() -> None:
    def broken() -> str | None:
        raise ZeroDivisionError("by nought")

    async def test() -> None:
        async with asking(pages(live={"cycle": broken})) as ask:
            assert (await ask.get("/livez"))[0] == 500
            assert "ZeroDivisionError: by nought" in (await ask.get("/livez/cycle"))[1]

    run(test)


def test_a_stuck_cycle_fails_the_liveness_check() -> None:
    async def test() -> None:
        now = 1000.0
        watchdog = Watchdog(stuck_after_seconds=60, clock=lambda: now)
        async with asking(pages(live={"cycle": watchdog.complaint})) as ask:
            # Before the first cycle, and between two cycles, the loop is not stuck.
            now += 61
            assert (await ask.get("/livez"))[0] == 200
            watchdog.begin()
            now += 60
            assert (await ask.get("/livez"))[0] == 200
            now += 1
            assert (await ask.get("/livez"))[0] == 500
            assert "a cycle has been running for 61 s" in (await ask.get("/livez/cycle"))[1]
            watchdog.end()
            now += 61
            assert (await ask.get("/livez"))[0] == 200

    run(test)


def test_a_cycle_within_its_time_is_not_stuck() -> None:
    watchdog = Watchdog(stuck_after_seconds=300)
    watchdog.begin()
    assert watchdog.complaint() is None


# --- Metrics and configuration


def test_metrics_come_in_the_format_that_is_asked_for() -> None:
    async def test() -> None:
        async with asking(pages()) as ask:
            url = f"{ask.url}/metrics"
            async with ask.session.get(url) as response:
                assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
                names = {f.name for f in text_string_to_metric_families(await response.text())}
                assert "process_resident_memory_bytes" in names
            accept = {"Accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"}
            async with ask.session.get(url, headers=accept) as response:
                assert response.headers["Content-Type"].startswith("application/openmetrics-text")
                text = await response.text()
                assert text.endswith("# EOF\n")
                assert "scheduler_preemption_attempts" in {f.name for f in parse_openmetrics(text)}
            async with ask.session.get(url, headers={"Accept-Encoding": "gzip"}) as response:
                assert response.headers["Content-Encoding"] == "gzip"

    run(test)


def test_configz_shows_the_effective_configuration() -> None:
    async def test() -> None:
        async with asking(pages()) as ask:
            status, text = await ask.get("/configz")
            shown = json.loads(text)
            assert status == 200
            assert shown == {"afflux.dev": effective_configuration(default_configuration())}
            assert shown["afflux.dev"]["leaderElection"]["leaseDuration"] == "15s"

    run(test)


# --- Other requests


@pytest.mark.parametrize("path", ["/", "/metric", "/livez/no", "/livez/ping/more", "/..%2f"])
def test_unknown_paths_are_not_found(path: str) -> None:
    async def test() -> None:
        async with asking(pages()) as ask:
            status, text = await ask.get(path)
            assert status == 404
            assert "expected one of" in text

    run(test)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_only_reading_methods_are_allowed(method: str) -> None:
    async def test() -> None:
        async with asking(pages()) as ask:
            url = f"{ask.url}/configz"
            async with ask.session.request(method, url, data=b"{}") as response:
                assert response.status == 405
                assert response.headers["Allow"] == "GET, HEAD"
                assert await response.text() == f"/configz: {method}, expected one of GET, HEAD\n"
            async with ask.session.head(url) as response:
                assert response.status == 200

    run(test)


def test_an_address_in_use_is_refused() -> None:
    async def test() -> None:
        async with asking(pages()) as ask:
            port = int(ask.url.rsplit(":", 1)[1])
            with pytest.raises(
                InputError, match=rf"serving\.port: {port} on 127\.0\.0\.1: .*in use"
            ):
                await pages().start("127.0.0.1", port)

    run(test)


# --- HTTPS


def write_certificate(folder: Path, authority: trustme.CA) -> tuple[str, str]:
    issued = authority.issue_cert("127.0.0.1")
    cert, key = folder / "tls.crt", folder / "tls.key"
    issued.cert_chain_pems[0].write_to_path(str(cert))
    issued.private_key_pem.write_to_path(str(key))
    return str(cert), str(key)


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def answer(url: str, context: ssl.SSLContext) -> Any:
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
        session.get(url) as response,
    ):
        return await response.text()


def test_a_new_certificate_is_used_once_it_is_complete(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        old, new = trustme.CA(), trustme.CA()
        async with pages() as served:
            await served.start(
                "127.0.0.1", 0, *write_certificate(tmp_path, old), reload_interval_seconds=0.05
            )
            url = f"https://127.0.0.1:{served.port}/livez"
            assert await answer(url, trusting(old)) == "ok"
            with pytest.raises(aiohttp.ClientSSLError):
                await answer(url, trusting(new))
            # A new certificate without its key: the old pair stays in use.
            (tmp_path / "tls.crt").write_text("not yet")
            while "the old certificate stays" not in caplog.text:
                await asyncio.sleep(0.05)
            assert await answer(url, trusting(old)) == "ok"
            write_certificate(tmp_path, new)
            while True:
                with suppress(aiohttp.ClientSSLError):
                    assert await answer(url, trusting(new)) == "ok"
                    break
                await asyncio.sleep(0.05)

    run(test)


@pytest.mark.parametrize("content", [None, "nonsense"])
def test_an_unusable_certificate_is_refused(tmp_path: Path, content: str | None) -> None:
    async def test() -> None:
        if content is not None:
            (tmp_path / "c").write_text(content)
        with pytest.raises(InputError, match=r"serving\.certFile: .*expected a PEM certificate"):
            await pages().start("127.0.0.1", 0, str(tmp_path / "c"), str(tmp_path / "c"))

    run(test)


# --- Rate-limited logging


def test_warnings_are_rate_limited(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with asking(pages(ready={"watches": lambda: "not yet"})) as ask:
            for _ in range(20):
                assert (await ask.get("/readyz"))[0] == 500
            host, port = ask.url.removeprefix("http://").split(":")
            for _ in range(20):
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(b"GET / HTTP/1.1\r\n\x00\x01: nonsense\r\n\r\n")
                await reader.read()
                writer.close()

    with caplog.at_level(logging.WARNING):
        run(test)
    assert sum("readyz check failed" in each.getMessage() for each in caplog.records) == 1
    assert len(caplog.records) <= 3, [each.getMessage() for each in caplog.records]


def test_suppressed_messages_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    log = RateLimitedLog(logging.getLogger("a test"), 10.0, lambda: now)
    with caplog.at_level(logging.INFO):
        for number in range(5):
            log.warning("%s is wrong", number)
            log.error("another %s", number)
            log.info("all of these")
        now = 11.0
        log.warning("%s is wrong", 7)
    said = [each.getMessage() for each in caplog.records if each.levelno > logging.INFO]
    assert said == ["0 is wrong", "another 0", "7 is wrong (and 4 more like this)"]
    assert caplog.text.count("all of these") == 5
