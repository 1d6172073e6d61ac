"""Normaliser loader: follows the ConfigMap of the vendors and the trusted keys, without a restart.

It downloads the contents of the entries that the registry wants, gives them to the registry, which
verifies them, and reports which models have changed. What cannot be had or is refused is tried
again after a while; the last good normaliser of a model stays in use meanwhile. Downloads and
modules that take long never delay a cycle: they are awaited here, and compiled in a thread.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from time import monotonic

from afflux.control.backoff import Backoff
from afflux.kube import objects
from afflux.kube.disks.disk_vendors import listed_normalisers
from afflux.kube.live.content_download import ContentDownload, DownloadError
from afflux.kube.reader.object_store import Key, ObjectStore
from afflux.kube.reader.work_queue import WorkQueue
from afflux.kube.trusted_key_files import read_trusted_keys
from afflux.model.disks import Normalise
from afflux.model.errors import InputError
from afflux.normalisers.catalogue import Entry
from afflux.normalisers.errors import NormaliserRefusedError
from afflux.normalisers.registry import NormaliserRegistry, Problem
from afflux.web.rate_limited_log import RateLimitedLog
from afflux.web.scheduler_metrics import Metrics

# How often the files of the keys are looked at.
KEYS_INTERVAL_SECONDS = 10.0
INITIAL_BACKOFF_SECONDS = 2.0
MAX_BACKOFF_SECONDS = 300.0
# Contents that are downloaded at the same time.
_PARALLEL = 4
# So many problems are told at once.
_MAX_TOLD = 10

_log = logging.getLogger(__name__)


class NormaliserLoader:
    """Keeps the registry up to date with one ConfigMap and with the keys at a path.

    `on_change` gets the models whose normaliser has changed, and the function; `on_problems` the
    sentences about what is wrong, when they change.
    """

    def __init__(
        self,
        config_map: str,
        keys_path: str,
        download: ContentDownload,
        metrics: Metrics,
        *,
        on_change: Callable[[frozenset[str], Normalise], None],
        on_problems: Callable[[str], None],
        keys_interval_seconds: float = KEYS_INTERVAL_SECONDS,
        initial_backoff_seconds: float = INITIAL_BACKOFF_SECONDS,
    ) -> None:
        self.registry = NormaliserRegistry({})
        self.changes = WorkQueue[Key]()
        # The sink of a watch.
        self.store = ObjectStore[objects.ConfigMap]("config map", self.changes)
        self._config_map = config_map
        self._keys_path = keys_path
        self._download = download
        self._metrics = metrics
        self._on_change = on_change
        self._on_problems = on_problems
        self._keys_interval_seconds = keys_interval_seconds
        self._initial_backoff_seconds = initial_backoff_seconds
        self._keys: Mapping[str, bytes] = {}
        self._keys_problem = ""
        self._told = ""
        self._log = RateLimitedLog(_log)
        # When the content of an entry is tried again, and the pause after that.
        self._due: dict[Entry, float] = {}
        self._backoffs: dict[Entry, Backoff] = {}

    async def run(self) -> None:
        """Load until cancelled."""
        await self.store.synced.wait()
        while True:
            await self.load()
            try:
                async with asyncio.timeout(self._pause_seconds()):
                    await self.changes.wait()
            except TimeoutError:
                pass

    async def load(self) -> None:
        """Look at the ConfigMap and the keys, and get what is missing and due."""
        changed = await self._read_keys()
        if self.changes.take():
            changed |= self._read_entries()
        changed |= await self._load_wanted()
        if changed:
            self._on_change(changed, self.registry.normalise)
        self._tell_problems()

    def _read_entries(self) -> frozenset[str]:
        """Returns the models that have lost their normaliser."""
        # What has changed may have repaired what was wrong before.
        self._due.clear()
        self._backoffs.clear()
        try:
            catalogue = listed_normalisers(self.store.get(self._config_map))
        except NormaliserRefusedError as error:
            self.registry.unreadable(str(error))
            return frozenset()
        return self.registry.set_entries(catalogue)

    async def _read_keys(self) -> frozenset[str]:
        """The same for the trusted keys; those that were read last stay if they cannot be read."""
        self._keys_problem = ""
        keys: Mapping[str, bytes] = {}
        if self._keys_path:
            try:
                keys = await asyncio.to_thread(read_trusted_keys, self._keys_path)
            except InputError as error:
                self._keys_problem = f"trusted keys: {error}"
                return frozenset()
        if keys == self._keys:
            return frozenset()
        self._keys = keys
        self._due.clear()
        return self.registry.set_trusted_keys(keys)

    async def _load_wanted(self) -> frozenset[str]:
        # Its signatures are verified in a thread: a user without keys may have written a thousand.
        wanted = await asyncio.to_thread(self.registry.wanted)
        now = monotonic()
        due = [each for each in wanted if self._due.get(each, 0.0) <= now]
        changed: set[str] = set()
        for start in range(0, len(due), _PARALLEL):
            some = due[start : start + _PARALLEL]
            for entry, content in zip(some, await self._contents(some), strict=True):
                if content is not None and await self._offer(entry, content):
                    changed.add(entry.disk_model)
                else:
                    self._try_again_later(entry)
        return frozenset(changed)

    async def _contents(self, entries: list[Entry]) -> list[bytes | None]:
        return await asyncio.gather(*map(self._content, entries))

    async def _content(self, entry: Entry) -> bytes | None:
        try:
            if entry.url is None:
                raise DownloadError("url: missing, expected the address of the content")
            return await self._download.get(entry.url)
        except DownloadError as error:
            self._metrics.normaliser_load("unavailable")
            self.registry.unavailable(entry, str(error))
            return None

    async def _offer(self, entry: Entry, content: bytes) -> bool:
        accepted = await asyncio.to_thread(self.registry.offer, entry, content)
        self._metrics.normaliser_load("loaded" if accepted else "refused")
        if accepted:
            _log.info("normaliser of %s: version %s", entry.disk_model, entry.version)
        return accepted

    def _try_again_later(self, entry: Entry) -> None:
        backoff = self._backoffs.setdefault(
            entry, Backoff(self._initial_backoff_seconds, MAX_BACKOFF_SECONDS)
        )
        self._due[entry] = monotonic() + backoff.wait_seconds()

    def _pause_seconds(self) -> float:
        wanted = set(self.registry.wanted())
        due = min((at for entry, at in self._due.items() if entry in wanted), default=None)
        pause = self._keys_interval_seconds
        return pause if due is None else min(pause, max(due - monotonic(), 0.0))

    def _tell_problems(self) -> None:
        problems = self.registry.problems()
        self._metrics.normalisers(
            len(self.registry.in_use()), len(problems) + bool(self._keys_problem)
        )
        sentences = [self._keys_problem] if self._keys_problem else []
        sentences += [_sentence(each) for each in problems[:_MAX_TOLD]]
        if len(problems) > _MAX_TOLD:
            sentences.append(f"and {len(problems) - _MAX_TOLD} more")
        text = "; ".join(sentences)
        if text != self._told:
            self._told = text
            if text:
                self._log.warning("normalisers: %s", text)
                self._on_problems(text)


def _sentence(problem: Problem) -> str:
    return f"{problem.disk_model}: {problem.message}" if problem.disk_model else problem.message
