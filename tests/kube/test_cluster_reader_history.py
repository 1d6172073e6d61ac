"""ClusterReader: after random changes the cycle knows exactly the objects that exist."""

import json
from random import Random

import pytest
from fake_api_server import OURS, FakeApiServer, node, pod
from manifests import load

from oracles.held_tasks import held_tasks


class RandomChanges(FakeApiServer):
    """Random changes of the objects; the watch may miss some of them."""

    def __init__(self, seed=0):
        super().__init__()
        self.rng = Random(seed)
        self._uid = 0

    def new_uid(self):
        self._uid += 1
        return f"uid-{self._uid}"

    def random_step(self):
        rng = self.rng
        kind = rng.choice(("Node", "Pod", "Pod", "Pod"))
        names = list(self.items[kind])
        choice = rng.random()
        if choice < 0.05:
            self.cut[kind] = True
        elif choice < 0.1:
            self.relist(kind)
        elif choice < 0.25 and names:
            self.delete(kind, rng.choice(names))
        elif kind == "Node":
            self.put(
                node(
                    f"n{rng.randrange(4)}",
                    cpu=rng.choice(("2", "8")),
                    unschedulable=rng.random() < 0.3,
                )
            )
        elif choice < 0.6 or not names:
            self.put(self._random_pod())
        else:
            self._change_pod(self.items["Pod"][rng.choice(names)])
        if rng.random() < 0.4:
            self.take_events()

    def _random_pod(self):
        rng = self.rng
        labels = rng.choice(
            (
                {},
                {},
                {"afflux.dev/group-name": "g", "afflux.dev/group-size": "2"},
                {"afflux.dev/group-name": "p1", "afflux.dev/group-size": "2"},
                {"afflux.dev/group-name": "h", "afflux.dev/group-size": rng.choice("23x")},
            )
        )
        more = {}
        if rng.random() < 0.15:
            more["schedulingGates"] = [{"name": "later"}]
        if rng.random() < 0.1:
            more["topologySpreadConstraints"] = [{"maxSkew": 1}]
        if rng.random() < 0.1:
            more["affinity"] = {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "t", "labelSelector": {"matchLabels": {"a": "b"}}}
                    ]
                }
            }
        if rng.random() < 0.2:
            labels = {**labels, "a": "b"}
        return pod(
            f"p{rng.randrange(8)}",
            self.new_uid(),
            cpu=rng.choice(("500m", "1", "2")),
            labels=labels,
            scheduler=rng.choice((OURS, OURS, OURS, "another")),
            priority=rng.choice((0, 0, 5)),
            **more,
        )

    def _change_pod(self, manifest):
        rng, spec = self.rng, manifest["spec"]
        match rng.randrange(5):
            case 0 if not spec.get("nodeName"):
                spec["nodeName"] = f"n{rng.randrange(4)}"
                spec.pop("schedulingGates", None)
            case 1 if spec.get("nodeName"):
                manifest["status"] = {"phase": rng.choice(("Running", "Succeeded", "Failed"))}
            case 2:
                spec.pop("schedulingGates", None)
            case 3:
                manifest["metadata"]["labels"] = {}
            case _:
                manifest["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
        self.put(manifest)

    def expected(self):
        """The same objects, loaded at once from a file."""
        pods = [
            p
            for p in self.items["Pod"].values()
            if p["spec"]["schedulerName"] == OURS or p["spec"].get("nodeName")
        ]
        listed = {
            "apiVersion": "v1",
            "kind": "List",
            "items": [*self.items["Node"].values(), *pods],
        }
        return load([("objects", json.dumps(listed).encode())])


def cycle_knowledge(server):
    """Pods per machine, used CPU, waiting groups and held-back pods, as the cycle has them."""
    state = server.cycle.state
    used = {
        machine.name: sorted(
            name for name, held in server.reader._tracked.items() if held.node == machine.name
        )
        for _, machine in state.machines()
    }
    amounts = {m.name: state.view().used("cpu")[row] for row, m in state.machines()}
    groups = sorted(sorted(task.name for task in g.tasks) for g in server.cycle.queue)
    held = {task.name: hold.why for task, hold in held_tasks(server.reader.register)}
    return used, amounts, groups, held


def expected_knowledge(inventory):
    """The same of a loaded inventory."""
    used = {machine.name: [] for machine in inventory.machines}
    amounts = dict.fromkeys(used, 0)
    for task, machine in inventory.running:
        used[machine].append(task.name)
        amounts[machine] += dict(task.shape.requests)["cpu"]
    groups = sorted(sorted(task.name for task in g.tasks) for g in inventory.groups)
    held = {task.name: why for task, why in inventory.waiting}
    return {m: sorted(names) for m, names in used.items()}, amounts, groups, held


@pytest.mark.parametrize("batch", range(60))
def test_after_any_history_the_cycle_knows_the_objects_that_exist(batch):
    for seed in range(batch * 10, batch * 10 + 10):
        server = RandomChanges(seed)
        for _ in range(60):
            server.random_step()
        server.catch_up()
        if any(group.peak_bound > 1 for group in server.reader.register._groups.values()):
            # That a group was fully bound is not known after a restart: compare a restarted reader.
            assert cycle_knowledge(server)[:2] == expected_knowledge(server.expected())[:2], seed
            restarted = RandomChanges()
            restarted.items = server.items
            restarted.catch_up()
            server = restarted
        found, right = cycle_knowledge(server), expected_knowledge(server.expected())
        assert found[:3] == right[:3], seed
        # The reasons may name another pod, as they depend on the order of events.
        assert set(found[3]) == set(right[3]), seed
        assert server.take_events() == []
