"""The normalisers in use, and why the entries that are not used are refused.

Callers say which entries there are (`set_entries`) and which keys are trusted, fetch the content
of what is `wanted`, and `offer` it. Nothing is fetched for an entry that no trusted key has signed,
and no content is looked into whose digest the entry does not have.

- The last good normaliser of a model stays in use while a newer entry is refused or cannot be had.
- An entry that is removed takes its normaliser with it: disks of that model then take no stated
  request, as for a model that was never listed. A list that cannot be read removes nothing, and
  while an entry names no model nothing is removed, as it could be that of any model.
- A version lower than the highest that was accepted for the model is refused, and another content
  of the same version, also after the entry was removed. A restart forgets what was accepted.
- A key that is not trusted any more takes what it has signed with it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from afflux.model.disks import Bandwidth, VolumeIO, as_stated
from afflux.normalisers.catalogue import Catalogue, Entry, verify_content, verify_entry
from afflux.normalisers.errors import NormaliserRefusedError, NotAuthenticError
from afflux.normalisers.normaliser import Normaliser, load_normaliser
from afflux.normalisers.signatures import TrustedKeys

# Distinct requests whose answers are remembered, for each model.
MAX_CACHED_REQUESTS = 4_096

ProblemKind = Literal["entry", "refused", "unavailable", "request"]
"""What is wrong: an entry is malformed, an entry or a content is refused, a content cannot be had,
or the normaliser fails for a request."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a model. `disk_model` is empty if that is not known."""

    disk_model: str
    kind: ProblemKind
    message: str


@dataclass(frozen=True, slots=True)
class InUse:
    """A normaliser in use. `is_verified` is whether a trusted key has signed its entry."""

    entry: Entry
    normaliser: Normaliser
    is_verified: bool
    estimate: Callable[[VolumeIO], Bandwidth | None]


class NormaliserRegistry:
    """Normalisers by the model of a disk.

    `normalise` may be called while another thread changes the registry; changes are made by one
    thread at a time.
    """

    def __init__(self, keys: TrustedKeys, *, trust_unsigned: bool = False) -> None:
        """With `trust_unsigned`, what a user names as files needs no signature."""
        self._keys = dict(keys)
        self._trust_unsigned = trust_unsigned
        self._listed: dict[str, Entry] = {}
        self._in_use: dict[str, InUse] = {}
        # By model, the accepted entry with the highest version.
        self._highest: dict[str, Entry] = {}
        self._entry_problems: tuple[Problem, ...] = ()
        # About the content of the listed entry of a model.
        self._content_problems: dict[str, tuple[Entry, Problem]] = {}
        self._request_problems: dict[str, Problem] = {}
        # Entries whose content has the right digest and is no normaliser: it will never be one.
        self._useless: dict[str, Entry] = {}

    # --- What is announced

    def set_entries(self, catalogue: Catalogue) -> frozenset[str]:
        """Takes the entries that there are now; returns the models that lost their normaliser."""
        kept = {problem.disk_model for problem in catalogue.problems}
        self._listed = {entry.disk_model: entry for entry in catalogue.entries}
        self._entry_problems = tuple(
            Problem(problem.disk_model, "entry", problem.message) for problem in catalogue.problems
        )
        self._useless = {m: e for m, e in self._useless.items() if self._listed.get(m) == e}
        self._content_problems = {
            m: about
            for m, about in self._content_problems.items()
            if self._listed.get(m) == about[0]
        }
        self._adopt_same_contents()
        if "" in kept:
            return frozenset()
        return self._remove(self._in_use.keys() - self._listed.keys() - kept)

    def unreadable(self, message: str) -> None:
        """There is a list of entries that cannot be read: everything stays as it was."""
        self._entry_problems = (Problem("", "entry", message),)

    def set_trusted_keys(self, keys: TrustedKeys) -> frozenset[str]:
        """Takes the keys that are trusted now; returns the models that lost their normaliser."""
        self._keys = dict(keys)
        self._highest = {
            model: entry for model, entry in self._highest.items() if self._is_trusted(entry)
        }
        self._adopt_same_contents()
        return self._remove(
            {model for model, used in self._in_use.items() if not self._is_trusted(used.entry)}
        )

    def wanted(self) -> tuple[Entry, ...]:
        """The entries that can be used once their content is offered."""
        return tuple(
            entry
            for model, entry in self._listed.items()
            if not self._uses(entry)
            and self._useless.get(model) != entry
            and self._refusal(entry) is None
        )

    # --- Contents

    def offer(self, entry: Entry, content: bytes) -> bool:
        """Uses the content for the model of the entry; returns whether anything has changed.

        If it is refused, `problems` says why. The entry has to be one that is listed. Compiling a
        module takes a while: call this in a thread.
        """
        model = entry.disk_model
        if self._listed.get(model) != entry or self._uses(entry):
            return False
        try:
            if refused := self._refusal(entry):
                raise refused
            verify_content(entry, content)
            normaliser = self._loaded(entry, content)
        except NormaliserRefusedError as error:
            self._content_problems[model] = entry, Problem(model, "refused", str(error))
            return False
        self._request_problems.pop(model, None)
        self._use(entry, normaliser, self._cached_estimate(model, normaliser))
        return True

    def unavailable(self, entry: Entry, message: str) -> None:
        """The content of an entry cannot be had, for this reason."""
        model = entry.disk_model
        if self._listed.get(model) == entry:
            self._content_problems[model] = entry, Problem(model, "unavailable", message)

    # --- Answers

    def normalise(self, model: str, volume: VolumeIO) -> Bandwidth | None:
        """What this takes of a disk of this model; None if that is not known (`Normalise`)."""
        if not model:
            return as_stated(model, volume)
        used = self._in_use.get(model)
        return None if used is None else used.estimate(volume)

    def in_use(self) -> dict[str, InUse]:
        """The normalisers in use by model."""
        return dict(sorted(self._in_use.items()))

    def problems(self) -> tuple[Problem, ...]:
        """What is wrong now, by model."""
        refused = {
            model: Problem(model, "refused", str(why))
            for model, entry in self._listed.items()
            if not self._uses(entry) and (why := self._refusal(entry))
        }
        offered = {model: problem for model, (_, problem) in self._content_problems.items()}
        found = [
            *self._entry_problems,
            *(offered | refused).values(),
            *self._request_problems.copy().values(),
        ]
        return tuple(sorted(found, key=lambda problem: problem.disk_model))

    # --- Rules

    def _uses(self, entry: Entry) -> bool:
        used = self._in_use.get(entry.disk_model)
        return used is not None and used.entry == entry

    def _is_trusted(self, entry: Entry) -> bool:
        try:
            verify_entry(entry, self._keys, trust_unsigned=self._trust_unsigned)
        except NotAuthenticError:
            return False
        return True

    def _refusal(self, entry: Entry) -> NormaliserRefusedError | None:
        """Why the entry cannot be used, whatever its content is."""
        try:
            is_verified = verify_entry(entry, self._keys, trust_unsigned=self._trust_unsigned)
        except NotAuthenticError as error:
            return error
        highest = self._highest.get(entry.disk_model)
        if not is_verified or highest is None or highest.version is None or entry.version is None:
            return None
        if entry.version < highest.version:
            expected = f"expected at least {highest.version}, which was accepted before"
            return NotAuthenticError(f"version: {entry.version}, {expected}")
        if entry.version == highest.version and entry.digest != highest.digest:
            expected = f"expected the digest {highest.digest}, or a higher version"
            return NotAuthenticError(f"version: {entry.version} has another content, {expected}")
        return None

    def _loaded(self, entry: Entry, content: bytes) -> Normaliser:
        try:
            return load_normaliser(content)
        except NormaliserRefusedError:
            if entry.digest is not None:
                self._useless[entry.disk_model] = entry
            raise

    def _use(
        self,
        entry: Entry,
        normaliser: Normaliser,
        estimate: Callable[[VolumeIO], Bandwidth | None],
    ) -> None:
        model = entry.disk_model
        is_verified = verify_entry(entry, self._keys, trust_unsigned=self._trust_unsigned)
        self._in_use[model] = InUse(entry, normaliser, is_verified, estimate)
        self._content_problems.pop(model, None)
        if is_verified:
            self._highest[model] = entry

    def _adopt_same_contents(self) -> None:
        """Takes entries that announce the content in use with another version, key or address."""
        for model, entry in self._listed.items():
            used = self._in_use.get(model)
            if (
                used is not None
                and used.entry != entry
                and entry.digest is not None
                and used.entry.digest == entry.digest
                and self._refusal(entry) is None
            ):
                self._use(entry, used.normaliser, used.estimate)

    def _cached_estimate(
        self, model: str, normaliser: Normaliser
    ) -> Callable[[VolumeIO], Bandwidth | None]:
        @lru_cache(maxsize=MAX_CACHED_REQUESTS)
        def estimate(volume: VolumeIO) -> Bandwidth | None:
            try:
                return normaliser.estimate(volume).taken
            except NormaliserRefusedError as error:
                request = f"{volume.read} rbps, {volume.write} wbps, blocks of {volume.block_bytes}"
                problem = Problem(model, "request", f"{request}: {error}")
                self._request_problems[model] = problem
                return None

        return estimate

    def _remove(self, models: set[str]) -> frozenset[str]:
        for model in models:
            del self._in_use[model]
            self._request_problems.pop(model, None)
        return frozenset(models)
