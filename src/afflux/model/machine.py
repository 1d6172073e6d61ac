"""A machine: a node of the cluster, with its capacity, labels, taints and images."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from afflux.model.devices import WHOLE_MILLI
from afflux.model.resources import Resources
from afflux.model.taints import Taint


@dataclass(frozen=True, slots=True)
class Machine:
    """`capacity` is what tasks may use together (allocatable); its pods are the pod limit.

    `devices` is the number of devices tracked one by one; `images` has the size in bytes of each
    image that the machine holds, by name.
    """

    name: str
    capacity: Resources
    devices: int = 0
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    images: Mapping[str, int] = field(default_factory=dict[str, int])

    def free_devices(self) -> tuple[int, ...]:
        """The free thousandths of its devices when no task uses them."""
        return (WHOLE_MILLI,) * self.devices
