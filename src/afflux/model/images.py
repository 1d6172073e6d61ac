"""Container images of tasks, and the sizes that image locality scores."""

from dataclasses import dataclass

# Between these sizes an image scores linearly, as in kube-scheduler.
MIN_SCORED_BYTES = 23 * 1024 * 1024
MAX_SCORED_BYTES = 1000 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Images:
    """The images of a task that some machine may have, sorted, one entry for each use.

    `image_count` counts all containers and image volumes of the task, also those whose image no
    machine has.
    """

    names: tuple[str, ...]
    image_count: int


def normalised(name: str) -> str:
    """The name as nodes report it: `:latest` is added to a name without a tag or digest."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
