"""A collection, followed for ever: listed once, then watched, whatever happens to the connection.

The sink is told everything there is, then every change. After a cut the watch goes on from the
last resource version that was seen. Only when the server has forgotten that version is the
collection listed again, and the sink is told again everything there is.

An object that cannot be read is there all the same: what was last known of it holds on, whether a
watch or a list brought it. There is one complaint about it, and another if something else is wrong.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, NoReturn, Protocol, TypeVar

import msgspec

from afflux.kube.api.client import Api
from afflux.kube.api.errors import ApiError, UnreachableError, refusal_in_watch
from afflux.kube.api.lines import Lines
from afflux.kube.api.pacing import Backoff
from afflux.kube.complaints import field_complaint
from afflux.kube.objects import Metadata, Object

T = TypeVar("T", bound=Object)
T_contra = TypeVar("T_contra", bound=Object, contravariant=True)

# Spread out, so that the watches of many clients do not end together.
_WATCH_SECONDS = (300, 600)
# How much longer than it was to last a watch may be silent.
_GRACE_SECONDS = 30.0
_FIRST_WAIT_SECONDS = 0.2
_LONGEST_WAIT_SECONDS = 30.0
# A watch that ends sooner, without a word, is a failure: a server that hangs up must not be
# called again at once, for ever.
_SHORTEST_WATCH_SECONDS = 1.0
# After so many events the rest of the program has its turn.
_EVENTS_PER_TURN = 256


@dataclass(frozen=True, slots=True)
class Collection(Generic[T]):
    """What to follow: the path of a list (`/api/v1/pods`), the struct of its items, selectors.

    A page size of 0 asks for everything at once.
    """

    path: str
    item: type[T]
    field_selector: str = ""
    label_selector: str = ""
    page_size: int = 1000


class Sink(Protocol[T_contra]):
    """Who is told. Called in the event loop, one call at a time, in order."""

    def replaced(self, items: Sequence[T_contra], unread: Sequence[Metadata]) -> None:
        """After a list: this is everything there is.

        Of `unread` nothing more could be read than which objects they are: as far as they are
        known, they stay as they are known.
        """
        ...

    def changed(self, item: T_contra) -> None:
        """Added or modified."""
        ...

    def deleted(self, item: T_contra) -> None:
        """Gone; the item as it was last, or at least its metadata."""
        ...


class UnreadableError(Exception):
    """An object that is not what its kind should be. What was last known of it holds on."""


OnError = Callable[[Exception, float], None]


async def follow(
    api: Api, collection: Collection[T], sink: Sink[T], *, on_error: OnError | None = None
) -> NoReturn:
    """Follow a collection until cancelled.

    `on_error` is told what went wrong and in how many seconds it is tried again: 0 for a list that
    begins at once, and for an object that could not be read.
    """
    tell = on_error or _ignore
    following = _Following(api, collection, sink, tell)
    backoff = Backoff(_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS)
    was_gone = False
    while True:
        try:
            await following.go_on()
            backoff.reset()
            was_gone = False
        except (ApiError, UnreachableError) as error:
            if following.has_progressed:
                backoff.reset()
            asked = error.retry_after_seconds if isinstance(error, ApiError) else None
            is_gone = isinstance(error, ApiError) and error.is_gone
            # A version that is gone is no trouble of the server's: the list can come at once.
            # Unless that one is gone as soon as it is there.
            wait_seconds = 0.0 if is_gone and not was_gone else backoff.wait_seconds(asked)
            was_gone = is_gone
            tell(error, wait_seconds)
            await asyncio.sleep(wait_seconds)


def _ignore(error: Exception, wait_seconds: float) -> None:
    """What happens is nobody's concern."""


class _ListMetadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct, Generic[T], frozen=True):
    """A part of a list, or all of it."""

    metadata: _ListMetadata
    items: list[T] | None = None


class _RawPage(msgspec.Struct, frozen=True):
    """The same, when an item in it cannot be read."""

    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct, Generic[T], frozen=True, gc=False):
    type: str
    object: T


class _RawEvent(msgspec.Struct, frozen=True):
    """An event whose object is not of the kind that is watched, or cannot be read."""

    type: str
    object: msgspec.Raw


class _Identity(msgspec.Struct, frozen=True, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None


class _Identified(msgspec.Struct, frozen=True):
    """No more of an object than which one it is."""

    metadata: _Identity = _Identity()


_raw_page = msgspec.json.Decoder(_RawPage)
_raw_event = msgspec.json.Decoder(_RawEvent)
_identity = msgspec.json.Decoder(_Identified)


class _Following(Generic[T]):
    """How far we have come with a collection."""

    def __init__(
        self, api: Api, collection: Collection[T], sink: Sink[T], on_error: OnError
    ) -> None:
        self.has_progressed = False
        self._api = api
        self._collection = collection
        self._sink = sink
        self._on_error = on_error
        # Empty: nothing was seen yet, or the server has forgotten what was.
        self._version = ""
        self._events = 0
        # By name, what was wrong with the objects that could not be read when they were last seen.
        self._unreadable: dict[str, str] = {}
        item = collection.item
        self._item: msgspec.json.Decoder[T] = msgspec.json.Decoder(item)
        self._page: msgspec.json.Decoder[_Page[T]] = msgspec.json.Decoder(_Page[item])
        self._event: msgspec.json.Decoder[_Event[T]] = msgspec.json.Decoder(_Event[item])

    async def go_on(self) -> None:
        """List if need be, then watch until the watch ends."""
        self.has_progressed = False
        if not self._version:
            await self._list()
        try:
            await self._watch()
        except ApiError as error:
            # A version that is gone, or that the server has anything else against, is given up. A
            # server that is busy or does not let us in has nothing against the version.
            if not (error.status in {429, 503} or error.is_refused):
                self._version = ""
            raise

    # --- Listing

    async def _list(self) -> None:
        page_size = self._collection.page_size
        while True:
            items: list[T] = []
            unread: dict[str, Metadata] = {}
            metadata = _ListMetadata()
            try:
                while True:
                    metadata = await self._take_page(page_size, metadata.continue_, items, unread)
                    if not metadata.continue_:
                        break
            except ApiError as error:
                if not (error.is_gone and metadata.continue_):
                    raise
                # The list was older than the server's memory before we had all of it. In one piece
                # that cannot happen.
                self._on_error(error, 0.0)
                page_size = 0
                continue
            self._unreadable = {name: self._unreadable[name] for name in unread}
            self._sink.replaced(items, list(unread.values()))
            self._version = metadata.resource_version
            return

    async def _take_page(
        self, size: int, token: str, items: list[T], unread: dict[str, Metadata]
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
            return self._take_piecemeal(body, items, unread)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise self._not_understood("list", error) from None
        items.extend(page.items or ())
        return page.metadata

    def _take_piecemeal(
        self, body: bytes, items: list[T], unread: dict[str, Metadata]
    ) -> _ListMetadata:
        """The items of a page that can be read; about the others there is a complaint."""
        try:
            page = _raw_page.decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise self._not_understood("list", error) from None
        for raw in page.items or ():
            item = self._read(bytes(raw))
            if item is not None:
                items.append(item)
            elif (identity := _identified(bytes(raw))) is not None:
                unread[_name(identity)] = identity
        return page.metadata

    # --- Watching

    async def _watch(self) -> None:
        lasts_seconds = random.randint(*_WATCH_SECONDS)
        params = self._params()
        params["watch"] = "true"
        params["allowWatchBookmarks"] = "true"
        params["resourceVersion"] = self._version
        params["timeoutSeconds"] = str(lasts_seconds)
        time = asyncio.get_running_loop().time
        begun = time()
        lines = Lines()
        pieces = self._api.stream(
            self._collection.path, params, silence_seconds=lasts_seconds + _GRACE_SECONDS
        )
        async with aclosing(pieces):
            async for piece in pieces:
                for line in lines.feed(piece):
                    self._take_line(line)
                    self.has_progressed = True
                    self._events += 1
                    if self._events % _EVENTS_PER_TURN == 0:
                        await asyncio.sleep(0)
        if not self.has_progressed and time() - begun < _SHORTEST_WATCH_SECONDS:
            request = f"GET {self._collection.path}"
            raise UnreachableError(f"{request}: the watch ended as soon as it began", sent=True)

    def _take_line(self, line: bytes) -> None:
        try:
            event = self._event.decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            self._take_stranger(line)
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
                self._take_stranger(line)
            case _:
                # A bookmark: nothing has happened up to here.
                pass
        self._version = item.metadata.resource_version or self._version

    def _take_stranger(self, line: bytes) -> None:
        """An event whose object is an error, or is not what its kind should be."""
        try:
            event = _raw_event.decode(line)
            raw = bytes(event.object)
            if event.type == "ERROR":
                raise refusal_in_watch(f"GET {self._collection.path}", raw)
            identity = _identity.decode(raw)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            # Something has happened, and we shall never know what: begin again with a list.
            self._version = ""
            raise self._not_understood("event", error) from None
        if event.type == "DELETED":
            # What is gone need not be readable, as long as its name is.
            self._unreadable.pop(_name(identity.metadata), None)
            raw = msgspec.json.encode({"metadata": identity.metadata})
            if (item := self._read(raw)) is not None:
                self._sink.deleted(item)
        elif event.type != "BOOKMARK":
            self._read(raw)
        self._version = identity.metadata.resource_version or self._version

    def _read(self, raw: bytes) -> T | None:
        """The object, or a complaint about it, with its name if it has one."""
        try:
            return self._item.decode(raw)
        except msgspec.ValidationError as error:
            problem = field_complaint(error, raw)
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

    def _not_understood(self, what: str, error: Exception) -> UnreachableError:
        request = f"GET {self._collection.path}"
        return UnreachableError(f"{request}: {what} that cannot be read: {error}", sent=True)


def _identified(raw: bytes) -> Metadata | None:
    """Which object this is, None if not even that can be read."""
    try:
        found = _identity.decode(raw).metadata
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if not found.name:
        return None
    return Metadata(found.name, found.namespace, found.uid, found.resource_version)


def _name(identity: Metadata | _Identity) -> str:
    return "/".join(part for part in (identity.namespace, identity.name) if part)
