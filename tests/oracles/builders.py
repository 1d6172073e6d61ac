"""Short functions that build the values of examples."""

from collections.abc import Sequence

from afflux.admit.strategies import Strategy, flow
from afflux.cluster.state import State
from afflux.cycle.optimiser import Optimiser
from afflux.model.devices import DeviceRequest
from afflux.model.implied_resources import ImpliedResource
from afflux.model.machine import Machine
from afflux.model.placement import Placement
from afflux.model.resources import resources
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from afflux.plan.round import Round
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.policy import Policy, Weighted
from afflux.policies.registry import constraints
from afflux.queue.rules import QueueRules

MACHINE_FIELDS = {"labels", "taints", "unschedulable", "images"}
SHAPE_FIELDS = {"affinity", "tolerations", "images", "reachability", "profile", "disks"}


def _resource(name: str) -> str:
    return name if isinstance(name, ImpliedResource) else name.replace("_", "-")


def machine(name: str = "m", *, devices: int = 0, pods: int = 110, **fields: object) -> Machine:
    """Amounts by keyword, and the fields of a machine by theirs."""
    known = {key: fields.pop(key) for key in MACHINE_FIELDS & fields.keys()}
    capacity = {_resource(name): amount for name, amount in fields.items()}
    return Machine(name, resources(capacity | {"pods": pods}), devices, **known)


def shape(*, count: int = 0, milli: int = 1000, **fields: object) -> Shape:
    """Amounts by keyword; `count` devices of which it takes `milli` each."""
    known = {key: fields.pop(key) for key in SHAPE_FIELDS & fields.keys()}
    requests = {_resource(name): amount for name, amount in fields.items()}
    devices = DeviceRequest(count, milli) if count else None
    return Shape(resources({"pods": 1} | requests), devices, **known)


def task(name: str, of: Shape | None = None, blocked: str | None = None) -> Task:
    return Task(name, name, of or shape(), blocked)


def group(name: str, *shapes: Shape, priority: int = 0, ready: float = 0.0) -> WaitingGroup:
    tasks = tuple(task(f"{name}.{i}", of) for i, of in enumerate(shapes))
    return WaitingGroup(name, tasks, priority, ready)


def scheduler(state: State, strategy: Strategy = flow, *policies: Policy | Weighted) -> Optimiser:
    chosen = [p if isinstance(p, Weighted) else Weighted(p) for p in policies or (CpuMemory(),)]
    return Optimiser(state, [(QueueRules(), strategy)], constraints(), chosen)


def decide(state: State, *groups: WaitingGroup, strategy: Strategy = flow) -> Round:
    return scheduler(state, strategy).decide(state, groups)


def by_machine(placements: Sequence[Placement]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for placement in placements:
        found.setdefault(placement.machine, []).append(placement.task.name)
    return {name: sorted(tasks) for name, tasks in sorted(found.items())}
