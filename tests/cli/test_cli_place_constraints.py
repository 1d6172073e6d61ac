"""afflux place: pod affinity, pod anti-affinity and topology spread, from files."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cluster_manifests import Manifest, node, pod, write
from run_afflux import Afflux

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ZONES = {"n1": "a", "n2": "a", "n3": "b", "n4": "b"}

Place = Callable[..., Any]


@pytest.fixture
def place(afflux: Afflux, tmp_path: Path) -> Place:
    """The JSON answer about four nodes in two zones and these objects."""

    def call(*items: Manifest, flags: tuple[str, ...] = (), nodes: Any = None) -> Any:
        file = write(tmp_path / "cluster.json", *(nodes or in_zones()), *items)
        return afflux("place", file, "-o", "json", *flags).json

    return call


def in_zones(**fields: Any) -> list[Manifest]:
    return [
        node(name, labels={HOSTNAME: name, ZONE: zone}, **fields) for name, zone in ZONES.items()
    ]


def where(answer: Any) -> dict[str, str]:
    return {entry["pod"].removeprefix("shop/"): entry["node"] for entry in answer["placements"]}


def why(answer: Any) -> dict[str, str]:
    return {entry["pod"].removeprefix("shop/"): entry["reason"] for entry in answer["waiting"]}


def fits(answer: Any, name: str) -> list[str]:
    """The nodes that fit this pod before the round."""
    verdicts = answer["verdicts"][f"shop/{name}"]
    return [each for each, verdict in verdicts.items() if verdict["fits"]]


def term(key: str = ZONE, **labels: str) -> Manifest:
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}}


def near(*terms: Manifest) -> Manifest:
    return {"podAffinity": {REQUIRED: list(terms)}}


def apart(*terms: Manifest) -> Manifest:
    return {"podAntiAffinity": {REQUIRED: list(terms)}}


def spread(key: str = ZONE, **fields: Any) -> list[Manifest]:
    selector = {"matchLabels": {"app": "web"}}
    constraint = {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    return [{**constraint, "labelSelector": selector, **fields}]


WEB = {"app": "web"}


def test_affinity_brings_a_pod_into_the_domain_of_a_running_one(place: Place):
    running = pod("db", on="n3", labels={"app": "db"})
    answer = place(running, pod("web", affinity=near(term(app="db"))), flags=("--explain",))
    assert ZONES[where(answer)["web"]] == "b"
    assert fits(answer, "web") == ["n3", "n4"]
    reasons = answer["verdicts"]["shop/web"]["n1"]["reasons"]
    assert reasons == ["node(s) didn't match pod affinity rules"]


def test_two_pods_that_require_each_other_are_placed_together(place: Place):
    answer = place(
        pod("db", labels={"app": "db"}, affinity=near(term(app="web"))),
        pod("web", labels=WEB, affinity=near(term(app="db"))),
        flags=("--explain",),
    )
    placed = where(answer)
    assert ZONES[placed["db"]] == ZONES[placed["web"]]
    # Before the round neither of them fits: they need each other.
    assert fits(answer, "db") == fits(answer, "web") == []


def test_placements_come_in_an_order_in_which_they_can_be_bound(place: Place):
    webs = [pod(f"web{n}", labels=WEB, affinity=near(term(app="db"))) for n in range(3)]
    answer = place(*webs, pod("db", labels={"app": "db"}))
    assert answer["placements"][0]["pod"] == "shop/db"
    assert len(answer["placements"]) == 4


def test_affinity_that_nothing_meets_waits_with_its_reason(place: Place):
    answer = place(pod("web", affinity=near(term(app="db"))))
    assert "4 node(s) didn't match pod affinity rules" in why(answer)["web"]


def test_anti_affinity_keeps_the_pods_of_a_round_apart(place: Place):
    pods = [pod(f"web{i}", labels=WEB, affinity=apart(term(HOSTNAME, app="web"))) for i in range(5)]
    answer = place(*pods)
    assert sorted(where(answer).values()) == ["n1", "n2", "n3", "n4"]
    assert len(why(answer)) == 1


def test_anti_affinity_of_a_running_pod_keeps_others_out_of_its_domain(place: Place):
    lonely = pod("lonely", on="n1", affinity=apart(term(app="web")))
    answer = place(lonely, pod("web", labels=WEB), pod("other"), flags=("--explain",))
    assert fits(answer, "web") == ["n3", "n4"]
    assert len(fits(answer, "other")) == 4
    assert ZONES[where(answer)["web"]] == "b"
    reasons = answer["verdicts"]["shop/web"]["n2"]["reasons"]
    assert reasons == ["node(s) didn't satisfy existing pods anti-affinity rules"]


@pytest.mark.parametrize(
    ("scope", "repels"),
    [
        ({}, False),
        ({"namespaces": ["shop"]}, True),
        ({"namespaceSelector": {}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "x"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "y"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}}, True),
    ],
)
def test_terms_look_at_namespaces_and_their_labels(place: Place, scope: Any, repels: bool):
    lonely = pod("lonely", on="n1", affinity=apart({**term(app="web"), **scope}))
    lonely["metadata"]["namespace"] = "other"
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "shop", "labels": {"team": "x"}},
    }
    answer = place(lonely, namespace, pod("web", labels=WEB), flags=("--explain",))
    assert ("n1" not in fits(answer, "web")) == repels


def test_a_namespace_that_is_not_in_the_files_has_the_label_with_its_name(place: Place):
    by_name = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}}
    lonely = pod("lonely", on="n1", affinity=apart({**term(app="web"), **by_name}))
    answer = place(lonely, pod("web", labels=WEB), flags=("--explain",))
    assert fits(answer, "web") == ["n3", "n4"]


def test_spread_is_even_over_the_zones_of_a_round(place: Place):
    pods = [pod(f"web{i}", labels=WEB, topologySpreadConstraints=spread()) for i in range(6)]
    answer = place(*pods)
    assert Counter(ZONES[each] for each in where(answer).values()) == {"a": 3, "b": 3}


def test_spread_counts_running_pods_but_not_those_being_deleted(place: Place):
    running = [pod(f"old{i}", on="n1", labels=WEB) for i in range(2)]
    running[1]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    waiting = [pod(f"web{i}", labels=WEB, topologySpreadConstraints=spread()) for i in range(3)]
    answer = place(*running, *waiting, flags=("--explain",))
    assert Counter(ZONES[each] for each in where(answer).values()) == {"a": 1, "b": 2}
    assert fits(answer, "web0") == ["n3", "n4"]
    reasons = answer["verdicts"]["shop/web0"]["n1"]["reasons"]
    assert reasons == ["node(s) didn't match pod topology spread constraints"]


def test_a_node_without_the_topology_key_is_refused_by_a_spread_constraint(place: Place):
    nodes = [*in_zones(), node("bare")]
    waiting = pod("web", labels=WEB, topologySpreadConstraints=spread(matchLabelKeys=["absent"]))
    answer = place(waiting, nodes=nodes, flags=("--explain",))
    words = "node(s) didn't match pod topology spread constraints (missing required label)"
    assert answer["verdicts"]["shop/web"]["bare"]["reasons"] == [words]


def test_preferences_never_keep_a_pod_waiting(place: Place):
    preferred = {"weight": 100, "podAffinityTerm": term(app="absent")}
    affinity = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}
    soft = spread(whenUnsatisfiable="ScheduleAnyway", topologyKey="absent")
    answer = place(pod("web", labels=WEB, affinity=affinity, topologySpreadConstraints=soft))
    assert set(where(answer)) == {"web"}


def test_a_configured_default_constraint_spreads_the_pods_of_a_service(
    afflux: Afflux, tmp_path: Path
):
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": WEB},
    }
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: afflux.dev/v1alpha1\nkind: AffluxConfiguration\n"
        "topologySpread:\n  defaultingType: List\n  defaultConstraints:\n"
        f"  - {{topologyKey: {ZONE}, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}}\n"
    )
    running = pod("old", on="n1", labels=WEB)
    objects = [*in_zones(), running, service, pod("web", labels=WEB), pod("other")]
    file = write(tmp_path / "cluster.json", *objects)
    answer = afflux("place", file, "-o", "json", "--explain", "--config", config).json
    assert fits(answer, "web") == ["n3", "n4"]
    assert len(fits(answer, "other")) == 4
    without = write(tmp_path / "without.json", *(each for each in objects if each is not service))
    answer = afflux("place", without, "-o", "json", "--explain", "--config", config).json
    assert len(fits(answer, "web")) == 4


def test_a_term_that_cannot_be_read_is_the_reason_to_wait(place: Place):
    answer = place(pod("web", affinity=near({"topologyKey": ""})))
    assert why(answer)["web"] == (
        f"spec.affinity.podAffinity.{REQUIRED}[0].topologyKey: missing, expected a label of nodes"
    )
