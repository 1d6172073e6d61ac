"""Bind confirmation: finds out whether a binding without an answer happened.

The pod keeps its place until that is known; the metric, the log and an event say so.
"""

from collections.abc import Callable

from afflux.control.adapter import TaskLocation
from afflux.kube.live.pod_locator import PodLocator
from afflux.model.placement import Placement
from afflux.web.scheduler_metrics import Metrics

# After so many failed attempts an event says so, and again each time the number has doubled.
ATTEMPTS_BEFORE_EVENT = 4


class BindConfirmation:
    """Locates pods; calls `in_doubt` for placements that take long."""

    def __init__(
        self, locator: PodLocator, metrics: Metrics, in_doubt: Callable[[Placement, str], None]
    ) -> None:
        self._locator = locator
        self._metrics = metrics
        self._in_doubt = in_doubt

    async def read(self, placement: Placement) -> TaskLocation:
        """Where the pod is, once that is known."""

        def on_failure(why: str, attempts: int) -> None:
            self._metrics.read_back_failed()
            if attempts >= ATTEMPTS_BEFORE_EVENT and attempts & (attempts - 1) == 0:
                self._in_doubt(
                    placement,
                    f"whether it was bound to {placement.machine} is not known, and cannot be found"
                    f" out: {why}; it keeps its place there, and the scheduler goes on asking",
                )

        return await self._locator.locate(placement.task.id, placement.task.name, on_failure)
