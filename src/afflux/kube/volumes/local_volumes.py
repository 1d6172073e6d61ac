"""Local volumes: how many free volumes each machine has for each kind of claim.

Claims that ask for the same are one kind. The number of volumes for a kind is a resource of the
machine, like its host ports, so that no plan sends more claims there than there are volumes. Only
volumes that a single machine can reach, by its hostname, are counted. A kind that could bind other
volumes too is not counted; whether those suffice is checked when volumes are chosen.

A volume that two kinds could bind counts for both: a count that is too high does no harm.
"""

from collections import Counter
from dataclasses import dataclass, field
from hashlib import blake2b

import msgspec

from afflux.kube.volumes.claims import Claim
from afflux.kube.volumes.node_sets import NOWHERE, sole_host
from afflux.kube.volumes.volume import Volume, can_bind
from afflux.model.implied_resources import volume_resource

# Each kind is a column over all machines. Kinds beyond this number are not counted.
MAX_KINDS = 64


@dataclass(slots=True)
class _Kind:
    """Claims that ask for the same, and the volumes for them: local by hostname, and shared."""

    example: Claim
    claims: set[str] = field(default_factory=set[str])
    local: Counter[str] = field(default_factory=Counter[str])
    shared: int = 0


class LocalVolumes:
    """Free volumes, and the claims that need one."""

    def __init__(self, max_kinds: int = MAX_KINDS) -> None:
        self._max_kinds = max_kinds
        self._volumes: dict[str, Volume] = {}
        self._kinds: dict[str, _Kind] = {}
        self._kind_of: dict[str, str] = {}
        self._changed_hosts: set[str] = set()

    def add_volume(self, volume: Volume) -> None:
        """A volume is free, or has changed."""
        if self._volumes.get(volume.name) == volume:
            return
        self.remove_volume(volume.name)
        self._volumes[volume.name] = volume
        for kind in self._kinds.values():
            self._count(kind, volume, 1)

    def remove_volume(self, name: str) -> None:
        """A volume is no longer free."""
        volume = self._volumes.pop(name, None)
        if volume is not None:
            for kind in self._kinds.values():
                self._count(kind, volume, -1)

    def add_claim(self, claim: Claim) -> None:
        """A claim needs one of the free volumes."""
        name = kind_name(claim)
        if self._kind_of.get(claim.key) == name:
            return
        self.remove_claim(claim.key)
        kind = self._kinds.get(name)
        if kind is None:
            if len(self._kinds) >= self._max_kinds:
                return
            kind = self._kinds[name] = _Kind(claim)
            for volume in self._volumes.values():
                self._count(kind, volume, 1)
        kind.claims.add(claim.key)
        self._kind_of[claim.key] = name

    def remove_claim(self, claim: str) -> None:
        """A claim is bound or gone."""
        name = self._kind_of.pop(claim, None)
        if name is None:
            return
        kind = self._kinds[name]
        kind.claims.remove(claim)
        if not kind.claims:
            del self._kinds[name]
            self._changed_hosts.update(kind.local)

    def resource(self, claim: str) -> str | None:
        """The resource of which a claim takes one; None if its kind is not counted."""
        name = self._kind_of.get(claim)
        return None if name is None or self._kinds[name].shared else name

    def counts_on(self, host: str) -> dict[str, int]:
        """The number of volumes by resource on the machine with this hostname."""
        counts = ((name, kind.local.get(host, 0)) for name, kind in self._kinds.items())
        return {name: count for name, count in counts if count}

    def take_changed_hosts(self) -> set[str]:
        """The hostnames whose counts may have changed since the last call."""
        changed, self._changed_hosts = self._changed_hosts, set()
        return changed

    def _count(self, kind: _Kind, volume: Volume, change: int) -> None:
        if volume.node_set == NOWHERE or not can_bind(kind.example, volume):
            return
        host = sole_host(volume.node_set)
        if host is None:
            kind.shared += change
            return
        kind.local[host] += change
        self._changed_hosts.add(host)
        if not kind.local[host]:
            del kind.local[host]


def kind_name(claim: Claim) -> str:
    """The resource of a claim; equal for claims that could bind the same volumes."""
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
    return volume_resource("/".join(parts))
