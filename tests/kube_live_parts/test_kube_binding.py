"""Binds, and a server with absurd wishes."""

import asyncio
import json

import msgspec
import pytest
from small_api import Fault, Request, run, serving, until

from afflux.kube import objects
from afflux.kube.live import binding
from afflux.kube.live.mirror import Mirror
from afflux.model.placement import Placement
from afflux.model.resources import resources
from afflux.model.task import Shape, Task
from afflux.web.metrics import Metrics


class Told:
    """What became of the binds."""

    def __init__(self) -> None:
        self.bound_pods: list[str] = []

    def bound(self, placement: Placement, seconds: float) -> None:
        self.bound_pods.append(placement.task.name)

    def not_bound(self, placement: Placement, seconds: float) -> None:
        raise AssertionError(placement)


class NothingToPrepare:
    def concerns(self, pod: objects.Pod) -> bool:
        return False

    async def prepare(self, pod: objects.Pod, placement: Placement) -> str | None:
        raise AssertionError(pod)


def cluster() -> tuple[Mirror, Placement]:
    """A node, a pod, and the decision to bring them together."""
    mirror = Mirror(["afflux"])
    metadata = {"name": "p", "namespace": "default", "uid": "u"}
    spec = {"schedulerName": "afflux", "containers": [{"name": "c"}]}
    pod = json.dumps({"metadata": metadata, "spec": spec})
    mirror.pods.changed(msgspec.json.decode(pod, type=objects.Pod))
    mirror.nodes.changed(msgspec.json.decode('{"metadata": {"name": "n"}}', type=objects.Node))
    return mirror, Placement(Task("u", "default/p", Shape(resources({}))), "n")


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_asks_for_a_year_of_patience_is_asked_again_before(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(binding, "LONGEST_PATIENCE_SECONDS", 0.1)

    async def test() -> None:
        mirror, placement = cluster()
        told = Told()
        async with serving() as server, server.api() as api:
            answers = [Fault(status=status, retry_after="31536000"), Fault()]

            def fault(request: Request) -> Fault:
                return answers.pop(0) if len(answers) > 1 else answers[0]

            server.fault = fault
            hands = binding.Binding(
                api,
                mirror,
                told,
                metrics=Metrics(),
                may_bind=lambda: True,
                parallelism=2,
                preparing=NothingToPrepare(),
            )
            working = asyncio.create_task(hands.run())
            hands.start([placement])
            await until(lambda: told.bound_pods == ["default/p"])
            working.cancel()
            await asyncio.wait({working})
        assert len(server.requests) == 2

    run(test)
