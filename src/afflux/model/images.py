"""Container images: what a task runs, and which of them are worth looking for on machines."""

from dataclasses import dataclass

# Sizes between which an image on a machine is worth more and more, as in kube-scheduler.
SMALLEST_BYTES = 23 * 1024 * 1024
LARGEST_BYTES = 1000 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Images:
    """The images of a task that some machine may have, sorted, one entry for each use.

    `sources` is the number of its containers and image volumes, those with other images included.
    """

    names: tuple[str, ...]
    sources: int


def normalised(name: str) -> str:
    """The name as machines report it: without a tag or digest it means the latest."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
