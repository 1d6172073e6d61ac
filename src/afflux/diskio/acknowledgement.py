"""Which generation of the list of reserved pods a report answers.

The scheduler reserves a pod before it binds it, and the driver sees the pod, and so what it
requests, only once it is bound. A report that answers a list claims that the pods of the list are
deducted. So a list is answered when every pod of it is known; before, reports answer the list
before it. A pod that stays unknown has ended while no driver ran, or was never bound: after a time
the list is answered without it, and its default charge is deducted. Pure: time comes in.
"""

from collections.abc import Container, Sequence

# Longer than a binding with all its retries takes.
DEFAULT_UNKNOWN_SECONDS = 60.0


class Acknowledgement:
    """`generation` is None, and `pods` are empty, before the first list is answered."""

    def __init__(self, unknown_seconds: float = DEFAULT_UNKNOWN_SECONDS) -> None:
        self._unknown_seconds = unknown_seconds
        self._object = ""
        # Since when a pod of the newest list is unknown, by uid.
        self._unknown: dict[str, float] = {}
        self.generation: int | None = None
        self.pods: tuple[str, ...] = ()

    def observe(
        self,
        uid: str,
        generation: int,
        pods: Sequence[str],
        known: Container[str],
        now: float,
    ) -> bool:
        """The newest list of the object with this uid; returns whether another list is answered."""
        if uid != self._object:
            self.generation, self.pods, self._object = None, (), uid
        listed = tuple(dict.fromkeys(pods))
        self._unknown = {pod: self._unknown.get(pod, now) for pod in listed if pod not in known}
        if self.awaited(now) or (generation, listed) == (self.generation, self.pods):
            return False
        if self.generation is not None and generation < self.generation:
            # A watch that begins again may show an older version for a moment.
            return False
        self.generation, self.pods = generation, listed
        return True

    def awaited(self, now: float) -> list[str]:
        """The pods for which the answer to the newest list waits."""
        return [pod for pod, since in self._unknown.items() if now - since < self._unknown_seconds]

    def given_up(self, now: float) -> list[str]:
        """The pods of the newest list that are not waited for any more."""
        return [pod for pod, since in self._unknown.items() if now - since >= self._unknown_seconds]
