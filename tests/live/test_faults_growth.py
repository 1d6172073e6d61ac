"""Pods come and go; the state that the process keeps of them does not grow."""

import asyncio
import gc
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pod_bursts import numbered_pods, pod
from scheduler_process import LEASE, NAMESPACE
from testbed import ControlPlane, Manifest

from afflux.admit.strategies import flow
from afflux.cluster.state import State
from afflux.cycle.loop import Cycle
from afflux.cycle.optimiser import Optimiser
from afflux.kube import objects
from afflux.kube.api.client import Api
from afflux.kube.api.kubeconfig import read_kubeconfig
from afflux.kube.live import process
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints, make_policy
from afflux.queue.rules import QueueRules

# Stories of 5 to 30 s each.
pytestmark = pytest.mark.long

WAVES = 4
PLACEABLE = 450
# Fewer pods that wait until they are deleted.
UNPLACEABLE = 50
# Sizes may differ by this even when idle: array pages, queued events.
SLACK = 60
# Bounded containers with large bounds.
BOUNDED = (
    "._recorder._sent",
    "._pod_conditions._written",
    "._announcements._waits",
    ".ended_pods._uids",
    ".ended_pods._departed",
    ".ended_pods._departed[]",
)

OPTIONS = process.Options(
    scheduler_names=("afflux",),
    election=process.LeaderElectionOptions(NAMESPACE, LEASE, 60.0, 50.0, 0.5),
    serving=process.ServingOptions("127.0.0.1", 0),
)


def test_two_thousand_pods_leave_no_state_behind(cluster: ControlPlane, rights: Path) -> None:
    """Compares the container sizes inside a leader and inside a waiting replica between waves."""
    # Whether the pods run does not matter here.
    cluster.kill("machines")
    cluster.create_nodes(20)
    sizes = asyncio.run(_waves(cluster, rights))
    gc.unfreeze()
    first, last = sizes[0], sizes[-1]
    assert len(first) > 100, "the census found no containers"
    grown = {
        path: (first[path], size)
        for path, size in last.items()
        if size > first[path] + SLACK and not path.endswith(BOUNDED)
    }
    assert grown == {}


async def _waves(cluster: ControlPlane, rights: Path) -> list[Counter[str]]:
    sizes: list[Counter[str]] = []
    async with (
        asyncio.timeout(240),
        _process(rights) as leader,
        asyncio.TaskGroup() as group,
        _process(rights) as other,
    ):
        tasks = [group.create_task(leader.run())]
        await _until(lambda: leader._leader_election.holder == leader._leader_election.identity)
        tasks.append(group.create_task(other.run()))
        for wave in range(WAVES):
            await asyncio.to_thread(cluster.create_pods, _wave(wave))
            await _until(lambda: sum(map(_is_bound, leader._reader.pods)) == PLACEABLE)
            path = "/api/v1/namespaces/default/pods"
            await asyncio.to_thread(cluster.api.delete, path, gracePeriodSeconds=0)
            for each in (leader, other):
                await _until(lambda each=each: len(each._reader.pods) == 0)
            await _until(lambda: len(leader._reader.changes) == 0)
            await _until(lambda: len(leader._recorder._write_queue) == 0)
            sizes.append(census(leader, "leader") + census(other, "other"))
        for task in tasks:
            task.cancel()
    return sizes


def _wave(wave: int) -> list[Manifest]:
    """Pods of many shapes that are placed, and some that are never placed."""
    placed = [
        pod(f"wave-{wave}-{number}", f"{10 + (wave * 7 + number) % 90}m", labels={"n": str(number)})
        for number in range(PLACEABLE)
    ]
    return placed + numbered_pods(UNPLACEABLE, f"never-{wave}", cpu="9999")


def _is_bound(pod: objects.Pod) -> bool:
    return bool(pod.spec.node_name)


@asynccontextmanager
async def _process(rights: Path) -> AsyncIterator[process._Process]:
    state = State()
    policies = {"afflux": [Weighted(make_policy("cpu-memory", {}, "test"), 1)]}
    optimising = Optimiser(state, [(QueueRules(), flow)], constraints(), policies)
    connection = read_kubeconfig(str(rights))
    async with Api(connection, connections=96) as api, Api(connection, connections=2) as lease_api:
        yield process._Process(
            api, lease_api, Cycle(state, optimising), OPTIONS, ledger=None, inspection=None
        )


async def _until(happened: Callable[[], bool]) -> None:
    while not happened():
        await asyncio.sleep(0.02)


# --- Container sizes


def census(root: object, name: str) -> Counter[str]:
    """The size of every container that is reachable from `root`, by attribute path."""
    sizes: Counter[str] = Counter()
    seen: set[int] = set()
    waiting: list[tuple[str, object]] = [(name, root)]
    while waiting:
        path, thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, np.ndarray):
            sizes[path] += thing.size
        elif isinstance(thing, dict | list | tuple | set | frozenset | deque):
            sizes[path] += len(thing)
            inside = thing.values() if isinstance(thing, dict) else thing
            waiting += [(f"{path}[]", each) for each in inside]
        elif type(thing).__module__.startswith("afflux."):
            waiting += [(f"{path}.{field}", value) for field, value in _fields(thing)]
    return sizes


def _fields(thing: object) -> Iterator[tuple[str, Any]]:
    if type(thing).__module__ == "afflux.kube.objects":
        return
    yield from getattr(thing, "__dict__", {}).items()
    for kind in type(thing).__mro__:
        for field in getattr(kind, "__slots__", ()):
            if hasattr(thing, field):
                yield field, getattr(thing, field)
