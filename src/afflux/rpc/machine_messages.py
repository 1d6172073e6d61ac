"""ResourceTopologyNodeDescriptor messages as machines of the model, with their parts.

The tree that a client sends has machines, and below each what is in it: NUMA nodes, sockets,
caches, cores, processing units. Only machines have resources, labels and taints here; their parts
have slots.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast, get_args

from afflux.kube.input_errors import shown
from afflux.model.machine import Machine
from afflux.model.resources import PODS, resources
from afflux.model.taints import Effect, Taint
from afflux.rpc.message_errors import MessageError, checked_name
from afflux.rpc.proto.firmament import resources_pb2 as pb
from afflux.rpc.resource_amounts import offered_amounts
from afflux.rpc.slot_tree import Part

MAX_PARTS = 4096
MAX_LABELS = 1024
MAX_TAINTS = 256
# More slots than a machine can ever use, and still a number that adds up.
_MAX_SLOTS = 1 << 31

_Type = pb.ResourceDescriptor
_NO_TASKS_IN = (_Type.RESOURCE_NIC, _Type.RESOURCE_DISK, _Type.RESOURCE_SSD)


@dataclass(frozen=True, slots=True)
class DescribedMachine:
    """A machine as a client describes it.

    `uuids` are those of the machine and of everything in it. `parts` are those that matter for
    slots. `states_capacity` and `states_slots`: whether the message says anything about these.
    """

    uuid: str
    machine: Machine
    parts: tuple[Part, ...]
    uuids: tuple[str, ...]
    states_capacity: bool
    states_slots: bool

    def named(self, name: str) -> "DescribedMachine":
        return replace(self, machine=replace(self.machine, name=name))

    def with_slots(self, slots: int) -> Machine:
        """The machine of the model, which takes so many tasks."""
        capacity = dict(self.machine.capacity)
        return replace(self.machine, capacity=resources({**capacity, PODS: slots}))


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of the tree, the index of the node around it, and its place in the message."""

    message: pb.ResourceTopologyNodeDescriptor
    parent: int
    field: str


def described_machines(root: pb.ResourceTopologyNodeDescriptor) -> list[DescribedMachine]:
    """The machines of a tree, at least one; a MessageError names the invalid field."""
    nodes = _nodes(root)
    of_machine: dict[int, list[int]] = {}
    above: list[int] = []
    seen: set[str] = set()
    for index, node in enumerate(nodes):
        uuid = checked_name(node.message.resource_desc.uuid, f"{node.field}.uuid")
        if uuid in seen:
            raise MessageError(f"{node.field}.uuid: {shown(uuid)} is given twice, expected once")
        seen.add(uuid)
        around = above[node.parent] if node.parent >= 0 else -1
        if node.message.resource_desc.type == _Type.RESOURCE_MACHINE:
            if around >= 0:
                raise MessageError(
                    f"{node.field}.type: RESOURCE_MACHINE inside a machine, expected a part of it"
                )
            around = index
        above.append(around)
        if around >= 0:
            of_machine.setdefault(around, []).append(index)
    if not of_machine:
        raise MessageError(
            "resource_desc.type: no RESOURCE_MACHINE in the tree, expected at least one"
        )
    return [_described(nodes, indices) for indices in of_machine.values()]


def _nodes(root: pb.ResourceTopologyNodeDescriptor) -> list[_Node]:
    """All nodes, each after the node around it."""
    found = [_Node(root, -1, "resource_desc")]
    for index, node in enumerate(found):
        prefix = node.field.removesuffix("resource_desc")
        if len(found) + len(node.message.children) > MAX_PARTS:
            field = f"{prefix}children"
            raise MessageError(f"{field}: too many parts of one tree, expected {MAX_PARTS} at most")
        for number, child in enumerate(node.message.children):
            found.append(_Node(child, index, f"{prefix}children[{number}].resource_desc"))
    return found


def _described(nodes: list[_Node], indices: list[int]) -> DescribedMachine:
    root = nodes[indices[0]]
    desc = root.message.resource_desc
    parts = _parts(nodes, indices)
    amounts, states_capacity = _capacity(root)
    return DescribedMachine(
        uuid=desc.uuid,
        machine=Machine(
            checked_name(desc.friendly_name or desc.uuid, f"{root.field}.friendly_name"),
            resources(amounts),
            labels=_labels(desc, root.field),
            taints=tuple(_taints(desc, root.field)),
            unschedulable=desc.state == _Type.RESOURCE_LOST,
        ),
        parts=parts,
        uuids=tuple(nodes[index].message.resource_desc.uuid for index in indices),
        states_capacity=states_capacity,
        states_slots=any(part.limit is not None for part in parts),
    )


def _parts(nodes: list[_Node], indices: list[int]) -> tuple[Part, ...]:
    """The parts in which tasks can be: the units and what is around them, or everything if there
    are no units."""
    units = [i for i in indices if nodes[i].message.resource_desc.type == _Type.RESOURCE_PU]
    machine = indices[0]
    kept = {machine}
    for index in units or indices:
        if nodes[index].message.resource_desc.type in _NO_TASKS_IN:
            continue
        around = index
        while around not in kept:
            kept.add(around)
            around = nodes[around].parent
    found: list[Part] = []
    position: dict[int, int] = {}
    for index in indices:
        if index in kept:
            position[index] = len(found)
            desc = nodes[index].message.resource_desc
            parent = -1 if index == machine else position[nodes[index].parent]
            is_unit = desc.type == _Type.RESOURCE_PU
            found.append(Part(desc.uuid, parent, _limit(desc), is_unit))
    return tuple(found)


def _limit(desc: pb.ResourceDescriptor) -> int | None:
    """The smaller of both limits, of those that are stated."""
    stated = [each for each in (desc.max_pods, desc.num_slots_below) if each]
    return min(*stated, _MAX_SLOTS) if stated else None


def _capacity(node: _Node) -> tuple[dict[str, int], bool]:
    """What tasks may use: of the machine, or of its parts together if it does not say."""
    desc = node.message.resource_desc
    if desc.HasField("available_resources"):
        field = f"{node.field}.available_resources"
        return offered_amounts(desc.available_resources, field), True
    if desc.HasField("resource_capacity"):
        total = offered_amounts(desc.resource_capacity, f"{node.field}.resource_capacity")
        reserved = offered_amounts(desc.reserved_resources, f"{node.field}.reserved_resources")
        return {name: max(0, each - reserved.get(name, 0)) for name, each in total.items()}, True
    sums: dict[str, int] = {}
    states = False
    prefix = node.field.removesuffix("resource_desc")
    for number, child in enumerate(node.message.children):
        inside = _Node(child, 0, f"{prefix}children[{number}].resource_desc")
        amounts, stated = _capacity(inside)
        states |= stated
        for name, amount in amounts.items():
            sums[name] = sums.get(name, 0) + amount
    return sums, states


def _labels(desc: pb.ResourceDescriptor, field: str) -> dict[str, str]:
    if len(desc.labels) > MAX_LABELS:
        raise MessageError(f"{field}.labels: {len(desc.labels)}, expected at most {MAX_LABELS}")
    return {each.key: each.value for each in desc.labels}


def _taints(desc: pb.ResourceDescriptor, field: str) -> Iterator[Taint]:
    if len(desc.taints) > MAX_TAINTS:
        raise MessageError(f"{field}.taints: {len(desc.taints)}, expected at most {MAX_TAINTS}")
    effects = get_args(Effect)
    for number, each in enumerate(desc.taints):
        if each.effect not in effects:
            expected = f"expected one of {', '.join(effects)}"
            raise MessageError(f"{field}.taints[{number}].effect: {shown(each.effect)}, {expected}")
        yield Taint(each.key, cast("Effect", each.effect), each.value)
