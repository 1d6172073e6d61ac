"""Storage: the storage objects of a cluster, the pods that use them, and what they mean.

Each update returns the pods whose needs may have changed, by the id of their task.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace

from afflux.kube import objects
from afflux.kube.volumes.attachments import Attachments, Handle
from afflux.kube.volumes.avoided_volumes import AvoidedVolumes
from afflux.kube.volumes.claims import Claim, ClaimReference, claim_references, read_claim
from afflux.kube.volumes.gang_volumes import (
    Chosen,
    GangMember,
    VolumeShortfall,
    choose_gang,
    find_shortfall,
)
from afflux.kube.volumes.node_sets import HOSTNAME
from afflux.kube.volumes.storage_cache import StorageCache
from afflux.kube.volumes.volume import Volume, read_volume
from afflux.kube.volumes.volume_choice import Choice, binding_progress, choose_volumes
from afflux.kube.volumes.volume_needs import IN_USE, Blocked, VolumeNeeds, count_taken, find_needs
from afflux.model.reachability import Reachability
from afflux.model.relations import Labels

READ_WRITE_ONCE_POD = "ReadWriteOncePod"
_ENDED = frozenset({"Succeeded", "Failed"})

StorageObject = (
    objects.PersistentVolumeClaim
    | objects.PersistentVolume
    | objects.StorageClass
    | objects.CSIDriver
    | objects.CSIStorageCapacity
    | objects.Pod
)
# A pod, its node, and the labels of that node.
PlacedPod = tuple[objects.Pod, str, Labels]
_NO_PODS = frozenset[str]()
_NO_NEEDS = VolumeNeeds()


@dataclass(frozen=True, slots=True)
class _User:
    """A pod that uses claims; `rank` orders the pods that wait for the same claim."""

    references: tuple[ClaimReference, ...]
    node: str
    rank: tuple[int, str, str]


class Storage:
    """The storage objects and the pods that use them."""

    def __init__(self) -> None:
        self.cache = StorageCache()
        self._attachments = Attachments()
        self._pods: dict[str, _User] = {}
        self._users: dict[str, dict[str, None]] = {}
        self._avoided = AvoidedVolumes()

    def set(self, stated: StorageObject) -> frozenset[str]:
        """Add or update an object; returns the pods whose needs may have changed.

        An InputError names an invalid field and leaves the storage unchanged. Claims and volumes
        older than the known ones are ignored: the response to a write may be newer than the watch.
        """
        match stated:
            case objects.Pod():
                return self._set_pod(stated)
            case objects.PersistentVolumeClaim():
                return self._set_claim(read_claim(stated))
            case objects.PersistentVolume():
                return self._set_volume(read_volume(stated))
            case objects.StorageClass():
                self.cache.set_class(stated)
            case objects.CSIDriver():
                self.cache.set_driver(stated)
            case objects.CSIStorageCapacity():
                self.cache.set_capacity(stated)
        return self._waiting_for(_classes(stated))

    def remove(self, stated: StorageObject) -> frozenset[str]:
        """Remove an object; returns the pods whose needs may have changed."""
        name = stated.metadata.name or ""
        match stated:
            case objects.Pod():
                return self.remove_pod(task_id(stated)) - {task_id(stated)}
            case objects.PersistentVolumeClaim():
                key = f"{stated.metadata.namespace or 'default'}/{name}"
                self.cache.remove_claim(key)
                return self._users_of(key)
            case objects.PersistentVolume():
                before = self.cache.volumes.get(name)
                self.cache.remove_volume(name)
                return self._affected_by(before) if before is not None else _NO_PODS
            case objects.StorageClass():
                self.cache.remove_class(name)
            case objects.CSIDriver():
                self.cache.remove_driver(name)
            case objects.CSIStorageCapacity():
                self.cache.remove_capacity(stated)
        return self._waiting_for(_classes(stated))

    def needs(self, pod: objects.Pod) -> VolumeNeeds | Blocked:
        """What the claims of a pod mean: where it may run and what it attaches, or why it waits.
        For a pod with a node, only the volumes that are counted for it; it must have been set."""
        references = claim_references(pod)
        if not references:
            return _NO_NEEDS
        if pod.spec.node_name:
            return VolumeNeeds(attached=self._attachments.of(task_id(pod)))
        found = find_needs(pod, references, self.cache, self._avoided.of(task_id(pod)))
        if isinstance(found, Blocked):
            return found
        # A volume of a shared claim would be counted once for each of its pods: it is not counted.
        alone = (r.claim for r in references if len(self._users.get(r.claim, ())) < 2)
        taken = count_taken((self.cache.claims[key] for key in alone), self.cache)
        if self._has_earlier_user(pod, references):
            # As in kube-scheduler, the reason at every node that passes all other filters.
            found = replace(found, reachability=(*found.reachability, Reachability(IN_USE, ())))
        return replace(found, taken=taken) if taken else found

    def volumes_on(self, labels: Labels) -> dict[str, int]:
        """The free local volumes of a node with these labels, as resources."""
        return self.cache.local_volumes.counts_on(labels.get(HOSTNAME, ""))

    def volume_shortfall(self, pods: Iterable[objects.Pod]) -> str | None:
        """Why there are too few volumes for a gang on any nodes; None if there are enough."""
        claims = {
            reference.claim: self.cache.claims[reference.claim]
            for pod in pods
            for reference in claim_references(pod)
            if reference.claim in self.cache.claims
        }
        found = find_shortfall(claims.values(), self.cache) if claims else None
        if found is None:
            return None
        return f"needs volumes for {found[0]} claims at once, {found[1]} are available"

    def choose(self, pod: objects.Pod, node: str, labels: Labels) -> tuple[Choice, ...] | Blocked:
        """Choose volumes for the claims of a pod on this node, without assuming them."""
        return choose_volumes(claim_references(pod), node, labels, self.cache)

    def choose_gang(self, members: Sequence[PlacedPod]) -> Chosen | VolumeShortfall:
        """The same for the pods of a gang, each with its node and the labels of the node."""
        return choose_gang(self._gang(members), self.cache)

    def avoid_shortfall(self, members: Sequence[PlacedPod], shortfall: VolumeShortfall) -> bool:
        """Make pods of the gang avoid volumes; False if there is nothing new to try."""
        return self._avoided.add(self._gang(members), shortfall, self.cache)

    def end_avoidance(self, pods: Iterable[str]) -> frozenset[str]:
        """Clear what these pods avoid; returns the pods whose needs may have changed."""
        return self._avoided.end(pods)

    def _gang(self, members: Sequence[PlacedPod]) -> list[GangMember]:
        return [
            GangMember(identity, claim_references(pod), node, labels, self._avoided.of(identity))
            for pod, node, labels in members
            for identity in (task_id(pod),)
        ]

    def assume(self, choices: tuple[Choice, ...]) -> frozenset[str]:
        """Assume these choices; returns the pods whose needs may have changed."""
        for choice in choices:
            self.cache.assume(choice.claim, choice.volume, choice.node)
        return self._competing_pods(choices)

    def forget(self, choices: tuple[Choice, ...]) -> frozenset[str]:
        """Forget these assumptions; returns the pods whose needs may have changed."""
        for choice in choices:
            self.cache.forget(choice.claim)
        return self._competing_pods(choices)

    def progress(self, choices: tuple[Choice, ...], labels: Labels) -> bool | Blocked:
        """Whether the claims are bound: True, not yet (False), or never (Blocked)."""
        return binding_progress(choices, labels, self.cache)

    def _set_claim(self, claim: Claim) -> frozenset[str]:
        known = self.cache.claims.get(claim.key)
        if known is not None and objects.is_older(claim.version, known.version):
            return _NO_PODS
        self.cache.set_claim(claim)
        return _NO_PODS if claim == known else self._users_of(claim.key)

    def _set_volume(self, volume: Volume) -> frozenset[str]:
        known = self.cache.volumes.get(volume.name)
        if known is not None and objects.is_older(volume.version, known.version):
            return _NO_PODS
        self.cache.set_volume(volume)
        if volume == known:
            return _NO_PODS
        return self._affected_by(volume) | (self._affected_by(known) if known else _NO_PODS)

    # --- Pods

    def _set_pod(self, pod: objects.Pod) -> frozenset[str]:
        identity = task_id(pod)
        ended = pod.status is not None and pod.status.phase in _ENDED
        references = () if ended else claim_references(pod)
        if not references:
            return self.remove_pod(identity) if identity in self._pods else _NO_PODS
        node = pod.spec.node_name or ""
        user = _User(references, node, _rank(pod))
        changed: frozenset[str] = _NO_PODS
        if self._pods.get(identity) != user:
            changed = self.remove_pod(identity)
            self._pods[identity] = user
            for reference in references:
                self._users.setdefault(reference.claim, {})[identity] = None
            changed |= self._single_pod_users(references) | self._users_if_count(references, 2)
            changed |= {identity}
        if node:
            changed |= self._attachments.use(identity, node, self._handles(references))
        return changed

    def remove_pod(self, identity: str) -> frozenset[str]:
        """Remove the pod of this task; returns the pods whose needs may have changed."""
        user = self._pods.pop(identity, None)
        if user is None:
            return _NO_PODS
        changed = self._avoided.left(identity)
        for reference in user.references:
            users = self._users[reference.claim]
            del users[identity]
            if not users:
                del self._users[reference.claim]
        changed |= self._single_pod_users(user.references)
        changed |= self._users_if_count(user.references, 1)
        return changed | self._attachments.leave(identity)

    def _users_of(self, claim: str) -> frozenset[str]:
        """The pods that use a claim, after an update of their attachments."""
        changed = set(self._users.get(claim, ()))
        for identity in tuple(changed):
            user = self._pods[identity]
            if user.node:
                handles = self._handles(user.references)
                changed |= self._attachments.use(identity, user.node, handles)
        return frozenset(changed)

    def _waiting_for(
        self, classes: Container[str] | None, volume: str | None = None
    ) -> frozenset[str]:
        """The pods without a node whose claims have one of these classes, or this volume. No
        classes (None) means any class."""
        claims = self.cache.claims
        return frozenset(
            identity
            for identity, user in self._pods.items()
            if not user.node
            and any(
                classes is None or claim.storage_class in classes or claim.volume == volume
                for reference in user.references
                if (claim := claims.get(reference.claim)) is not None
            )
        )

    def _affected_by(self, volume: Volume) -> frozenset[str]:
        """The pods that have the volume, and those that could get it."""
        waiting = self._waiting_for({volume.storage_class}, volume.name)
        return self._users_of(volume.claim) | waiting

    def _competing_pods(self, choices: tuple[Choice, ...]) -> frozenset[str]:
        claims = [self.cache.claims.get(choice.claim) for choice in choices]
        volumes = [self.cache.volumes.get(choice.volume or "") for choice in choices]
        classes = {each.storage_class for each in (*claims, *volumes) if each is not None}
        return self._waiting_for(classes) if classes else _NO_PODS

    def _handles(self, references: tuple[ClaimReference, ...]) -> list[Handle]:
        claims = (self.cache.claims.get(reference.claim) for reference in references)
        handles = (self.cache.attachment(claim) for claim in claims if claim is not None)
        return [handle for handle in handles if handle is not None]

    def _single_pod_users(self, references: tuple[ClaimReference, ...]) -> frozenset[str]:
        """The users of those of these claims that only one pod at a time may use."""
        return frozenset(
            identity
            for reference in references
            if self._is_single_pod(reference)
            for identity in self._users.get(reference.claim, ())
        )

    def _users_if_count(self, references: tuple[ClaimReference, ...], count: int) -> frozenset[str]:
        """The pods without a node that use one of these unbound claims, if it has `count` users."""
        return frozenset(
            identity
            for reference in references
            if len(users := self._users.get(reference.claim, {})) == count
            and (claim := self.cache.claims.get(reference.claim)) is not None
            and not claim.bound
            for identity in users
            if not self._pods[identity].node
        )

    def _is_single_pod(self, reference: ClaimReference) -> bool:
        claim = self.cache.claims.get(reference.claim)
        return claim is not None and READ_WRITE_ONCE_POD in claim.modes

    def _has_earlier_user(self, pod: objects.Pod, references: tuple[ClaimReference, ...]) -> bool:
        """Whether a claim for a single pod has a user with a lower rank."""
        identity, rank = task_id(pod), _rank(pod)
        return any(
            self._pods[other].rank < rank
            for reference in references
            if self._is_single_pod(reference)
            for other in self._users.get(reference.claim, ())
            if other != identity
        )


def _classes(
    stated: objects.StorageClass | objects.CSIDriver | objects.CSIStorageCapacity,
) -> Container[str] | None:
    """The storage classes that the object affects, None for any."""
    match stated:
        case objects.StorageClass():
            return {stated.metadata.name or ""}
        case objects.CSIStorageCapacity():
            return {stated.storage_class_name or ""}
        case objects.CSIDriver():
            return None


def _rank(pod: objects.Pod) -> tuple[int, str, str]:
    """The order in which pods get a claim for one pod: running, then oldest, gated pods last."""
    stage = 0 if pod.spec.node_name else 2 if pod.spec.scheduling_gates else 1
    return stage, pod.metadata.creation_timestamp or "", task_id(pod)


def task_id(pod: objects.Pod) -> str:
    """The id of a pod's task: its uid, or its name where it has none yet."""
    name = f"{pod.metadata.namespace or 'default'}/{pod.metadata.name or ''}"
    return pod.metadata.uid or name
