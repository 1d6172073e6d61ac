"""A cluster without an API server: pods and nodes as a watch brings them, and the door's parts."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from small_api import SmallApi, serving

from afflux.app import scheduler
from afflux.cluster.state import State
from afflux.config import parse_spec
from afflux.cycle.loop import Cycle, Outcome
from afflux.cycle.ports import Ledger
from afflux.kube import objects
from afflux.kube.decoding import KUBERNETES_SCHEDULER
from afflux.kube.live.keeping import Keeping, WhenAway
from afflux.kube.live.leasing import Term
from afflux.kube.live.mirror import Mirror

NOW = 1_763_236_800.0


def pod(
    name: str,
    group: str | None = None,
    size: int | str = 2,
    *,
    node: str | None = None,
    version: int = 1,
    created: int = 0,
    cpu: str = "1",
    uid: str | None = None,
    **more: Any,
) -> objects.Pod:
    """A pod of the namespace default, of a group if one is named."""
    labels = {"afflux.dev/group-name": group, "afflux.dev/group-size": str(size)} if group else {}
    found = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid or f"uid-{name}",
            "labels": labels,
            "creationTimestamp": f"2025-11-15T20:00:{created:02}Z",
            "resourceVersion": str(version),
            **more.pop("metadata", {}),
        },
        "spec": {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
            **({"nodeName": node} if node else {}),
            **more.pop("spec", {}),
        },
        **more,
    }
    return msgspec.json.decode(json.dumps(found), type=objects.Pod)


def node(name: str, cpu: int = 8) -> objects.Node:
    capacity = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
    found = {
        "metadata": {"name": name, "resourceVersion": "1"},
        "status": {
            "allocatable": capacity,
            "capacity": capacity,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    return msgspec.json.decode(json.dumps(found), type=objects.Node)


class Door:
    """One leader's parts; time stands still unless somebody moves it."""

    def __init__(self, ledger: Ledger, api: SmallApi, when_away: WhenAway = "wait") -> None:
        self.now = NOW
        self.mirror = Mirror([KUBERNETES_SCHEDULER])
        state = State()
        self.cycle = Cycle(state, scheduler(parse_spec("cpu-memory@fcfs"), state))
        self.server = api
        self._api = api.api()
        self.keeping = Keeping(
            ledger,
            self.mirror,
            self._api,
            scheduler_names=[KUBERNETES_SCHEDULER],
            when_away=when_away,
            now_seconds=lambda: self.now,
        )
        self.writing: asyncio.Task[None] | None = None

    async def begin(
        self,
        nodes: Sequence[objects.Node] = (),
        pods: Sequence[objects.Pod] = (),
        term: Term | None = None,
        lease_seconds: float = 0.0,
    ) -> None:
        """This is what the first lists say."""
        self.mirror.nodes.replaced(nodes)
        self.mirror.pods.replaced(pods)
        await self.keeping.begin(self.cycle, term, lease_seconds)
        self.writing = asyncio.create_task(self.keeping.run())

    async def once(self) -> Outcome:
        """One cycle, up to the moment at which binds may be sent."""
        outcome = self.decide()
        await self.keeping.decided(outcome)
        return outcome

    def decide(self) -> Outcome:
        """One cycle, up to the moment at which the ledger has to hear of it."""
        events = self.mirror.drain()
        self.keeping.observe(events, self.mirror.gathering.take_held_back())
        outcome = self.cycle.run(events, self.now)
        self.mirror.assume(outcome.placements)
        return outcome

    async def settled(self) -> Outcome:
        """One cycle, and everything is written."""
        outcome = await self.once()
        if outcome.round is not None:
            self.keeping.explained(self.cycle.explain(), outcome)
        await self.keeping.written()
        return outcome

    def bound(self, outcome: Outcome, version: int = 2) -> None:
        """Every bind succeeds, and the watch says so."""
        for placement in outcome.placements:
            self.keeping.settled(placement, "bound")
            known = self.mirror.pods.get(placement.task.name)
            assert known is not None
            metadata = msgspec.structs.replace(known.metadata, resource_version=str(version))
            spec = msgspec.structs.replace(known.spec, node_name=placement.machine)
            self.mirror.pods.changed(msgspec.structs.replace(known, metadata=metadata, spec=spec))


@asynccontextmanager
async def door(ledger: Ledger, when_away: WhenAway = "wait") -> AsyncIterator[Door]:
    """A door, and an API server that knows no pod unless it is told."""
    async with serving() as server:
        one = Door(ledger, server, when_away)
        async with one._api:
            try:
                yield one
            finally:
                if one.writing is not None:
                    one.writing.cancel()
                    await asyncio.wait({one.writing})
                    if not one.writing.cancelled():
                        one.writing.exception()
