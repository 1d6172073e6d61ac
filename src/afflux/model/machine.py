"""A machine: what it offers and what it keeps away."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from afflux.model.devices import WHOLE_MILLI
from afflux.model.resources import Resources
from afflux.model.taints import Taint


@dataclass(frozen=True, slots=True)
class Machine:
    """`capacity` is what tasks may use together (allocatable), its pods being the number of slots.

    `devices` is the number of devices tracked one by one, each whole when free; `images` is what
    it need not fetch, in bytes by name.
    """

    name: str
    capacity: Resources
    devices: int = 0
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    images: Mapping[str, int] = field(default_factory=dict[str, int])

    def free_devices(self) -> tuple[int, ...]:
        """Its devices with nothing on them."""
        return (WHOLE_MILLI,) * self.devices
