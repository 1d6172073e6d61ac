"""Storage: the storage objects of a cluster and the pods that use them, as one mirror.

Objects are set and removed as they come; each call says which pods have to be looked at again.
Pods are known by the id of their task.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from afflux.kube import objects
from afflux.kube.volumes.attaching import Attachments, Handle
from afflux.kube.volumes.choosing import (
    Choice,
    Patch,
    binding_progress,
    choose_volumes,
    patches,
)
from afflux.kube.volumes.claims import Claim, Reference, is_older, pod_references, read_claim
from afflux.kube.volumes.concessions import Concessions
from afflux.kube.volumes.needs import (
    IN_USE,
    Blocked,
    Owner,
    VolumeNeeds,
    count_taken,
    find_needs,
)
from afflux.kube.volumes.regions import HOSTNAME
from afflux.kube.volumes.supply import Supply
from afflux.kube.volumes.together import Chosen, Going, Short, choose_together, find_shortage
from afflux.kube.volumes.volume import Volume, read_volume
from afflux.model.places import Places

READ_WRITE_ONCE_POD = "ReadWriteOncePod"
_ENDED = frozenset({"Succeeded", "Failed"})

StorageObject = (
    objects.PersistentVolumeClaim
    | objects.PersistentVolume
    | objects.StorageClass
    | objects.CSINode
    | objects.CSIDriver
    | objects.CSIStorageCapacity
    | objects.Pod
)
_NOBODY = frozenset[str]()
_NO_NEEDS = VolumeNeeds()


@dataclass(frozen=True, slots=True)
class _User:
    """A pod that uses claims; `rank` is its place among those that wait for the same one."""

    references: tuple[Reference, ...]
    node: str
    rank: tuple[int, str, str]


class Storage:
    """What is known of storage, and what it means for each pod."""

    def __init__(self) -> None:
        self.supply = Supply()
        self._csi_nodes: dict[str, objects.CSINode] = {}
        self._attachments = Attachments()
        self._pods: dict[str, _User] = {}
        self._users: dict[str, dict[str, None]] = {}
        self._concessions = Concessions()

    def set(self, stated: StorageObject) -> frozenset[str]:
        """An object is there or has changed; returns the pods whose needs may have, too.

        An InputError names a field that is wrong; the object is then as it was before. A change of
        a CSINode changes its machine and no pod. Claims and volumes that are older than what is
        known already are left alone: what a write has returned may be ahead of what is watched.
        """
        match stated:
            case objects.Pod():
                return self._set_pod(stated)
            case objects.PersistentVolumeClaim():
                return self._set_claim(read_claim(stated))
            case objects.PersistentVolume():
                return self._set_volume(read_volume(stated))
            case objects.CSINode():
                self._csi_nodes[stated.metadata.name or ""] = stated
                return _NOBODY
            case objects.StorageClass():
                self.supply.set_class(stated)
            case objects.CSIDriver():
                self.supply.set_driver(stated)
            case objects.CSIStorageCapacity():
                self.supply.set_space(stated)
        return self._waiting_for(_classes(stated))

    def remove(self, stated: StorageObject) -> frozenset[str]:
        """An object is gone; returns the pods whose needs may have changed."""
        name = stated.metadata.name or ""
        match stated:
            case objects.Pod():
                return self.remove_pod(task_id(stated)) - {task_id(stated)}
            case objects.PersistentVolumeClaim():
                key = f"{stated.metadata.namespace or 'default'}/{name}"
                self.supply.remove_claim(key)
                return self._users_of(key)
            case objects.PersistentVolume():
                before = self.supply.volumes.get(name)
                self.supply.remove_volume(name)
                return self._concerned_by(before) if before is not None else _NOBODY
            case objects.CSINode():
                self._csi_nodes.pop(name, None)
                return _NOBODY
            case objects.StorageClass():
                self.supply.remove_class(name)
            case objects.CSIDriver():
                self.supply.remove_driver(name)
            case objects.CSIStorageCapacity():
                self.supply.remove_space(stated)
        return self._waiting_for(_classes(stated))

    def csi_node(self, name: str) -> objects.CSINode | None:
        """What the drivers of a node say about it."""
        return self._csi_nodes.get(name)

    def needs(self, pod: objects.Pod) -> VolumeNeeds | Blocked:
        """What the claims of a pod mean: where it may go and what it attaches, or why it waits.

        A pod that has its node only counts what it adds to the volumes attached there; it must
        have been set.
        """
        references = pod_references(pod)
        if not references:
            return _NO_NEEDS
        if pod.spec.node_name:
            return VolumeNeeds(attached=self._attachments.of(task_id(pod)))
        owner = Owner(
            pod.metadata.namespace or "default", pod.metadata.name or "", pod.metadata.uid or ""
        )
        without = self._concessions.of(task_id(pod))
        found = find_needs(owner, references, self.supply, without)
        if isinstance(found, Blocked):
            return found
        # Pods that share a claim take one volume together; who of them counts it nobody knows.
        alone = (r.claim for r in references if len(self._users.get(r.claim, ())) < 2)
        taken = count_taken((self.supply.claims[key] for key in alone), self.supply)
        if self._is_behind(pod, references):
            # As for kube-scheduler: against every node that nothing else speaks against.
            found = replace(found, places=(*found.places, Places(IN_USE, ())))
        return replace(found, taken=taken) if taken else found

    def volumes_on(self, labels: Mapping[str, str]) -> dict[str, int]:
        """How many volumes to be had a node with these labels has, as resources."""
        return self.supply.stock.on(labels.get(HOSTNAME, ""))

    def shortage(self, pods: Iterable[objects.Pod]) -> str | None:
        """Why pods that start together have to wait whatever the nodes are like; None if not."""
        claims = {
            reference.claim: self.supply.claims[reference.claim]
            for pod in pods
            for reference in pod_references(pod)
            if reference.claim in self.supply.claims
        }
        found = find_shortage(claims.values(), self.supply) if claims else None
        if found is None:
            return None
        return f"needs volumes for {found[0]} claims at once, {found[1]} are available"

    def choose(
        self, pod: objects.Pod, node: str, labels: Mapping[str, str]
    ) -> tuple[Choice, ...] | Blocked:
        """Volumes for the claims of a pod that goes to this node; nothing is assumed by asking."""
        return choose_volumes(pod_references(pod), node, labels, self.supply)

    def choose_together(
        self, going: Sequence[tuple[objects.Pod, str, Mapping[str, str]]]
    ) -> Chosen | Short:
        """The same for pods that start together, each with its node and the labels of that."""
        return choose_together(self._going(going), self.supply)

    def concede(
        self, going: Sequence[tuple[objects.Pod, str, Mapping[str, str]]], short: Short
    ) -> bool:
        """Have some of these pods look for other volumes; whether there is anything new to try."""
        return self._concessions.make(self._going(going), short, self.supply)

    def concede_no_more(self, pods: Iterable[str]) -> frozenset[str]:
        """These pods may take anything again; returns those whose needs may have changed."""
        return self._concessions.end(pods)

    def _going(self, going: Sequence[tuple[objects.Pod, str, Mapping[str, str]]]) -> list[Going]:
        return [
            Going(identity, pod_references(pod), node, labels, self._concessions.of(identity))
            for pod, node, labels in going
            for identity in (task_id(pod),)
        ]

    def assume(self, choices: tuple[Choice, ...]) -> frozenset[str]:
        """What was chosen is about to be written; returns the pods whose needs may have changed."""
        for choice in choices:
            self.supply.assume(choice.claim, choice.volume, choice.node)
        return self._rivals_for(choices)

    def forget(self, choices: tuple[Choice, ...]) -> frozenset[str]:
        """It will not be written after all; returns the pods whose needs may have changed."""
        for choice in choices:
            self.supply.forget(choice.claim)
        return self._rivals_for(choices)

    def patches(self, choices: tuple[Choice, ...]) -> list[Patch]:
        """What has to be written for these choices, in order."""
        return patches(choices, self.supply)

    def progress(self, choices: tuple[Choice, ...], labels: Mapping[str, str]) -> bool | Blocked:
        """Whether the claims are bound: yes, not yet, or never."""
        return binding_progress(choices, labels, self.supply)

    def _set_claim(self, claim: Claim) -> frozenset[str]:
        known = self.supply.claims.get(claim.key)
        if known is not None and is_older(claim.version, known.version):
            return _NOBODY
        self.supply.set_claim(claim)
        return _NOBODY if claim == known else self._users_of(claim.key)

    def _set_volume(self, volume: Volume) -> frozenset[str]:
        known = self.supply.volumes.get(volume.name)
        if known is not None and is_older(volume.version, known.version):
            return _NOBODY
        self.supply.set_volume(volume)
        if volume == known:
            return _NOBODY
        return self._concerned_by(volume) | (self._concerned_by(known) if known else _NOBODY)

    # --- Pods

    def _set_pod(self, pod: objects.Pod) -> frozenset[str]:
        identity = task_id(pod)
        ended = pod.status is not None and pod.status.phase in _ENDED
        references = () if ended else pod_references(pod)
        if not references:
            return self.remove_pod(identity) if identity in self._pods else _NOBODY
        node = pod.spec.node_name or ""
        user = _User(references, node, _rank(pod))
        changed: frozenset[str] = _NOBODY
        if self._pods.get(identity) != user:
            changed = self.remove_pod(identity)
            self._pods[identity] = user
            for reference in references:
                self._users.setdefault(reference.claim, {})[identity] = None
            changed |= {identity} | self._rivals(references) | self._pairs(references, 2)
        if node:
            changed |= self._attachments.use(identity, node, self._handles(references))
        return changed

    def remove_pod(self, identity: str) -> frozenset[str]:
        """The pod of this task is over; returns the pods whose needs may have changed."""
        user = self._pods.pop(identity, None)
        if user is None:
            return _NOBODY
        relieved = self._concessions.left(identity)
        for reference in user.references:
            users = self._users[reference.claim]
            del users[identity]
            if not users:
                del self._users[reference.claim]
        relieved |= self._rivals(user.references) | self._pairs(user.references, 1)
        return relieved | self._attachments.leave(identity)

    def _users_of(self, claim: str) -> frozenset[str]:
        """The pods that use a claim, what they attach being counted again."""
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
        """The pods that wait and have claims of these classes (None: any), or on this volume."""
        claims = self.supply.claims
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

    def _concerned_by(self, volume: Volume) -> frozenset[str]:
        """Who has the volume, and who could have it."""
        waiting = self._waiting_for({volume.storage_class}, volume.name)
        return self._users_of(volume.claim) | waiting

    def _rivals_for(self, choices: tuple[Choice, ...]) -> frozenset[str]:
        """Who could have had what was chosen."""
        claims = [self.supply.claims.get(choice.claim) for choice in choices]
        volumes = [self.supply.volumes.get(choice.volume or "") for choice in choices]
        classes = {each.storage_class for each in (*claims, *volumes) if each is not None}
        return self._waiting_for(classes) if classes else _NOBODY

    def _handles(self, references: tuple[Reference, ...]) -> list[Handle]:
        claims = (self.supply.claims.get(reference.claim) for reference in references)
        handles = (self.supply.attachment(claim) for claim in claims if claim is not None)
        return [handle for handle in handles if handle is not None]

    def _rivals(self, references: tuple[Reference, ...]) -> frozenset[str]:
        """The other users of claims that only one pod at a time may have."""
        return frozenset(
            identity
            for reference in references
            if self._is_for_one(reference)
            for identity in self._users.get(reference.claim, ())
        )

    def _pairs(self, references: tuple[Reference, ...], count: int) -> frozenset[str]:
        """The users of open claims that have so many: one more or less makes a difference."""
        return frozenset(
            identity
            for reference in references
            if len(users := self._users.get(reference.claim, {})) == count
            and (claim := self.supply.claims.get(reference.claim)) is not None
            and not claim.bound
            for identity in users
            if not self._pods[identity].node
        )

    def _is_for_one(self, reference: Reference) -> bool:
        claim = self.supply.claims.get(reference.claim)
        return claim is not None and READ_WRITE_ONCE_POD in claim.modes

    def _is_behind(self, pod: objects.Pod, references: tuple[Reference, ...]) -> bool:
        """Whether a claim for one pod has a user that runs or has waited for longer."""
        identity, rank = task_id(pod), _rank(pod)
        return any(
            self._pods[other].rank < rank
            for reference in references
            if self._is_for_one(reference)
            for other in self._users.get(reference.claim, ())
            if other != identity
        )


def _classes(
    stated: objects.StorageClass | objects.CSIDriver | objects.CSIStorageCapacity,
) -> Container[str] | None:
    """The storage classes that this is about, None for any."""
    match stated:
        case objects.StorageClass():
            return {stated.metadata.name or ""}
        case objects.CSIStorageCapacity():
            return {stated.storage_class_name or ""}
        case objects.CSIDriver():
            return None


def _rank(pod: objects.Pod) -> tuple[int, str, str]:
    """Who goes first where only one can: who runs, then who waits for longest, then the gated."""
    turn = 0 if pod.spec.node_name else 2 if pod.spec.scheduling_gates else 1
    return turn, pod.metadata.creation_timestamp or "", task_id(pod)


def task_id(pod: objects.Pod) -> str:
    """The id of a pod's task: its uid, or its name where it has none yet."""
    name = f"{pod.metadata.namespace or 'default'}/{pod.metadata.name or ''}"
    return pod.metadata.uid or name
