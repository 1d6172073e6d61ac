"""Limits on what the waiting pods of one namespace, and of all, may name together."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from fake_api_server import FakeApiServer, node, pod
from manifests import as_list, load
from manifests import node as node_manifest
from manifests import pod as pod_manifest

from afflux.kube.disks.annotations import MAX_VOLUMES
from afflux.kube.object_limits import (
    MAX_EXPRESSION_VALUES,
    MAX_EXPRESSIONS,
    MAX_HOST_PORTS,
    MAX_LABEL_KEYS,
    MAX_POD_TERMS,
    MAX_RESOURCES,
    MAX_TOPOLOGY_KEYS,
    MAX_VOLUME_KINDS,
)
from afflux.kube.tenant_limits import (
    AFFINITIES,
    DISK_VOLUMES,
    LABEL_KEYS,
    LIMITS,
    PORTS,
    RESOURCES,
    SELECTORS,
    TERMS,
    TOPOLOGY_KEYS,
    Demand,
    TenantLimits,
    demand_of,
)
from afflux.model.disks import DiskRequest, VolumeIO
from afflux.model.implied_resources import HostPort, port_requests
from afflux.model.relations import AffinityTerm, Relations, SpreadConstraint, TaskSelector
from afflux.model.selectors import NodeAffinity, Requirement, Term
from oracles.builders import shape
from oracles.held_tasks import held_tasks


def ports(*numbers: int):
    return demand_of(shape(**port_requests(HostPort("TCP", number) for number in numbers)))


def test_a_pod_alone_in_its_namespace_is_within_every_limit():
    """Otherwise a pod could wait for room that never comes."""
    # A port with an address takes two columns.
    assert PORTS.per_namespace >= 2 * MAX_HOST_PORTS + MAX_VOLUME_KINDS
    assert RESOURCES.per_namespace >= MAX_RESOURCES + MAX_VOLUME_KINDS
    assert LABEL_KEYS.per_namespace >= MAX_LABEL_KEYS
    assert AFFINITIES.per_namespace >= 2 * MAX_EXPRESSIONS + MAX_EXPRESSION_VALUES
    assert TOPOLOGY_KEYS.per_namespace >= MAX_TOPOLOGY_KEYS
    assert SELECTORS.per_namespace >= MAX_POD_TERMS
    # A term counts as four, besides what it names.
    assert TERMS.per_namespace >= 4 * MAX_POD_TERMS + MAX_EXPRESSIONS + MAX_EXPRESSION_VALUES
    assert DISK_VOLUMES.guaranteed >= MAX_VOLUMES
    assert all(each.guaranteed <= each.per_namespace <= each.total for each in LIMITS)


def test_common_requests_count_towards_no_limit():
    assert not demand_of(shape(cpu=1, memory=2))


def term(number: int, key: str = "zone") -> AffinityTerm:
    selector = TaskSelector(("a",), None, (Requirement("app", "In", (f"a{number}",)),))
    return AffinityTerm(selector, key)


def related(*terms: AffinityTerm, spread: tuple[SpreadConstraint, ...] = ()) -> Demand:
    found = Relations(anti_affinity=terms, spread=spread)
    return demand_of(replace(shape(cpu=1), relations=found))


def test_selectors_and_topology_keys_of_terms_count_towards_a_limit():
    limits = TenantLimits()
    for number in range(SELECTORS.per_namespace):
        assert limits.admit(f"a/{number}", "a", related(term(number))) is None
    assert limits.admit("a/same", "a", related(term(0, "rack"), term(1))) is None
    assert limits.admit("a/more", "a", related(term(-1))) == (
        "waiting pods of namespace a: 513 different selectors of other pods, expected at most 512"
    )
    keys = [term(0, f"key{number}") for number in range(TOPOLOGY_KEYS.per_namespace + 1)]
    assert limits.admit("b/keys", "b", related(*keys)) == (
        "waiting pods of namespace b: 65 different topology keys, expected at most 64"
    )


def test_the_default_constraints_of_the_system_count_towards_no_limit():
    selector = term(0).selector
    stated = SpreadConstraint(selector, "zone", 1)
    assert related(spread=(stated,))
    assert not related(spread=(replace(stated, required=False, needs_all_keys=False),))


def test_pods_that_name_the_same_count_once():
    limits = TenantLimits()
    asked = ports(*range(1, PORTS.per_namespace + 1))
    for number in range(100):
        assert limits.admit(f"a/{number}", "a", asked) is None


def test_a_pod_beyond_the_limit_of_its_namespace_waits_with_a_reason():
    limits = TenantLimits()
    assert limits.admit("a/1", "a", ports(*range(1, 501))) is None
    assert limits.admit("a/2", "a", ports(*range(501, 520))) == (
        "waiting pods of namespace a: 519 different host ports and attached kinds of volumes, "
        "expected at most 512"
    )
    assert limits.admit("b/1", "b", ports(*range(501, 520))) is None


def test_a_refused_pod_is_named_again_when_there_may_be_room():
    limits = TenantLimits()
    limits.admit("a/1", "a", ports(*range(1, 501)))
    second = ports(*range(501, 520))
    limits.admit("a/2", "a", second)
    limits.admit("a/3", "a", second)
    assert limits.take_admissible() == []
    limits.release("a/1")
    assert limits.take_admissible() == ["a/2", "a/3"]
    assert limits.admit("a/2", "a", second) is None
    assert limits.admit("a/3", "a", second) is None
    assert limits.take_admissible() == []


def test_a_pod_that_names_less_than_before_is_admitted():
    limits = TenantLimits()
    limits.admit("a/1", "a", ports(*range(1, 501)))
    assert limits.admit("a/2", "a", ports(*range(501, 520))) is not None
    assert limits.admit("a/2", "a", ports(501)) is None
    limits.release("a/2")
    limits.release("a/1")
    assert limits.take_admissible() == []


def fill_total(limits: TenantLimits) -> None:
    most = PORTS.per_namespace
    for tenant in range(PORTS.total // most):
        numbers = range(1 + tenant * most, 1 + (tenant + 1) * most)
        assert limits.admit(f"t{tenant}/p", f"t{tenant}", ports(*numbers)) is None


def test_every_namespace_has_its_guaranteed_number_when_the_total_is_used_up():
    limits = TenantLimits()
    fill_total(limits)
    assert limits.admit("u/1", "u", ports(*range(50_000, 50_000 + PORTS.guaranteed))) is None
    assert limits.admit("u/2", "u", ports(60_000)) == (
        "waiting pods of all namespaces: 2065 different host ports and attached kinds of "
        "volumes, expected at most 2048"
    )
    # What others name already costs no more.
    assert limits.admit("u/3", "u", ports(*range(1, 20))) is None
    limits.release("t0/p")
    assert limits.take_admissible() == ["u/2"]


def test_label_keys_and_affinities_are_counted():
    affinity = NodeAffinity(
        selector=(("a", "1"),),
        required=(Term((Requirement("b", "In", ("x", "y")), Requirement("a", "Exists"))),),
        preferred=((1, Term((Requirement("c", "Exists"),))),),
    )
    counted = Counter[str]()
    for each in demand_of(shape(affinity=affinity)):
        counted[each.limit.what] += each.amount
    assert counted == {LABEL_KEYS.what: 3, AFFINITIES.what: 2 + 3 + 1 + 1}


def test_disk_requests_of_several_volumes_are_counted_by_their_volumes():
    """Disks are searched for them on every machine: thousands would hold up a cycle for minutes."""

    def stating(*reads: int) -> Demand:
        volumes = tuple(VolumeIO(read, 0) for read in reads)
        return demand_of(replace(shape(cpu=1), disks=DiskRequest(volumes)))

    assert not stating(1)
    assert {(each.limit, each.amount) for each in stating(1, 2, 3)} == {(DISK_VOLUMES, 3)}
    limits = TenantLimits()
    allowed = DISK_VOLUMES.per_namespace // MAX_VOLUMES
    refused = [
        limits.admit(f"p{number}", "games", stating(*range(number, number + MAX_VOLUMES)))
        for number in range(allowed + 1)
    ]
    assert refused[:-1] == [None] * allowed
    assert refused[-1] is not None
    assert "272 volumes in different disk requests of several volumes" in refused[-1]
    # A replica of one of them asks for nothing new.
    assert limits.admit("replica", "games", stating(*range(MAX_VOLUMES))) is None


@pytest.mark.parametrize("seed", range(20))
def test_the_accounts_agree_with_a_count_from_scratch(seed: int):
    rng = Random(f"limits {seed}")
    limits = TenantLimits()
    waiting: dict[str, tuple[str, frozenset[int]]] = {}
    admitted: set[str] = set()

    def ask(name: str) -> None:
        namespace, numbers = waiting[name]
        admitted.discard(name)
        there = {n for a in admitted if waiting[a][0] == namespace for n in waiting[a][1]}
        everywhere = {n for a in admitted for n in waiting[a][1]}
        new, of_all = len(there | numbers), len(everywhere | numbers)
        fits = new <= PORTS.per_namespace or numbers <= there
        fits &= of_all <= PORTS.total or new <= PORTS.guaranteed or numbers <= everywhere
        assert (limits.admit(name, namespace, ports(*numbers)) is None) == fits
        if fits:
            admitted.add(name)

    for _ in range(60):
        name = f"p{rng.randrange(30)}"
        if name in waiting and rng.random() < 0.4:
            limits.release(name)
            del waiting[name]
            admitted.discard(name)
        elif name not in waiting:
            start = rng.randrange(1, 3_000)
            size = rng.choice((3, 20, 120, 300))
            waiting[name] = f"n{rng.randrange(6)}", frozenset(range(start, start + size))
            ask(name)
        for again in limits.take_admissible():
            ask(again)
    for name in list(waiting):
        limits.release(name)
    assert not limits._namespaces
    assert not limits._total.pods
    assert not +limits._total.amounts
    assert not limits._refusals


# --- In the adapters


def invented(first: int, count: int) -> dict:
    asked = {f"example.com/r{number}": "1" for number in range(first, first + count)}
    return {"containers": [{"name": "c", "resources": {"requests": asked, "limits": asked}}]}


def test_a_live_pod_waits_under_the_limit_until_earlier_pods_are_gone():
    server = FakeApiServer()
    server.put(node("n"))
    for number in range(RESOURCES.per_namespace // 60):
        server.put(pod(f"p{number}", f"u{number}", **invented(60 * number, 60)))
    server.take_events()
    server.put(pod("late", "late", **invented(100_000, 5)))
    server.take_events()
    ((_, hold),) = server.reader.register.take_held_back()
    assert hold.why == (
        "waiting pods of namespace default: 1025 different extended resources, "
        "expected at most 1024"
    )
    server.delete("Pod", "p3")
    server.take_events()
    assert not held_tasks(server.reader.register)
    assert "default/late" in {group.name for group in server.cycle.queue}


def test_a_pod_that_runs_makes_room_under_the_limit():
    server = FakeApiServer()
    server.put(node("n"))
    for number in range(RESOURCES.per_namespace // 60):
        server.put(pod(f"p{number}", f"u{number}", **invented(60 * number, 60)))
    server.put(pod("late", "late", **invented(100_000, 5)))
    server.take_events()
    assert [task.id for task, _ in held_tasks(server.reader.register)] == ["late"]
    server.put(pod("p3", "u3", nodeName="n", **invented(60 * 3, 60)))
    server.take_events()
    assert not held_tasks(server.reader.register)


def test_pods_in_files_wait_under_the_same_limits():
    pods = [
        pod_manifest(f"p{number}", **invented(60 * number, 60))
        for number in range(RESOURCES.per_namespace // 60 + 1)
    ]
    snapshot = load([("cluster.json", as_list(node_manifest(), *pods))])
    ((held, why),) = snapshot.waiting
    assert held.name == f"default/p{len(pods) - 1}"
    assert why.startswith("waiting pods of namespace default: 1080 different extended resources")
