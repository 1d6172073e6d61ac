"""A task: one pod, and the shape it shares with all tasks that nothing can tell apart."""

from dataclasses import dataclass, field

from afflux.model.devices import DeviceRequest
from afflux.model.images import Images
from afflux.model.places import Places
from afflux.model.resources import Resources
from afflux.model.selectors import ANYWHERE, NodeAffinity
from afflux.model.taints import Toleration


@dataclass(frozen=True, slots=True)
class Shape:
    """Everything that decides where a task may run and what that costs.

    Tasks of one shape are one class of the network. What differs in every pod (a name, an index
    label) must not enter here, or every pod would be a class of its own.
    """

    requests: Resources
    devices: DeviceRequest | None = None
    affinity: NodeAffinity = ANYWHERE
    tolerations: tuple[Toleration, ...] = ()
    # Every one of them has to include the machine.
    places: tuple[Places, ...] = ()
    # Images that it would rather find than fetch.
    images: Images | None = None
    # Whose policies price it: the profile of the scheduler that the pod asked for.
    profile: str = ""
    # Shapes are looked up for every waiting task in every cycle: their hash is computed once.
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts = (self.requests, self.devices, self.affinity, self.tolerations)
        object.__setattr__(self, "_hash", hash((*parts, self.places, self.images, self.profile)))

    def __hash__(self) -> int:
        return self._hash

    def takes_as(self, other: "Shape") -> bool:
        """Whether both take the same of a machine."""
        return self.requests == other.requests and self.devices == other.devices


@dataclass(frozen=True, slots=True)
class Task:
    """One pod. `id` is its identity (the pod's UID), `name` what people call it.

    A task with `blocked` set is not placed; the text says which field holds it back.
    """

    id: str
    name: str
    shape: Shape
    blocked: str | None = None
