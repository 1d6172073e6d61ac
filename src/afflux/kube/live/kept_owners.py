"""Owners that must not be deleted, because they have pods that stay."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from afflux.kube import objects
from afflux.kube.live.owner_chain import Owner, OwnerChain, OwnerReader
from afflux.kube.pod_claims import controller_of
from afflux.kube.pods import namespace
from afflux.kube.reader.cluster_reader import ClusterReader


@dataclass(frozen=True, slots=True)
class KeptOwners:
    """The uids of the owners of pods that stay. With `has_unknown` a pod that stays may belong to
    any owner with further controllers below it."""

    uids: frozenset[str] = frozenset()
    has_unknown: bool = False

    def contains(self, owner: Owner) -> bool:
        return owner.uid in self.uids or (self.has_unknown and not owner.only_creates_pods)


async def kept_owners(
    owner_reader: OwnerReader, chains: Collection[OwnerChain], staying: Iterable[objects.Pod]
) -> KeptOwners:
    """The owners of these pods, as far as they may be in one of the chains. Every pod that names
    an owner counts, whether or not the owner confirms it."""
    uids: set[str] = set()
    has_unknown = False
    # Only then a pod may belong to an owner in a chain without naming it.
    indirect = any(not owner.only_creates_pods for chain in chains for owner in chain.owners)
    for pod in staying:
        ref = controller_of(pod)
        if ref is None:
            continue
        uids.add(ref.uid or "")
        if indirect:
            chain = await owner_reader.chain(ref)
            uids.update(each.uid for each in chain.owners)
            has_unknown = has_unknown or chain.unknown is not None
    return KeptOwners(frozenset(uids), has_unknown)


def live_pods(reader: ClusterReader, space: str) -> list[objects.Pod]:
    """The pods of a namespace that have not ended and are not being deleted."""
    return [
        pod
        for pod in reader.pods
        if namespace(pod) == space and not pod.metadata.deletion_timestamp
    ]
