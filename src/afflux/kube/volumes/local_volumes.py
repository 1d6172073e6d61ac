"""The stock: how many volumes there are to be had for each kind of claim, machine by machine.

Claims that ask for the same are one kind. What a machine has for a kind is a resource of that
machine, like its host ports: no plan sends more claims there than there are volumes. So it is for
volumes that only one machine can use, by its hostname. A kind that could have others as well is not
counted: whether those suffice is found out when volumes are chosen.

Too many does no harm, too few would: a volume that two kinds could have counts for both.
"""

from collections import Counter
from dataclasses import dataclass, field
from hashlib import blake2b

import msgspec

from afflux.kube.volumes.claims import Claim
from afflux.kube.volumes.regions import NOWHERE, sole_host
from afflux.kube.volumes.volume import Volume, could_have
from afflux.model.implied import volumes_for

# Each kind is a column over all machines. Of more than this the rest is not counted.
MOST_KINDS = 64


@dataclass(slots=True)
class _Kind:
    """Claims that ask for the same, and what there is for them by hostname and elsewhere."""

    example: Claim
    claims: set[str] = field(default_factory=set[str])
    local: Counter[str] = field(default_factory=Counter[str])
    shared: int = 0


class Stock:
    """Volumes that are to be had and claims that look for one."""

    def __init__(self) -> None:
        self._volumes: dict[str, Volume] = {}
        self._kinds: dict[str, _Kind] = {}
        self._kind_of: dict[str, str] = {}
        self._touched: set[str] = set()

    def offer(self, volume: Volume) -> None:
        """A volume is to be had."""
        if self._volumes.get(volume.name) == volume:
            return
        self.withdraw(volume.name)
        self._volumes[volume.name] = volume
        for kind in self._kinds.values():
            self._count(kind, volume, 1)

    def withdraw(self, name: str) -> None:
        """A volume is not to be had any more."""
        volume = self._volumes.pop(name, None)
        if volume is not None:
            for kind in self._kinds.values():
                self._count(kind, volume, -1)

    def look_for(self, claim: Claim) -> None:
        """A claim looks for a volume that is to be had."""
        name = kind_name(claim)
        if self._kind_of.get(claim.key) == name:
            return
        self.look_no_more(claim.key)
        kind = self._kinds.get(name)
        if kind is None:
            if len(self._kinds) >= MOST_KINDS:
                return
            kind = self._kinds[name] = _Kind(claim)
            for volume in self._volumes.values():
                self._count(kind, volume, 1)
        kind.claims.add(claim.key)
        self._kind_of[claim.key] = name

    def look_no_more(self, claim: str) -> None:
        """A claim has its volume, or is gone."""
        name = self._kind_of.pop(claim, None)
        if name is None:
            return
        kind = self._kinds[name]
        kind.claims.remove(claim)
        if not kind.claims:
            del self._kinds[name]
            self._touched.update(kind.local)

    def resource(self, claim: str) -> str | None:
        """The resource that a claim takes one of; None if it is not counted."""
        name = self._kind_of.get(claim)
        return None if name is None or self._kinds[name].shared else name

    def on(self, host: str) -> dict[str, int]:
        """What the machine of this hostname has, by resource."""
        counts = ((name, kind.local.get(host, 0)) for name, kind in self._kinds.items())
        return {name: count for name, count in counts if count}

    def take_touched(self) -> set[str]:
        """The hostnames for which something may have changed since the last time."""
        touched, self._touched = self._touched, set()
        return touched

    def _count(self, kind: _Kind, volume: Volume, change: int) -> None:
        if volume.region == NOWHERE or not could_have(kind.example, volume):
            return
        host = sole_host(volume.region)
        if host is None:
            kind.shared += change
            return
        kind.local[host] += change
        self._touched.add(host)
        if not kind.local[host]:
            del kind.local[host]


def kind_name(claim: Claim) -> str:
    """The same for all claims that could have the same volumes: the name of their resource."""
    selector = ""
    if claim.selector is not None:
        written = msgspec.json.encode(claim.selector, order="deterministic")
        selector = blake2b(written, digest_size=12).hexdigest()
    parts = (
        claim.storage_class,
        str(claim.size_bytes or 0),
        ",".join(sorted(claim.modes)),
        "block" if claim.block else "",
        claim.attributes,
        selector,
    )
    return volumes_for("/".join(parts))
