"""The last samples of what tasks and machines use, for the statistics to come."""

from collections import deque


class Samples:
    """The last samples of each task or machine, the oldest first."""

    def __init__(self, per_key: int, keys: int) -> None:
        self._per_key, self._keys = per_key, keys
        self._samples: dict[str, deque[bytes]] = {}

    def add(self, key: str, sample: bytes) -> None:
        # What got no sample for the longest time is forgotten first.
        kept = self._samples.pop(key, None) or deque[bytes](maxlen=self._per_key)
        kept.append(sample)
        self._samples[key] = kept
        if len(self._samples) > self._keys:
            del self._samples[next(iter(self._samples))]

    def of(self, key: str) -> list[bytes]:
        return list(self._samples.get(key, ()))

    def discard(self, key: str) -> None:
        self._samples.pop(key, None)
