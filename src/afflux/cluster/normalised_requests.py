"""What volumes take of disks, by model: cached, because a normaliser may be slow.

Models have numbers, by which columns and the account in Rust know them.
"""

from collections.abc import Iterable

from afflux.model.disks import Bandwidth, DiskRequest, Normalise, VolumeIO, as_stated

# By kind (read, write, total) what is taken.
Amounts = tuple[int, int, int]
# By volume, and by number of a model, what it takes of such a disk, None where it cannot be; and
# whether the request is stated.
Taken = tuple[tuple[tuple[Amounts | None, ...], ...], bool]

MAX_CACHED_VOLUMES = 100_000
MAX_CACHED_REQUESTS = 10_000
# Larger amounts are cut to this one, so that sums fit 64 bits. No disk has as much.
MAX_BANDWIDTH = 1 << 52


class NormalisedRequests:
    """The models that disks have, and what requests take of them."""

    def __init__(self) -> None:
        self._normalise: Normalise = as_stated
        self._models: list[str | None] = []
        self._numbers: dict[str, int] = {}
        self._disks_of_model: dict[str, int] = {}
        self._free_numbers: list[int] = []
        self._by_volume: dict[tuple[str, VolumeIO], Amounts | None] = {}
        self._by_request: dict[DiskRequest, Taken] = {}

    @property
    def normalise(self) -> Normalise:
        """The function that converts what is stated, for disks that name a model."""
        return self._normalise

    def set_normalise(self, models: frozenset[str], normalise: Normalise) -> None:
        """From now on this function answers; its answers differ for these models."""
        self._normalise = normalise
        for key in [key for key in self._by_volume if key[0] in models]:
            del self._by_volume[key]
        self._by_request.clear()

    def add_disks(self, models: Iterable[str]) -> None:
        """Disks of these models have joined."""
        for model in models:
            if model not in self._numbers:
                number = self._free_numbers.pop() if self._free_numbers else len(self._models)
                if number == len(self._models):
                    self._models.append(None)
                self._models[number] = model
                self._numbers[model] = number
                self._by_request.clear()
            self._disks_of_model[model] = self._disks_of_model.get(model, 0) + 1

    def remove_disks(self, models: Iterable[str]) -> None:
        """Disks of these models have left; the number of a model without disks is used again."""
        for model in models:
            self._disks_of_model[model] -= 1
            if not self._disks_of_model[model]:
                del self._disks_of_model[model]
                number = self._numbers.pop(model)
                self._models[number] = None
                self._free_numbers.append(number)
                self._by_request.clear()

    def number(self, model: str) -> int:
        """The number of a model that some disk has."""
        return self._numbers[model]

    def taken(self, request: DiskRequest) -> Taken:
        """What a request takes of the disks of each model."""
        found = self._by_request.get(request)
        if found is None:
            if len(self._by_request) >= MAX_CACHED_REQUESTS:
                self._by_request.clear()
            found = self._by_request[request] = (
                tuple(
                    tuple(self._on(model, volume, request) for model in self._models)
                    for volume in request.volumes
                ),
                request.is_stated,
            )
        return found

    def charge(self, model: str, volume: VolumeIO) -> Amounts:
        """What a task that is there takes: where that cannot be known, what it states."""
        normalised = self._normalised(model, volume)
        return _stated(volume) if normalised is None else normalised

    def _on(self, model: str | None, volume: VolumeIO, request: DiskRequest) -> Amounts | None:
        if model is None:
            return None
        return self._normalised(model, volume) if request.is_stated else self.charge(model, volume)

    def _normalised(self, model: str, volume: VolumeIO) -> Amounts | None:
        if not model:
            return _stated(volume)
        key = model, volume
        if key not in self._by_volume:
            if len(self._by_volume) >= MAX_CACHED_VOLUMES:
                self._by_volume.clear()
            found = self._normalise(model, volume)
            self._by_volume[key] = None if found is None else amounts_of(found)
        return self._by_volume[key]


def amounts_of(bandwidth: Bandwidth) -> Amounts:
    """Read, write and total, as far as they can be counted."""
    return cut(bandwidth.read), cut(bandwidth.write), cut(bandwidth.total)


def _stated(volume: VolumeIO) -> Amounts:
    return amounts_of(Bandwidth(volume.read, volume.write, volume.read + volume.write))


def cut(amount: int) -> int:
    """An amount as far as it can be counted."""
    return max(-MAX_BANDWIDTH, min(MAX_BANDWIDTH, amount))
