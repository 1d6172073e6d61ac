"""Container images of nodes and pods, and which of them matter for placement."""

from collections.abc import Container, Iterable, Mapping
from functools import lru_cache
from sys import intern

from afflux.kube import objects
from afflux.kube.volumes.volume_sources import image_reference
from afflux.model.images import MIN_SCORED_BYTES, Images, normalised
from afflux.model.machine import Machine
from afflux.model.resources import MAX_AMOUNT

_NO_IMAGES: Mapping[str, int] = {}


def machine_images(status: objects.NodeStatus) -> Mapping[str, int]:
    """The image sizes of a node by name, for each name, without images too small to matter."""
    if not status.images:
        return _NO_IMAGES
    return {
        # Interned: thousands of machines have the same few hundred images.
        intern(name): min(image.size_bytes, MAX_AMOUNT)
        for image in status.images
        if image.size_bytes is not None and image.size_bytes >= MIN_SCORED_BYTES
        for name in image.names or ()
    }


def pod_images(spec: objects.PodSpec, known: Container[str]) -> Images | None:
    """The images of a pod that are among the known ones; None if there are none."""
    used = [container.image or "" for container in spec.containers or ()]
    if spec.init_containers:
        used += [container.image or "" for container in spec.init_containers]
    for index, volume in enumerate(spec.volumes or ()):
        if "image" in volume and (image := image_reference(volume, index)) is not None:
            used.append(image)
    found = [name for image in used if (name := _normalised(image)) in known]
    return Images(tuple(sorted(found)), len(used)) if found else None


class ImageCensus:
    """The images that distinguish machines: large enough for their spread, not on every machine.

    Only these enter the shape of a task, so that pods that differ in other images share a class.
    """

    def __init__(self, machines: Iterable[Machine] = ()) -> None:
        self._machines: dict[str, Mapping[str, int]] = {}
        self._counts: dict[str, tuple[int, int]] = {}
        # Computed on demand after a change.
        self._distinguishing: frozenset[str] | None = None
        for machine in machines:
            self.set(machine)

    def __contains__(self, name: object) -> bool:
        if self._distinguishing is None:
            total = len(self._machines)
            self._distinguishing = frozenset(
                image
                for image, (count, size_bytes) in self._counts.items()
                if count < total and size_bytes * count >= MIN_SCORED_BYTES * total
            )
        return name in self._distinguishing

    def set(self, machine: Machine) -> None:
        before = self._machines.get(machine.name)
        if before == machine.images:
            return
        self.remove(machine.name)
        self._distinguishing = None
        self._machines[machine.name] = machine.images
        for name, size_bytes in machine.images.items():
            count, largest = self._counts.get(name, (0, 0))
            self._counts[name] = (count + 1, max(largest, size_bytes))

    def remove(self, machine: str) -> None:
        self._distinguishing = None
        for name in self._machines.pop(machine, _NO_IMAGES):
            count, largest = self._counts[name]
            if count > 1:
                self._counts[name] = (count - 1, largest)
            else:
                del self._counts[name]


_normalised = lru_cache(maxsize=4096)(normalised)
