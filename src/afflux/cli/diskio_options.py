"""What the options of all actions of `afflux diskio` have in common."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskioOptions:
    """The options of one action; `command` is how messages call it."""

    command: ClassVar[str] = "diskio"
