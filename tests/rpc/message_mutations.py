"""Mutated messages of every call: fields that were changed at random, and bytes."""

import math
from collections.abc import Iterator
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from afflux.rpc.proto.firmament import scheduler_pb2 as pb
from afflux.rpc.proto.firmament import statistics_pb2 as statistics
from rpc.firmament_client import foreign, gang_task, node, part, task

_AFFINITY = {
    "node_affinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["1", "2"]}]}
            ]
        },
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 3,
                "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]},
            }
        ],
    },
    "pod_affinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 3,
                "podAffinityTerm": {
                    "labelSelector": {"matchLabels": {"key": "app", "value": "web"}},
                    "topologyKey": "zone",
                },
            }
        ],
    },
    "pod_anti_affinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "labelSelector": {
                    "matchExpressions": [{"key": "app", "operator": "In", "values": ["db"]}]
                },
                "topologyKey": "zone",
            }
        ],
    },
}

METHODS: dict[str, tuple[Message, ...]] = {
    "Schedule": (pb.ScheduleRequest(),),
    "TaskSubmitted": (
        task(1),
        gang_task(2, "job", 2),
        task(
            3,
            labels=[{"key": "app", "value": "web"}],
            label_selectors=[{"type": 4, "key": "cores", "values": ["4"]}],
            tolerations=[{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
            affinity=_AFFINITY,
            priority=3,
        ),
    ),
    "TaskUpdated": (task(1, labels=[{"key": "app", "value": "db"}]), task(3)),
    "TaskCompleted": (pb.TaskUID(task_uid=1),),
    "TaskFailed": (pb.TaskUID(task_uid=2),),
    "TaskRemoved": (pb.TaskUID(task_uid=3),),
    "NodeAdded": (
        node("a", labels={"zone": "1", "cores": "8"}, max_pods=3),
        node(
            "b",
            children=[part("b-1", 9, [part("b-2", max_pods=1)]), part("b-3", num_slots_below=2)],
            max_pods=4,
            taints=[{"key": "gpu", "effect": "NoSchedule"}],
        ),
    ),
    "NodeUpdated": (node("a", cpu_milli=100, max_pods=1), node("b", max_pods=2)),
    "NodeFailed": (pb.ResourceUID(resource_uid="a"),),
    "NodeRemoved": (pb.ResourceUID(resource_uid="b"),),
    "AddTaskStats": (statistics.TaskStats(task_id=1, mem_usage=5),),
    "AddNodeStats": (statistics.ResourceStats(resource_id="a", cpus_stats=[{"cpu_capacity": 4}]),),
    "Check": (pb.HealthCheckRequest(grpc_service="x"),),
    "AddTaskInfo": (
        foreign("x/default", "a", cpu_milli=100),
        pb.TaskInfo(task_name="x/default", type=pb.TASKINFO_REMOVE),
    ),
}

_INTEGERS = (0, 1, 2, 3, 9, 127, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**64 - 1, -1)
_FLOATS = (0.0, -0.0, 0.5, 1e-40, 1e300, -1.0, math.nan, math.inf, -math.inf)
_TEXTS = ("", "a", "b-1", "zone", "In", "NotIn", "Gt", "Exists", "\x00", "\n", "é" * 40, "x" * 2000)
# A cycle for every call would only test the same cycle.
_SCHEDULES = 200


def mutated_messages(random: Random, count: int) -> Iterator[tuple[str, bytes]]:
    """So many calls: names of methods with requests."""
    names = [name for name in METHODS if name != "Schedule"]
    for number in range(count):
        name = "Schedule" if number % (count // _SCHEDULES or 1) == 0 else random.choice(names)
        base = random.choice(METHODS[name])
        message = type(base)()
        message.CopyFrom(base)
        for _ in range(random.randrange(4)):
            _mutate(random, message)
        request = message.SerializeToString()
        yield name, _mutate_bytes(random, request) if random.random() < 0.3 else request


def _mutate(random: Random, message: Message) -> None:
    """Change one field of this message, or of one inside it."""
    fields = message.DESCRIPTOR.fields
    if not fields:
        return
    stated = [field for field, _ in message.ListFields()]
    field = random.choice(stated if stated and random.random() < 0.7 else fields)
    values: Any = getattr(message, field.name)
    if field.is_repeated:
        if len(values) and random.random() < 0.5:
            if field.message_type is not None:
                _mutate(random, random.choice(values))
            else:
                values[random.randrange(len(values))] = _scalar(random, field)
        elif len(values) and random.random() < 0.3:
            del values[:]
        elif field.message_type is not None:
            added = values.add()
            if len(values) > 1 and random.random() < 0.7:
                added.CopyFrom(values[0])
        else:
            values.append(_scalar(random, field))
    elif field.message_type is not None:
        if random.random() < 0.15:
            message.ClearField(field.name)
        else:
            values.SetInParent()
            _mutate(random, values)
    else:
        setattr(message, field.name, _scalar(random, field))


def _scalar(random: Random, field: FieldDescriptor) -> Any:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING if field.type == FieldDescriptor.TYPE_BYTES:
            return random.choice(_TEXTS).encode()
        case FieldDescriptor.CPPTYPE_STRING:
            return random.choice(_TEXTS)
        case FieldDescriptor.CPPTYPE_BOOL:
            return random.random() < 0.5
        case FieldDescriptor.CPPTYPE_DOUBLE:
            return random.choice(_FLOATS)
        case FieldDescriptor.CPPTYPE_FLOAT:
            return random.choice([each for each in _FLOATS if not 3e38 < abs(each) < math.inf])
        case FieldDescriptor.CPPTYPE_UINT32:
            return random.choice([each for each in _INTEGERS if 0 <= each < 2**32])
        case FieldDescriptor.CPPTYPE_UINT64:
            return random.choice([each for each in _INTEGERS if each >= 0])
        case FieldDescriptor.CPPTYPE_INT64:
            return random.choice([each for each in _INTEGERS if each < 2**63])
        case _:
            return random.choice([each for each in _INTEGERS if each < 2**31])


def _mutate_bytes(random: Random, request: bytes) -> bytes:
    changed = bytearray(request)
    for _ in range(random.randrange(1, 4)):
        position = random.randrange(len(changed) + 1)
        match random.randrange(4):
            case 0:
                changed[position:position] = random.randbytes(random.randrange(1, 9))
            case 1 if position < len(changed):
                changed[position] = random.randrange(256)
            case 2:
                del changed[position : position + random.randrange(1, 9)]
            case _:
                changed[position:] = changed[: len(changed) - position]
    return bytes(changed)
