"""afflux place: which running pods are evicted for waiting ones."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.cluster_manifests import Manifest, gang, node, pod, write
from cli.run_afflux import Afflux


def priority_class(name: str, value: int, **fields: Any) -> Manifest:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**kind, "metadata": {"name": name}, "value": value, **fields}


def budget(name: str, app: str, **spec: Any) -> Manifest:
    status = {"status": {"disruptionsAllowed": n}} if (n := spec.pop("allowed", None)) else {}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
        **status,
    }


HIGH = priority_class("high", 1000)


@pytest.fixture
def place(afflux: Afflux, tmp_path: Path) -> Callable[..., Any]:
    """The JSON answer about a cluster of these objects."""

    def call(*items: Manifest, flags: tuple[str, ...] = ()) -> Any:
        file = write(tmp_path / "cluster.json", *items)
        return afflux("place", file, "-o", "json", *flags).json

    return call


def test_a_higher_priority_evicts_a_lower_one(place: Callable[..., Any]) -> None:
    low = pod("low", cpu="4", on="n1")
    answer = place(node("n1"), HIGH, low, pod("high", cpu="4", priorityClassName="high"))
    assert answer["evictions"] == [
        {"pod": "shop/low", "node": "n1", "cause": "preempt", "for": ["shop/high"]}
    ]
    assert answer["nominated"] == [{"pod": "shop/high", "node": "n1"}]
    assert answer["placements"] == []
    (waiting,) = answer["waiting"]
    assert waiting["pod"] == "shop/high"
    assert "Nominated for n1" in waiting["reason"]
    assert "expectedStart" in waiting


@pytest.mark.parametrize("where", ["pod", "class"])
def test_a_pod_that_never_preempts_waits(place: Callable[..., Any], where: str) -> None:
    never = {"preemptionPolicy": "Never"}
    of = priority_class("never", 1000, **(never if where == "class" else {}))
    high = pod("high", priorityClassName="never", **(never if where == "pod" else {}))
    answer = place(node("n1"), of, pod("low", cpu="4", on="n1"), high)
    assert answer["evictions"] == answer["nominated"] == []


@pytest.mark.parametrize(
    "stated", [{"minAvailable": 1}, {"maxUnavailable": 0}, {"minAvailable": "50%"}]
)
def test_budgets_without_a_status_are_respected(
    place: Callable[..., Any], stated: dict[str, Any]
) -> None:
    protected = pod("protected", cpu="4", on="n1", labels={"app": "web"})
    other = pod("other", cpu="4", on="n2", priority=5)
    high = pod("high", priority=9)
    answer = place(node("n1"), node("n2"), budget("web", "web", **stated), protected, other, high)
    assert [each["pod"] for each in answer["evictions"]] == ["shop/other"]


def test_the_status_of_a_budget_counts(place: Callable[..., Any]) -> None:
    protected = pod("protected", cpu="4", on="n1", labels={"app": "web"})
    other = pod("other", cpu="4", on="n2", priority=5)
    allows = budget("web", "web", minAvailable=1, allowed=1)
    answer = place(node("n1"), node("n2"), allows, protected, other, pod("high", priority=9))
    assert [each["pod"] for each in answer["evictions"]] == ["shop/protected"]


def test_a_group_that_runs_leaves_as_a_whole(place: Callable[..., Any]) -> None:
    running = gang("old", 2, cpu="4")
    for number, each in enumerate(running):
        each["spec"]["nodeName"] = f"n{number}"
    answer = place(node("n0"), node("n1"), *running, pod("high", priority=9))
    assert {each["pod"] for each in answer["evictions"]} == {"shop/old-0", "shop/old-1"}
    assert all(each["for"] == ["shop/high"] for each in answer["evictions"])


@pytest.mark.parametrize(("mode", "victims"), [("single", 1), ("all", 2)])
def test_the_disruption_mode_of_a_native_group_is_respected(
    place: Callable[..., Any], mode: str, victims: int
) -> None:
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "old", "namespace": "shop"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {mode: {}}},
    }
    names = {"schedulingGroup": {"podGroupName": "old"}}
    running = [pod(f"old-{n}", cpu="4", on=f"n{n}", **names) for n in range(2)]
    answer = place(node("n0"), node("n1"), group, *running, pod("high", priority=9))
    assert len(answer["evictions"]) == victims


def test_a_gang_evicts_for_all_its_members_or_for_none(place: Callable[..., Any]) -> None:
    running = [pod(f"low-{n}", cpu="4", on=f"n{n}") for n in range(2)]
    nodes = [node("n0"), node("n1")]
    answer = place(*nodes, *running, *gang("new", 2, cpu="3", priority=9))
    assert len(answer["evictions"]) == len(answer["nominated"]) == 2
    answer = place(*nodes, *running, *gang("new", 3, cpu="3", priority=9))
    assert answer["evictions"] == answer["nominated"] == []


def test_a_pod_that_is_being_deleted_is_no_victim(place: Callable[..., Any]) -> None:
    leaving = pod("leaving", cpu="4", on="n1")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    answer = place(node("n1"), leaving, pod("high", priority=9))
    assert answer["evictions"] == []


def test_the_configuration_switches_it_off(place: Callable[..., Any], tmp_path: Any) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        "apiVersion: afflux.dev/v1alpha1\nkind: AffluxConfiguration\n"
        "profiles: [{preemption: {enabled: false}}]\n"
    )
    flags = ("--config", str(path))
    answer = place(node("n1"), pod("low", cpu="4", on="n1"), pod("high", priority=9), flags=flags)
    assert answer["evictions"] == answer["nominated"] == []
