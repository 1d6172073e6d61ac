"""A task: one pod, and the shape that it shares with all interchangeable tasks."""

from dataclasses import dataclass, field

from afflux.model.devices import DeviceRequest
from afflux.model.disks import DiskRequest
from afflux.model.images import Images
from afflux.model.reachability import Reachability
from afflux.model.relations import NO_LABELS, NO_RELATIONS, Relations, TaskLabels
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
    # The machine has to match every one of them.
    reachability: tuple[Reachability, ...] = ()
    # Images for image locality: a machine that holds them is preferred.
    images: Images | None = None
    # The scheduler profile that the pod names; the policies of this profile price it.
    profile: str = ""
    # What the task requires and prefers of the tasks around it.
    relations: Relations = NO_RELATIONS
    # CPU and memory that containers without a request are taken to use: they count in what a
    # machine costs, never in what fits.
    unrequested: Resources = ()
    # What the task does on disks, if its profile counts that.
    disks: DiskRequest | None = None
    # Shapes are looked up for every waiting task in every cycle: their hash is computed once.
    _hash: int = field(init=False, repr=False, compare=False)
    # How much the shape names, by which caches of shapes bound their memory: a part takes about
    # 100 bytes.
    parts: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts = (self.requests, self.devices, self.affinity, self.tolerations)
        more = (self.reachability, self.images, self.profile, self.relations)
        counted = (self.unrequested, self.disks)
        object.__setattr__(self, "_hash", hash((*parts, *more, *counted)))
        named = len(self.requests) + self.affinity.parts + len(self.tolerations)
        reached = sum(term.parts for each in self.reachability for term in each.terms)
        object.__setattr__(self, "parts", named + reached + self.relations.parts)

    def __hash__(self) -> int:
        return self._hash

    @property
    def room_adds_up(self) -> bool:
        """Whether every task of the shape takes exactly one from the room of a machine. Several
        devices or disks for one task may be left such that it cannot use them."""
        return self.devices is None and (self.disks is None or len(self.disks.volumes) < 2)

    def requests_same_as(self, other: "Shape") -> bool:
        """Whether both request the same resources, devices and disk bandwidth, and count alike in
        costs."""
        same = self.requests == other.requests and self.devices == other.devices
        return same and self.disks == other.disks and self.unrequested == other.unrequested


@dataclass(frozen=True, slots=True)
class Task:
    """One pod. `id` is its UID, `name` is its namespace and name.

    A task with `blocked` set is not placed; the text names the field that is the cause. `labels`
    are what the selectors of other tasks look at. With `required_during_execution` it is reported
    while its machine does not meet its requirements any more.
    """

    id: str
    name: str
    shape: Shape
    blocked: str | None = None
    labels: TaskLabels = NO_LABELS
    required_during_execution: bool = False
