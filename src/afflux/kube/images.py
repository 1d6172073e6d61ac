"""Container images: what nodes have, what pods use, and which of them can tell machines apart."""

from collections.abc import Container, Iterable, Mapping
from functools import lru_cache
from sys import intern

from afflux.kube import objects
from afflux.kube.volumes.contents import image_reference
from afflux.model.images import SMALLEST_BYTES, Images, normalised
from afflux.model.machine import Machine
from afflux.model.resources import LARGEST_AMOUNT

_NO_IMAGES: Mapping[str, int] = {}


def machine_images(status: objects.NodeStatus) -> Mapping[str, int]:
    """The images of a node by every name they have; small ones make no difference."""
    if not status.images:
        return _NO_IMAGES
    return {
        # Thousands of machines have the same few hundred images.
        intern(name): min(image.size_bytes, LARGEST_AMOUNT)
        for image in status.images
        if image.size_bytes is not None and image.size_bytes >= SMALLEST_BYTES
        for name in image.names or ()
    }


def pod_images(spec: objects.PodSpec, known: Container[str]) -> Images | None:
    """The images of a pod that are among the known; None if there are none."""
    used = [container.image or "" for container in spec.containers or ()]
    if spec.init_containers:
        used += [container.image or "" for container in spec.init_containers]
    for index, volume in enumerate(spec.volumes or ()):
        if "image" in volume and (image := image_reference(volume, index)) is not None:
            used.append(image)
    found = [name for image in used if (name := _normalised(image)) in known]
    return Images(tuple(sorted(found)), len(used)) if found else None


class ImageCensus:
    """Which images tell machines apart: large for their spread, and not on every machine.

    Only those may enter the shape of a task: pods that differ in others are of one class.
    """

    def __init__(self, machines: Iterable[Machine] = ()) -> None:
        self._machines: dict[str, Mapping[str, int]] = {}
        self._found: dict[str, tuple[int, int]] = {}
        # Which of them count; found out when somebody asks after a change.
        self._telling: frozenset[str] | None = None
        for machine in machines:
            self.set(machine)

    def __contains__(self, name: object) -> bool:
        if self._telling is None:
            total = len(self._machines)
            self._telling = frozenset(
                image
                for image, (count, size_bytes) in self._found.items()
                if count < total and size_bytes * count >= SMALLEST_BYTES * total
            )
        return name in self._telling

    def set(self, machine: Machine) -> None:
        """A machine is there, or has other images now."""
        before = self._machines.get(machine.name)
        if before == machine.images:
            return
        self.remove(machine.name)
        self._telling = None
        self._machines[machine.name] = machine.images
        for name, size_bytes in machine.images.items():
            count, largest = self._found.get(name, (0, 0))
            self._found[name] = (count + 1, max(largest, size_bytes))

    def remove(self, machine: str) -> None:
        """A machine is gone."""
        self._telling = None
        for name in self._machines.pop(machine, _NO_IMAGES):
            count, largest = self._found[name]
            if count > 1:
                self._found[name] = (count - 1, largest)
            else:
                del self._found[name]


_normalised = lru_cache(maxsize=4096)(normalised)
