"""A reflector: lists a collection once, then watches it, and passes what it sees to a sink.

When a watch ends or breaks, the next one resumes at the last resource version that was seen. Only
when the server no longer has that version (410 Gone) is the collection listed again.

An object that cannot be decoded still exists: its last known state stays valid. It is reported
once, and again when it is invalid for another reason.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, NoReturn, Protocol, TypeVar

import msgspec

from afflux.control.backoff import Backoff
from afflux.kube.api.client import Api
from afflux.kube.api.errors import ApiError, UnreachableError, watch_error
from afflux.kube.api.line_splitter import LineSplitter
from afflux.kube.input_errors import field_error
from afflux.kube.objects import Metadata, Object

T = TypeVar("T", bound=Object)
T_contra = TypeVar("T_contra", bound=Object, contravariant=True)

# A range, so that the watches of many clients do not end at the same time.
WATCH_SECONDS = (300, 600)
# A watch that is silent for this much longer than its timeout is broken.
WATCH_GRACE_SECONDS = 30.0
_INITIAL_BACKOFF_SECONDS = 0.2
_MAX_BACKOFF_SECONDS = 30.0
# A watch that ends sooner without an event is a failure, so that the next one waits for a backoff.
_MIN_WATCH_SECONDS = 1.0
# After this many events, other tasks of the event loop run.
_EVENTS_BETWEEN_YIELDS = 256


@dataclass(frozen=True, slots=True)
class Collection(Generic[T]):
    """What to list and watch: a path (`/api/v1/pods`), the struct of its items, selectors.

    A page size of 0 asks for the whole list at once. Of a listed item, only its `essence` is kept:
    the items of all pages are in memory at the same time.
    """

    path: str
    item: type[T]
    field_selector: str = ""
    label_selector: str = ""
    page_size: int = 1000
    essence: Callable[[T], T] | None = None


class Sink(Protocol[T_contra]):
    """Receives what the reflector sees. Called in the event loop, one call at a time, in order."""

    def replaced(self, items: Sequence[T_contra], unreadable: Sequence[Metadata]) -> None:
        """The result of a list: all objects that exist. The objects of `unreadable` exist too, but
        only their identity could be decoded: their last known state stays valid."""

    def changed(self, item: T_contra) -> None:
        """An object was added or modified."""

    def deleted(self, item: T_contra) -> None:
        """An object was deleted; the item is its last state, or at least its metadata."""


class UnreadableError(Exception):
    """An object that cannot be decoded. Its last known state stays valid."""


OnError = Callable[[Exception, float], None]


def _ignore(error: Exception, wait_seconds: float) -> None:
    """The default of `on_error`."""


async def run_reflector(
    api: Api,
    collection: Collection[T],
    sink: Sink[T],
    *,
    on_error: OnError = _ignore,
    watch_seconds: tuple[int, int] = WATCH_SECONDS,
    watch_grace_seconds: float = WATCH_GRACE_SECONDS,
) -> NoReturn:
    """List and watch a collection until cancelled.

    `on_error` gets each error and the seconds until the next attempt: 0 for a relist that begins at
    once, and for an object that cannot be decoded.
    """
    reflector = _Reflector(
        api,
        collection,
        sink,
        on_error,
        watch_seconds=watch_seconds,
        watch_grace_seconds=watch_grace_seconds,
    )
    backoff = Backoff(_INITIAL_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS)
    was_gone = False
    while True:
        try:
            await reflector.list_and_watch()
            backoff.reset()
            was_gone = False
        except (ApiError, UnreachableError) as error:
            if reflector.has_progressed:
                backoff.reset()
            asked = error.retry_after_seconds if isinstance(error, ApiError) else None
            is_gone = isinstance(error, ApiError) and error.is_gone
            # After 410 Gone the relist begins at once; when it ends in 410 Gone too, it backs off.
            wait_seconds = 0.0 if is_gone and not was_gone else backoff.wait_seconds(asked)
            was_gone = is_gone
            on_error(error, wait_seconds)
            await asyncio.sleep(wait_seconds)


class _ListMetadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct, Generic[T], frozen=True):
    metadata: _ListMetadata
    items: list[T] | None = None


class _RawPage(msgspec.Struct, frozen=True):
    """A page with undecoded items, for a page in which an item is invalid."""

    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct, Generic[T], frozen=True, gc=False):
    type: str
    object: T


class _RawEvent(msgspec.Struct, frozen=True):
    """An event with an undecoded object."""

    type: str
    object: msgspec.Raw


class _Identity(msgspec.Struct, frozen=True, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None


class _Identified(msgspec.Struct, frozen=True):
    metadata: _Identity = _Identity()


_raw_page = msgspec.json.Decoder(_RawPage)
_raw_event = msgspec.json.Decoder(_RawEvent)
_identity = msgspec.json.Decoder(_Identified)


class _Reflector(Generic[T]):
    """The state of one list-watch."""

    def __init__(
        self,
        api: Api,
        collection: Collection[T],
        sink: Sink[T],
        on_error: OnError,
        *,
        watch_seconds: tuple[int, int],
        watch_grace_seconds: float,
    ) -> None:
        self.has_progressed = False
        self._api = api
        self._collection = collection
        self._sink = sink
        self._on_error = on_error
        self._watch_seconds = watch_seconds
        self._watch_grace_seconds = watch_grace_seconds
        # The resource version to resume at; empty when a list is needed.
        self._version = ""
        self._events = 0
        # By name, why the last seen version of an object could not be decoded.
        self._unreadable: dict[str, str] = {}
        item = collection.item
        self._item: msgspec.json.Decoder[T] = msgspec.json.Decoder(item)
        self._page: msgspec.json.Decoder[_Page[T]] = msgspec.json.Decoder(_Page[item])
        self._event: msgspec.json.Decoder[_Event[T]] = msgspec.json.Decoder(_Event[item])

    async def list_and_watch(self) -> None:
        """List if needed, then watch until the watch ends."""
        self.has_progressed = False
        if not self._version:
            await self._list()
        try:
            await self._watch()
        except ApiError as error:
            # These errors say nothing about the resource version; any other one may be about it.
            if not (error.status in {429, 503} or error.is_refused):
                self._version = ""
            raise

    # --- Listing

    async def _list(self) -> None:
        limit = self._collection.page_size
        while True:
            items: list[T] = []
            unreadable: dict[str, Metadata] = {}
            metadata = _ListMetadata()
            try:
                while True:
                    metadata = await self._take_page(limit, metadata.continue_, items, unreadable)
                    if not metadata.continue_:
                        break
            except ApiError as error:
                if not (error.is_gone and metadata.continue_):
                    raise
                # The continue token expired before the last page. Without pages it cannot.
                self._on_error(error, 0.0)
                limit = 0
                continue
            self._unreadable = {name: self._unreadable[name] for name in unreadable}
            self._sink.replaced(items, list(unreadable.values()))
            self._version = metadata.resource_version
            return

    async def _take_page(
        self, size: int, token: str, items: list[T], unreadable: dict[str, Metadata]
    ) -> _ListMetadata:
        params = self._params()
        if size:
            params["limit"] = str(size)
        if token:
            params["continue"] = token
        body = await self._api.get_bytes(self._collection.path, params)
        try:
            page = self._page.decode(body)
        except msgspec.ValidationError:
            return self._take_items_one_by_one(body, items, unreadable)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise self._undecodable("list", error) from None
        essence = self._collection.essence
        items.extend(page.items or () if essence is None else map(essence, page.items or ()))
        return page.metadata

    def _take_items_one_by_one(
        self, body: bytes, items: list[T], unreadable: dict[str, Metadata]
    ) -> _ListMetadata:
        """Add the items of a page that can be decoded; report the others."""
        try:
            page = _raw_page.decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise self._undecodable("list", error) from None
        for raw in page.items or ():
            item = self._read(bytes(raw))
            if item is not None:
                items.append(item)
            elif (identity := _identified(bytes(raw))) is not None:
                unreadable[_name(identity)] = identity
        return page.metadata

    # --- Watching

    async def _watch(self) -> None:
        timeout_seconds = random.randint(*self._watch_seconds)
        params = self._params()
        params["watch"] = "true"
        params["allowWatchBookmarks"] = "true"
        params["resourceVersion"] = self._version
        params["timeoutSeconds"] = str(timeout_seconds)
        time = asyncio.get_running_loop().time
        begun = time()
        lines = LineSplitter()
        chunks = self._api.stream(
            self._collection.path,
            params,
            idle_timeout_seconds=timeout_seconds + self._watch_grace_seconds,
        )
        async with aclosing(chunks):
            async for chunk in chunks:
                for line in lines.feed(chunk):
                    self._take_line(line)
                    self.has_progressed = True
                    self._events += 1
                    if self._events % _EVENTS_BETWEEN_YIELDS == 0:
                        await asyncio.sleep(0)
        if not self.has_progressed and time() - begun < _MIN_WATCH_SECONDS:
            request = f"GET {self._collection.path}"
            raise UnreachableError(f"{request}: the watch ended as soon as it began", sent=True)

    def _take_line(self, line: bytes) -> None:
        try:
            event = self._event.decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            self._take_undecoded_event(line)
            return
        item = event.object
        if self._unreadable:
            self._unreadable.pop(_name(item.metadata), None)
        match event.type:
            case "ADDED" | "MODIFIED":
                self._sink.changed(item)
            case "DELETED":
                self._sink.deleted(item)
            case "ERROR":
                self._take_undecoded_event(line)
            case _:
                # A bookmark: only its resource version counts.
                pass
        self._version = item.metadata.resource_version or self._version

    def _take_undecoded_event(self, line: bytes) -> None:
        """An event whose object is a Status or cannot be decoded."""
        try:
            event = _raw_event.decode(line)
            raw = bytes(event.object)
            if event.type == "ERROR":
                raise watch_error(f"GET {self._collection.path}", raw)
            identity = _identity.decode(raw)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            # Some object has changed, and it is unknown which one: a relist is needed.
            self._version = ""
            raise self._undecodable("event", error) from None
        if event.type == "DELETED":
            # Of a deleted object, the identity is enough.
            self._unreadable.pop(_name(identity.metadata), None)
            raw = msgspec.json.encode({"metadata": identity.metadata})
            if (item := self._read(raw)) is not None:
                self._sink.deleted(item)
        elif event.type != "BOOKMARK":
            self._read(raw)
        self._version = identity.metadata.resource_version or self._version

    def _read(self, raw: bytes) -> T | None:
        """The object; None, and a report with its name, if it cannot be decoded."""
        try:
            return self._item.decode(raw)
        except msgspec.ValidationError as error:
            problem = field_error(error, raw)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            problem = str(error)
        identity = _identified(raw)
        name = _name(identity) if identity is not None else ""
        if name and self._unreadable.get(name) == problem:
            return None
        if name:
            self._unreadable[name] = problem
        problem = f"{self._collection.path}: {name or 'an object without a name'}: {problem}"
        self._on_error(UnreadableError(problem), 0.0)
        return None

    def _params(self) -> dict[str, str]:
        selectors = (
            ("fieldSelector", self._collection.field_selector),
            ("labelSelector", self._collection.label_selector),
        )
        return {name: selector for name, selector in selectors if selector}

    def _undecodable(self, what: str, error: Exception) -> UnreachableError:
        request = f"GET {self._collection.path}"
        return UnreachableError(f"{request}: {what} that cannot be read: {error}", sent=True)


def _identified(raw: bytes) -> Metadata | None:
    """The identity of the object, None if not even that can be decoded."""
    try:
        found = _identity.decode(raw).metadata
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if not found.name:
        return None
    return Metadata(found.name, found.namespace, found.uid, found.resource_version)


def _name(identity: Metadata | _Identity) -> str:
    return "/".join(part for part in (identity.namespace, identity.name) if part)
