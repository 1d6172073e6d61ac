"""The loader follows the ConfigMap and the keys; what is wrong keeps the last good normaliser."""

import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from content_server import served
from small_api import run

from afflux.kube import objects
from afflux.kube.live.content_download import ContentDownload, DownloadLimits
from afflux.kube.live.normaliser_loader import NormaliserLoader
from afflux.model.disks import Bandwidth, Normalise, VolumeIO
from afflux.normalisers.signatures import (
    Signed,
    content_digest,
    is_signed_by,
    parse_private_key,
    private_key_pem,
    public_key,
    sign,
)
from afflux.web.scheduler_metrics import Metrics

PRIVATE = parse_private_key(private_key_pem(b"k" * 32))
MODEL = "Acme/NV100"
IO = VolumeIO(100, 0, 32 * 1024)
NAME = "default/normalization-func"


def table(factor: float) -> bytes:
    factors = {"32k": factor}
    found = {"kind": "DiskCoefficients", "name": "NV100", "read": factors, "write": factors}
    return json.dumps(found).encode()


class Vendor:
    """A server of contents by path, a file of keys, and a loader that follows both."""

    def __init__(self, url: str, keys: Path, download: ContentDownload) -> None:
        self.url = url
        self.contents: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.changes: list[frozenset[str]] = []
        self.problems: list[str] = []
        self.normalise: Normalise | None = None
        self.keys = keys
        self._version = 0
        self.trust()
        self.loader = NormaliserLoader(
            NAME,
            str(keys),
            download,
            Metrics(),
            on_change=self._changed,
            on_problems=self.problems.append,
            initial_backoff_seconds=0.0,
        )

    def _changed(self, models: frozenset[str], normalise: Normalise) -> None:
        self.changes.append(models)
        self.normalise = normalise

    def trust(self, *, key_id: str = "k1") -> None:
        self.keys.write_text(json.dumps({key_id: base64.b64encode(public_key(PRIVATE)).decode()}))

    def entry(self, content: bytes, version: int = 1, **changes: Any) -> dict[str, Any]:
        """A signed entry, whose content is served."""
        self.contents[f"/{version}"] = content
        signed = Signed("Acme", "NV100", version, content_digest(content))
        return {
            "vendorName": "Acme",
            "model": "NV100",
            "url": f"{self.url}/{version}",
            "version": version,
            "digest": signed.digest,
            "keyId": "k1",
            "signature": sign(PRIVATE, signed),
            **changes,
        }

    async def announce(self, *entries: dict[str, Any], text: str | None = None) -> None:
        self._version += 1
        stated = {
            "metadata": {
                "namespace": "default",
                "name": "normalization-func",
                "resourceVersion": str(self._version),
            },
            "data": {"diskVendors": json.dumps(entries) if text is None else text},
        }
        found = msgspec.json.decode(json.dumps(stated), type=objects.ConfigMap)
        self.loader.store.changed(found)
        await self.loader.load()

    @property
    def takes(self) -> int | None:
        """What reading 100 takes of a disk of the model."""
        taken = self.loader.registry.normalise(MODEL, IO)
        return None if taken is None else taken.read


@asynccontextmanager
async def vendors(path: Path) -> AsyncIterator[Vendor]:
    made: list[Vendor] = []

    async def answer(request: web.Request) -> web.Response:
        made[0].asked.append(request.path)
        content = made[0].contents.get(request.path)
        return web.Response(status=404) if content is None else web.Response(body=content)

    async with served(answer) as url, ContentDownload(DownloadLimits()) as download:
        made.append(Vendor(url, path / "keys.json", download))
        yield made[0]


def loading(tmp_path: Path, test: Callable[[Vendor], Any]) -> None:
    async def run_test() -> None:
        async with vendors(tmp_path) as vendor:
            await test(vendor)

    run(run_test)


def test_a_signed_content_is_used_and_the_change_reported_once(tmp_path: Path) -> None:
    async def test(vendor: Vendor) -> None:
        await vendor.announce(vendor.entry(table(2)))
        assert vendor.takes == 200
        assert vendor.changes == [frozenset({MODEL})]
        assert vendor.normalise is not None
        assert vendor.normalise(MODEL, IO) == Bandwidth(200, 0, 200)
        await vendor.loader.load()
        assert len(vendor.changes) == 1
        assert vendor.asked == ["/1"]

    loading(tmp_path, test)


def test_a_higher_version_replaces_it_without_a_restart(tmp_path: Path) -> None:
    async def test(vendor: Vendor) -> None:
        await vendor.announce(vendor.entry(table(2)))
        await vendor.announce(vendor.entry(table(3), 2))
        assert vendor.takes == 300
        assert vendor.changes == [frozenset({MODEL})] * 2

    loading(tmp_path, test)


def test_nothing_is_asked_for_an_entry_that_no_trusted_key_has_signed(tmp_path: Path) -> None:
    async def test(vendor: Vendor) -> None:
        await vendor.announce(vendor.entry(table(2), keyId="stranger"))
        assert vendor.asked == []
        assert "expected a trusted key" in vendor.problems[0]

    loading(tmp_path, test)


def test_a_thousand_forged_entries_are_verified_once_and_told_in_short(tmp_path: Path) -> None:
    async def test(vendor: Vendor) -> None:
        good = vendor.entry(table(2))
        forged = [good | {"model": f"F{number}"} for number in range(999)]
        is_signed_by.cache_clear()
        await vendor.announce(good, *forged)
        assert vendor.takes == 200
        for _ in range(3):
            await vendor.loader.load()
        assert is_signed_by.cache_info().misses == 1000
        (told,) = vendor.problems
        assert told.endswith("; and 989 more")
        assert len(told) < 4000

    loading(tmp_path, test)


def test_another_content_than_the_signed_one_is_refused_and_tried_again(tmp_path: Path) -> None:
    async def test(vendor: Vendor) -> None:
        entry = vendor.entry(table(2))
        vendor.contents["/1"] = table(0.5)
        await vendor.announce(entry)
        assert vendor.takes is None
        assert "the content has the digest" in vendor.problems[0]
        # The vendor has repaired its server.
        vendor.contents["/1"] = table(2)
        await vendor.loader.load()
        assert vendor.takes == 200

    loading(tmp_path, test)


def test_a_content_that_cannot_be_had_keeps_the_last_good_one(tmp_path: Path) -> None:
    async def test(vendor: Vendor) -> None:
        await vendor.announce(vendor.entry(table(2)))
        newer = vendor.entry(table(3), 2)
        del vendor.contents["/2"]
        await vendor.announce(newer)
        assert vendor.takes == 200
        assert vendor.problems[-1].endswith("status 404, expected 200")
        await vendor.announce(vendor.entry(table(3), 2, url=None))
        assert vendor.takes == 200

    loading(tmp_path, test)


def test_a_lower_version_is_refused(tmp_path: Path) -> None:
    async def test(vendor: Vendor) -> None:
        await vendor.announce(vendor.entry(table(2), 2))
        await vendor.announce(vendor.entry(table(1), 1))
        assert vendor.takes == 200

    loading(tmp_path, test)


def test_a_list_that_cannot_be_read_removes_nothing(tmp_path: Path) -> None:
    async def test(vendor: Vendor) -> None:
        await vendor.announce(vendor.entry(table(2)))
        await vendor.announce(text="[")
        assert vendor.takes == 200
        assert vendor.problems[-1].startswith("diskVendors: ")

    loading(tmp_path, test)


def test_an_entry_that_is_removed_takes_its_normaliser_with_it(tmp_path: Path) -> None:
    async def test(vendor: Vendor) -> None:
        await vendor.announce(vendor.entry(table(2)))
        await vendor.announce()
        assert vendor.takes is None
        assert vendor.changes == [frozenset({MODEL})] * 2

    loading(tmp_path, test)


def test_keys_are_read_again_when_they_change(tmp_path: Path) -> None:
    async def test(vendor: Vendor) -> None:
        vendor.trust(key_id="another")
        await vendor.announce(vendor.entry(table(2)))
        assert vendor.takes is None
        vendor.trust()
        await vendor.loader.load()
        assert vendor.takes == 200
        # Keys that cannot be read for a moment change nothing.
        vendor.keys.write_text("{")
        await vendor.loader.load()
        assert vendor.takes == 200
        assert vendor.problems[-1].startswith("trusted keys: ")
        vendor.trust(key_id="another")
        await vendor.loader.load()
        assert vendor.takes is None

    loading(tmp_path, test)
