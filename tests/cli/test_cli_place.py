"""afflux place: where the pending pods of a cluster would go, and why the others wait."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster_manifests import Manifest, gang, listed, node, pod, write
from run_afflux import Afflux, Answer

GPU = "example.com/gpu"
NO_SCHEDULE = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}


@pytest.fixture
def place(afflux: Afflux, tmp_path: Path) -> Callable[..., Any]:
    """The JSON answer about a cluster of these objects."""

    def call(*items: Manifest, flags: tuple[str, ...] = ()) -> Any:
        file = write(tmp_path / "cluster.json", *items)
        return afflux("place", file, "-o", "json", *flags).json

    return call


def where(answer: Any) -> dict[str, str]:
    return {entry["pod"]: entry["node"] for entry in answer["placements"]}


def why(answer: Any) -> dict[str, str]:
    return {entry["pod"]: entry["reason"] for entry in answer["waiting"]}


# --- The JSON output


def test_json_has_exactly_the_documented_shape(place: Callable[..., Any]) -> None:
    assert place(node("n1"), pod("web"), pod("big", cpu="64")) == {
        "version": 1,
        "placements": [{"pod": "shop/web", "node": "n1"}],
        "waiting": [{"pod": "shop/big", "reason": "0/1 nodes are available: 1 Insufficient cpu."}],
        "evictions": [],
        "nominated": [],
    }


def test_explain_adds_a_verdict_of_every_node_on_every_pending_pod(
    place: Callable[..., Any],
) -> None:
    answer = place(node("n1"), node("n2", cpu="500m"), pod("web"), flags=("--explain",))
    assert answer == {
        "version": 1,
        "placements": [{"pod": "shop/web", "node": "n1"}],
        "waiting": [],
        "evictions": [],
        "nominated": [],
        "verdicts": {
            "shop/web": {
                "n1": {"fits": True, "reasons": []},
                "n2": {"fits": False, "reasons": ["Insufficient cpu"]},
            }
        },
    }


def test_verdicts_are_from_before_the_round_and_reasons_from_after_it(
    place: Callable[..., Any],
) -> None:
    # Either pod fits alone; the second finds the node full once the first has been placed.
    answer = place(node("n1"), pod("a", cpu="3"), pod("b", cpu="3"), flags=("--explain",))
    assert {name: v["n1"]["fits"] for name, v in answer["verdicts"].items()} == {
        "shop/a": True,
        "shop/b": True,
    }
    assert len(answer["placements"]) == 1
    assert list(why(answer).values()) == ["0/1 nodes are available: 1 Insufficient cpu."]


# --- Messages of kube-scheduler

REFUSALS = [
    (node("n1", cpu="1"), pod("p", cpu="2"), ["Insufficient cpu"]),
    (node("n1", memory="1Gi"), pod("p", memory="2Gi"), ["Insufficient memory"]),
    (
        node("n1", extended={"ephemeral-storage": "1Gi"}),
        pod("p", extended={"ephemeral-storage": "2Gi"}),
        ["Insufficient ephemeral-storage"],
    ),
    (node("n1", extended={GPU: "1"}), pod("p", extended={GPU: "2"}), [f"Insufficient {GPU}"]),
    (node("n1"), pod("p", extended={GPU: "1"}), [f"Insufficient {GPU}"]),
    (node("n1", pods="0"), pod("p"), ["Too many pods"]),
    (
        node("n1", cpu="1", memory="1Gi", pods="0"),
        pod("p", cpu="2", memory="2Gi"),
        ["Too many pods", "Insufficient cpu", "Insufficient memory"],
    ),
    (node("n1", unschedulable=True), pod("p"), ["node(s) were unschedulable"]),
    (node("n1", taints=[NO_SCHEDULE]), pod("p"), ["node(s) had untolerated taint(s)"]),
    (
        node("n1"),
        pod("p", nodeSelector={"disk": "ssd"}),
        ["node(s) didn't match Pod's node affinity/selector"],
    ),
    # Later filters do not see a node that an earlier filter refused.
    (node("n1", cpu="1", unschedulable=True), pod("p", cpu="2"), ["node(s) were unschedulable"]),
]


@pytest.mark.parametrize(("machine", "task", "reasons"), REFUSALS, ids=lambda v: str(v)[-40:])
def test_reasons_are_in_the_words_of_kube_scheduler(
    place: Callable[..., Any], machine: Manifest, task: Manifest, reasons: list[str]
) -> None:
    answer = place(machine, task, flags=("--explain",))
    assert answer["verdicts"]["shop/p"]["n1"] == {"fits": False, "reasons": reasons}
    counted = ", ".join(sorted(f"1 {reason}" for reason in reasons))
    assert why(answer) == {"shop/p": f"0/1 nodes are available: {counted}."}


def test_the_summary_counts_reasons_and_sorts_them_as_text(place: Callable[..., Any]) -> None:
    answer = place(
        *(node(f"small-{i:02d}", cpu="1") for i in range(10)),
        node("full-1", cpu="1", pods="0"),
        node("full-2", pods="0"),
        node("away", unschedulable=True),
        pod("p", cpu="2"),
    )
    assert why(answer)["shop/p"] == (
        "0/13 nodes are available: 1 node(s) were unschedulable, 11 Insufficient cpu,"
        " 2 Too many pods."
    )


# --- Constraints


def test_running_pods_of_any_scheduler_take_up_capacity(place: Callable[..., Any]) -> None:
    other = pod("other", cpu="3", on="n1", schedulerName="another-scheduler")
    assert why(place(node("n1"), other, pod("p", cpu="2"))) == {
        "shop/p": "0/1 nodes are available: 1 Insufficient cpu."
    }


def test_finished_pods_take_up_nothing(place: Callable[..., Any]) -> None:
    done = pod("done", cpu="4", on="n1")
    done["status"]["phase"] = "Succeeded"
    assert where(place(node("n1"), done, pod("p", cpu="4"))) == {"shop/p": "n1"}


def test_running_pods_are_not_pending(place: Callable[..., Any]) -> None:
    answer = place(node("n1"), pod("there", on="n1"), flags=("--explain",))
    assert (answer["placements"], answer["waiting"], answer["verdicts"]) == ([], [], {})


def test_a_running_pod_may_hold_a_resource_that_its_node_does_not_offer(
    place: Callable[..., Any],
) -> None:
    answer = place(node("n1"), pod("odd", on="n1", extended={GPU: "1"}), pod("p"))
    assert where(answer) == {"shop/p": "n1"}


def test_an_exact_fit_fits(place: Callable[..., Any]) -> None:
    answer = place(node("n1", cpu="2", memory="2Gi", pods="2"), pod("a"), pod("b"))
    assert where(answer) == {"shop/a": "n1", "shop/b": "n1"}


def test_the_pod_limit_of_each_node_holds(place: Callable[..., Any]) -> None:
    answer = place(node("n1", pods="2"), node("n2", pods="1"), *(pod(f"p{i}") for i in range(5)))
    nodes = sorted(where(answer).values())
    assert nodes == ["n1", "n1", "n2"]
    assert set(why(answer).values()) == {"0/2 nodes are available: 2 Too many pods."}


def test_higher_priority_goes_first(place: Callable[..., Any]) -> None:
    answer = place(node("n1"), pod("low", cpu="3"), pod("high", cpu="3", priority=1000))
    assert where(answer) == {"shop/high": "n1"}


def test_tolerations_selectors_and_affinity_are_honoured(place: Callable[..., Any]) -> None:
    tolerated = [{"key": "dedicated", "operator": "Exists"}]
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    answer = place(
        node("db", taints=[NO_SCHEDULE], labels={"zone": "a"}),
        node("b", labels={"zone": "b"}),
        pod("tolerant", tolerations=tolerated, nodeSelector={"zone": "a"}),
        pod("picky", affinity={"nodeAffinity": required}),
        pod("plain"),
    )
    assert where(answer) == {"shop/tolerant": "db", "shop/picky": "b", "shop/plain": "b"}


def test_gangs_are_placed_whole(place: Callable[..., Any]) -> None:
    answer = place(node("n1"), node("n2"), *gang("train", 4, cpu="2"))
    assert sorted(where(answer).values()) == ["n1", "n1", "n2", "n2"]


def test_gangs_are_placed_whole_or_not_at_all(place: Callable[..., Any]) -> None:
    answer = place(node("n1"), node("n2"), *gang("train", 5, cpu="2"), flags=("--explain",))
    assert answer["placements"] == []
    assert len(answer["waiting"]) == 5
    assert all("train" in reason and "5" in reason for reason in why(answer).values())
    assert all(v["n1"]["fits"] for v in answer["verdicts"].values()), "each alone would fit"


def test_a_gang_that_cannot_start_leaves_its_room_to_others(place: Callable[..., Any]) -> None:
    answer = place(node("n1"), *gang("train", 3, cpu="2"), pod("web", cpu="4"))
    assert where(answer) == {"shop/web": "n1"}


def test_a_group_waits_for_its_members(place: Callable[..., Any]) -> None:
    members = gang("train", 3)[:2]
    reasons = why(place(node("n1"), *members))
    assert list(reasons) == ["shop/train-0", "shop/train-1"]
    assert all("train" in reason and "3" in reason for reason in reasons.values())


def test_a_constraint_that_is_not_enforced_makes_the_pod_wait_and_is_named(
    place: Callable[..., Any],
) -> None:
    claiming = pod("claiming", resourceClaims=[{"name": "gpu"}])
    answer = place(node("n1"), claiming, flags=("--explain",))
    assert answer["placements"] == []
    assert why(answer) == {"shop/claiming": "spec.resourceClaims is not supported yet"}
    assert list(answer["verdicts"]) == ["shop/claiming"]


def test_a_limit_beside_a_request_does_not_matter(place: Callable[..., Any]) -> None:
    generous = pod("web")
    generous["spec"]["containers"][0]["resources"]["limits"] = {"memory": "9223372036854771712"}
    assert where(place(node("n1"), generous)) == {"shop/web": "n1"}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"hostNetwork": True, "hostUsers": False}, "spec.hostUsers"),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {
                                    "matchExpressions": [
                                        {"key": "a", "operator": "NotIn", "values": ["-bad-"]}
                                    ]
                                }
                            ]
                        }
                    }
                }
            },
            "matchExpressions[0].values",
        ),
    ],
)
def test_unsupported_or_unmatched_constraints_make_a_pod_wait(
    place: Callable[..., Any], spec: dict[str, Any], field: str
) -> None:
    assert field in why(place(node("n1"), pod("web", **spec)))["shop/web"]


def test_a_constraint_that_is_not_enforced_fits_no_node(place: Callable[..., Any]) -> None:
    held = pod("web", schedulingGates=[{"name": "quota"}])
    verdict = place(node("n1"), held, flags=("--explain",))["verdicts"]["shop/web"]["n1"]
    assert verdict["fits"] is False
    assert "schedulingGates" in verdict["reasons"][0]


def test_without_nodes_all_pods_wait(place: Callable[..., Any]) -> None:
    answer = place(pod("p"), flags=("--explain",))
    assert why(answer) == {"shop/p": "no nodes available to schedule pods"}
    assert answer["verdicts"] == {"shop/p": {}}


def test_without_pods_there_is_nothing_to_do(place: Callable[..., Any], afflux: Afflux) -> None:
    answer = place(node("n1"))
    assert (answer["placements"], answer["waiting"]) == ([], [])


def test_the_same_input_gives_the_same_answer(place: Callable[..., Any]) -> None:
    cluster = [*(node(f"n{i}") for i in range(5)), *(pod(f"p{i}") for i in range(30))]
    assert place(*cluster) == place(*cluster)


# --- Inputs


def manifests() -> list[Manifest]:
    return [node("n1"), pod("a"), pod("b", cpu="64")]


def as_documents(items: list[Manifest]) -> str:
    return yaml.safe_dump_all(items)


def as_nested_list(items: list[Manifest]) -> str:
    inner = [{"apiVersion": "v1", "kind": "PodList", "items": items[1:]}]
    return yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [*items[:1], *inner]})


@pytest.mark.parametrize(
    "content",
    [
        listed(*manifests()),
        as_documents(manifests()),
        as_nested_list(manifests()),
        "\n".join(json.dumps(item) for item in manifests()),
        "\ufeff" + listed(*manifests()),
    ],
    ids=["JSON list", "YAML documents", "nested lists", "JSON texts", "byte order mark"],
)
def test_equivalent_inputs_give_the_same_answer(
    afflux: Afflux, typed: Callable[[str], None], content: str
) -> None:
    typed(content)
    answer = afflux("place", "-", "-o", "json").json
    assert where(answer) == {"shop/a": "n1"}
    assert list(why(answer)) == ["shop/b"]


def test_several_files_are_one_cluster(
    afflux: Afflux, tmp_path: Path, typed: Callable[[str], None]
) -> None:
    nodes = write(tmp_path / "nodes.json", node("n1"))
    typed(as_documents([pod("a")]))
    assert where(afflux("place", nodes, "-", "-o", "json").json) == {"shop/a": "n1"}


def test_objects_of_other_kinds_are_ignored_with_a_note(afflux: Afflux, tmp_path: Path) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    answer = afflux("place", write(tmp_path / "c.json", node("n1"), secret, pod("a")), "-ojson")
    assert where(answer.json) == {"shop/a": "n1"}
    assert answer.err == "afflux place: note: ignored objects that do not matter here: 1 Secret\n"


# --- Tables


def table_of(afflux: Afflux, path: Path, *flags: str) -> Answer:
    answer = afflux("place", path, *flags)
    assert answer.code == 0
    return answer


def test_the_default_output_is_a_table(afflux: Afflux, tmp_path: Path) -> None:
    cluster = write(tmp_path / "c.json", node("n1"), pod("web"), pod("database", cpu="64"))
    assert table_of(afflux, cluster).out == (
        "POD       NODE\n"
        "shop/web  n1\n"
        "\n"
        "WAITING        REASON\n"
        "shop/database  0/1 nodes are available: 1 Insufficient cpu.\n"
    )


def test_reasons_of_different_length_begin_in_the_same_column(
    afflux: Afflux, tmp_path: Path
) -> None:
    cluster = write(
        tmp_path / "c.json", node("n1"), pod("a", cpu="9"), pod("b", cpu="9", memory="99Gi")
    )
    lines = table_of(afflux, cluster).out.splitlines()
    assert {
        line.index("REASON" if number == 0 else "0/1") for number, line in enumerate(lines)
    } == {len("WAITING  ")}


def test_explain_adds_a_table_per_pod(afflux: Afflux, tmp_path: Path) -> None:
    cluster = write(tmp_path / "c.json", node("n1"), node("n2", cpu="0", pods="0"), pod("web"))
    assert table_of(afflux, cluster, "--explain").out == (
        "POD       NODE\n"
        "shop/web  n1\n"
        "\n"
        "shop/web: 1 of 2 nodes had room before the round\n"
        "  NODE  VERDICT\n"
        "  n1    fits\n"
        "  n2    Too many pods; Insufficient cpu\n"
    )


def test_the_table_says_when_no_pods_are_pending(afflux: Afflux, tmp_path: Path) -> None:
    assert table_of(afflux, write(tmp_path / "c.json", node("n1"))).out == "No pending pods.\n"


# --- Choosing the scheduler


def test_options_select_policies_and_strategy(place: Callable[..., Any]) -> None:
    cluster = [node("n1"), node("n2"), *(pod(f"p{i}", cpu="100m") for i in range(4))]
    answer = place(*cluster, flags=("--policy", "load-spreading"))
    assert sorted(where(answer).values()) == ["n1", "n1", "n2", "n2"]


def test_under_fcfs_no_pod_passes_the_first_that_does_not_fit(place: Callable[..., Any]) -> None:
    created = [pod("never", cpu="64"), pod("first", cpu="4"), pod("second")]
    for minute, manifest in enumerate(created):
        manifest["metadata"]["creationTimestamp"] = f"2026-01-01T00:0{minute}:00Z"
    busy = pod("busy", nodeName="n1")
    assert where(place(node("n1"), busy, *created)) == {"shop/second": "n1"}
    assert where(place(node("n1"), busy, *created, flags=("--strategy", "fcfs"))) == {}


def test_the_reason_says_if_a_pod_waits_only_for_pods_ahead_of_it(
    place: Callable[..., Any],
) -> None:
    answer = place(
        node("n1"),
        pod("busy", nodeName="n1"),
        pod("big", cpu="4", priority=9),
        pod("web"),
        flags=("--strategy", "fcfs"),
    )
    assert why(answer)["shop/web"] == "behind others in the queue; 1/1 nodes have room for it."


def test_a_configuration_file_selects_policies_and_strategy(
    place: Callable[..., Any], tmp_path: Path
) -> None:
    config = tmp_path / "afflux.yaml"
    config.write_text(
        "apiVersion: afflux.dev/v1alpha1\nkind: AffluxConfiguration\nstrategy: fcfs\n"
        "policies: [{name: load-spreading, weight: 3}, {name: cpu-memory, args: {omega: 10}}]\n"
    )
    answer = place(node("n1"), pod("p"), flags=("--config", str(config)))
    assert where(answer) == {"shop/p": "n1"}


# --- Reservations


def test_the_expected_start_is_shown_or_unknown_behind_work_without_end(
    place: Callable[..., Any], afflux: Afflux, tmp_path: Path
) -> None:
    running = pod("up", cpu="4", on="n1", activeDeadlineSeconds=600)
    running["status"]["startTime"] = "2199-01-01T00:00:00Z"
    service = pod("service", cpu="4", on="n2")
    pinned = {"nodeSelector": {"disk": "ssd"}}
    items = (
        node("n1", labels={"disk": "ssd"}),
        node("n2"),
        running,
        service,
        pod("head", cpu="4", activeDeadlineSeconds=60, **pinned),
        pod("late", cpu="4", activeDeadlineSeconds=60, **pinned),
        *gang("both", 2, cpu="4", activeDeadlineSeconds=60),
        pod("never", cpu="64"),
    )
    answer = place(*items, flags=("--strategy", "conservative"))
    starts = {entry["pod"]: entry.get("expectedStart") for entry in answer["waiting"]}
    assert starts == {
        "shop/head": "2199-01-01T00:10:30Z",
        "shop/late": "2199-01-01T00:12:00Z",
        "shop/both-0": "unknown",
        "shop/both-1": "unknown",
        "shop/never": None,
    }
    file = write(tmp_path / "cluster.json", *items)
    lines = afflux("place", file, "--strategy", "conservative").out.splitlines()
    header = next(line for line in lines if line.startswith("WAITING"))
    assert "EXPECTED START" in header
    assert any(line.startswith("shop/both-0") and " unknown " in line for line in lines)
    # Without reservations there is no column for them.
    assert "EXPECTED START" not in afflux("place", file).out


def test_running_pods_without_a_run_time_get_the_default_of_their_queue(
    place: Callable[..., Any], tmp_path: Path
) -> None:
    config = tmp_path / "afflux.yaml"
    config.write_text(
        "apiVersion: afflux.dev/v1alpha1\nkind: AffluxConfiguration\n"
        "strategy: easy\nqueues: [{name: default, defaultDuration: 10m}]\n"
    )

    def expected(scheduler: str) -> str:
        running = pod("up", cpu="4", on="n1", schedulerName=scheduler)
        running["status"]["startTime"] = "2199-01-01T00:00:00Z"
        answer = place(node("n1"), running, pod("head", cpu="4"), flags=("--config", str(config)))
        return answer["waiting"][0]["expectedStart"]

    assert expected("afflux") == "2199-01-01T00:10:00Z"
    assert expected("another") == "unknown"
