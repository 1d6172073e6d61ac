"""Selectors, affinity and tolerations of tasks, with the quirks of unmodified clients."""

from typing import Any

import pytest

from afflux.rpc.proto.firmament import constraints_pb2 as constraints
from afflux.rpc.task_messages import described_task
from rpc.firmament_client import client_of, node, run, service, service_process, task

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_SELECTOR = constraints.LabelSelector

# What every recorded affinity term of an unmodified client carries.
_EMPTY_ENTRY = {"key": "", "value": ""}


def _places(*tasks: Any) -> dict[int, str]:
    """Where these tasks start on two machines that differ in their labels."""
    found: dict[int, str] = {}

    async def story():
        async with service() as client:
            zones = {"zone": "1", "disk": "ssd", "cores": "8"}, {"zone": "2", "cores": "4"}
            await client.add(node("a", labels=zones[0]), node("b", labels=zones[1]))
            for each in tasks:
                await client.submit(each)
                found.update((await client.schedule())[0])

    run(story())
    return found


@pytest.mark.parametrize(
    ("kind", "key", "values", "place"),
    [
        (_SELECTOR.IN_SET, "zone", ["2", "3"], "b-pu"),
        (_SELECTOR.NOT_IN_SET, "disk", ["ssd"], "b-pu"),
        (_SELECTOR.EXISTS_KEY, "disk", [], "a-pu"),
        (_SELECTOR.NOT_EXISTS_KEY, "disk", [], "b-pu"),
        (_SELECTOR.GREATER_THAN, "cores", ["4"], "a-pu"),
        (_SELECTOR.LESSER_THAN, "cores", ["8"], "b-pu"),
    ],
)
def test_label_selectors(kind: int, key: str, values: list[str], place: str):
    selector = {"type": kind, "key": key, "values": values}
    assert _places(task(1, label_selectors=[selector])) == {1: place}


def test_all_label_selectors_and_one_affinity_term_must_hold():
    def term(key: str, value: str) -> dict[str, Any]:
        return {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}

    affinity = {_REQUIRED: {"nodeSelectorTerms": [term("zone", "1"), term("zone", "2")]}}
    selector = {"key": "cores", "values": ["4"]}
    stated = task(1, label_selectors=[selector], affinity={"node_affinity": affinity})
    assert _places(stated) == {1: "b-pu"}
    contradiction = {"key": "cores", "values": ["5"]}
    stated = task(
        1, label_selectors=[selector, contradiction], affinity={"node_affinity": affinity}
    )
    assert _places(stated) == {}


def test_soft_affinity_arrives_with_an_empty_required_part_that_asks_for_nothing():
    preference = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["2"]}]}
    affinity = {_REQUIRED: {}, _PREFERRED: [{"weight": 100, "preference": preference}]}
    assert _places(task(1, affinity={"node_affinity": affinity})) == {1: "b-pu"}


@pytest.mark.parametrize("kind", ["pod_affinity", "pod_anti_affinity"])
def test_entries_with_an_empty_key_select_every_task_of_the_namespaces(kind: str):
    selector = {"matchLabels": _EMPTY_ENTRY}
    affinity = {kind: {_REQUIRED: [{"labelSelector": selector, "topologyKey": "zone"}]}}
    places = _places(task(1), task(2, affinity=affinity), task(3, affinity=affinity))
    assert (places[1] == places[2]) == (kind == "pod_affinity")
    assert (3 in places) == (kind == "pod_affinity")


@pytest.mark.parametrize("kind", ["pod_affinity", "pod_anti_affinity"])
def test_label_expressions_of_affinity_terms_are_kept(kind: str):
    expression = {"key": "app", "operator": "In", "values": ["web"]}
    selector = {"matchLabels": _EMPTY_ENTRY, "matchExpressions": [expression]}
    affinity = {kind: {_REQUIRED: [{"labelSelector": selector, "topologyKey": "zone"}]}}
    web = task(1, labels=[{"key": "app", "value": "web"}])
    places = _places(web, task(2, affinity=affinity))
    assert (places[1] == places[2]) == (kind == "pod_affinity")


def test_match_labels_with_a_key_select():
    selector = {"matchLabels": {"key": "app", "value": "web"}}
    affinity = {"pod_affinity": {_REQUIRED: [{"labelSelector": selector, "topologyKey": "zone"}]}}
    web = task(1, labels=[{"key": "app", "value": "web"}])
    assert _places(task(9, affinity=affinity)) == {}
    places = _places(web, task(2, affinity=affinity))
    assert places[1] == places[2]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (
            {"label_selectors": [{"type": 9, "key": "zone"}]},
            "task_descriptor.label_selectors[0].type: 9, expected",
        ),
        (
            {"label_selectors": [{"type": _SELECTOR.GREATER_THAN, "key": "n", "values": ["x"]}]},
            "task_descriptor.label_selectors[0].values: ",
        ),
        (
            {"tolerations": [{"key": "gpu", "operator": "Is"}]},
            "task_descriptor.tolerations[0].operator: 'Is' is not supported",
        ),
        (
            {"affinity": {"pod_affinity": {_REQUIRED: [{"topologyKey": ""}]}}},
            f"task_descriptor.affinity.pod_affinity.{_REQUIRED}[0].topologyKey: missing",
        ),
        (
            {"affinity": {"pod_anti_affinity": {_PREFERRED: [{"weight": 101}]}}},
            f"task_descriptor.affinity.pod_anti_affinity.{_PREFERRED}[0].weight: 101, expected",
        ),
        (
            {"affinity": {"node_affinity": {_PREFERRED: [{"weight": -1}]}}},
            f"task_descriptor.affinity.node_affinity.{_PREFERRED}[0].weight: -1, expected",
        ),
    ],
)
def test_a_constraint_that_cannot_be_read_makes_the_task_wait(fields: Any, reason: str):
    async def story():
        async with service_process() as process, client_of(process) as client:
            await client.add(node("a"))
            await client.submit(task(1, **fields))
            assert await client.schedule() == ({}, [1])
            (waiting,) = process.cluster.tasks.values()
            assert reason in waiting.status

    run(story())


def test_equal_tasks_have_one_shape_whatever_their_names_and_jobs():
    first, second = described_task(task(1), 1.0).task, described_task(task(2), 2.0).task
    assert first.shape is second.shape
    assert first.id != second.id
    assert first.labels is second.labels


def test_names_are_shown_as_the_client_writes_them():
    member = described_task(task(1, "default/web"), 1.0).member
    assert (member.namespace, member.name, member.task.name) == ("default", "web", "default/web")
