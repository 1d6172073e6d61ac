"""A dry run on files decides as the scheduler of a live cluster, as often as something changes."""

from random import Random
from typing import Any

import pytest
from manifests import Manifest, as_list, node, pod
from storage_objects import claim, claiming, space, storage_class, volume

from afflux.admit.strategies import find_strategy
from afflux.cluster.state import State
from afflux.control.dry_run import DryRun, DryRunResult
from afflux.cycle.loop import Cycle
from afflux.cycle.optimiser import Optimiser
from afflux.kube.file_adapter import FileAdapter
from afflux.kube.tenant_limits import RESOURCES
from afflux.model.errors import InputError
from afflux.policies.cpu_memory import CpuMemory
from afflux.policies.policy import Weighted
from afflux.policies.registry import constraints
from afflux.queue.rules import QueueRules

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def dry_run(*items: Manifest, **rules: Any) -> DryRunResult:
    """The dry run of one queue with these rules on a cluster of these objects."""
    queue = QueueRules(**rules)
    state = State()
    queues = [(queue, find_strategy(queue.strategy, "test"))]
    cycle = Cycle(state, Optimiser(state, queues, constraints(), [Weighted(CpuMemory())]))
    adapter = FileAdapter([("cluster.json", as_list(*items))], {queue.name: queue})
    return DryRun(adapter, cycle, now_seconds=0.0).run()


def where(result: DryRunResult) -> dict[str, str]:
    return {each.task.name.removeprefix("default/"): each.machine for each in result.placements}


def why(result: DryRunResult) -> dict[str, str]:
    return {each.task.name.removeprefix("default/"): each.reason for each in result.waiting}


def member(name: str, group: str, size: int, **spec: Any) -> Manifest:
    labels = {"afflux.dev/group-name": group, "afflux.dev/group-size": str(size)}
    return pod(name, labels=labels, **spec)


def created(second: int, manifest: Manifest) -> Manifest:
    manifest["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{second:02}Z"
    return manifest


def test_a_full_queue_takes_the_next_group_when_one_was_placed() -> None:
    pods = [created(number, pod(f"p{number}")) for number in range(5)]
    result = dry_run(node(allocatable={"cpu": "3", "pods": "9"}), *pods, max_groups=1)
    assert list(where(result)) == ["p0", "p1", "p2"]
    assert why(result) == {
        "p3": "0/1 nodes are available: 1 Insufficient cpu.",
        "p4": "queue default is full: 1 groups wait in it",
    }


def test_a_group_that_can_never_start_does_not_fill_its_queue() -> None:
    never = created(0, pod("never", requests={"cpu": "64"}))
    result = dry_run(node(), never, created(1, pod("p")), max_groups=1)
    assert where(result) == {"p": "n1"}


def test_a_pod_above_a_tenant_limit_is_placed_when_another_one_runs() -> None:
    def asking(name: str, kind: str) -> Manifest:
        return pod(name, requests={f"example.com/{kind}-{number}": "1" for number in range(60)})

    offered = asking("", "first")["spec"]["containers"][0]["resources"]["requests"]
    offered |= asking("", "last")["spec"]["containers"][0]["resources"]["requests"]
    # Nothing offers what these ask for: with the first pod they use up the limit.
    others = [asking(f"p{n}", f"other-{n}") for n in range(RESOURCES.per_namespace // 60 - 1)]
    pods = [asking("first", "first"), *others, asking("last", "last")]
    assert list(where(dry_run(node(allocatable={"pods": "9"} | offered), *pods))) == [
        "first",
        "last",
    ]
    assert "different extended resources" in why(dry_run(node(), *pods))["last"]


def test_late_members_of_a_group_that_was_placed_are_placed_too() -> None:
    members = [created(number, member(f"m{number}", "g", 2)) for number in range(4)]
    result = dry_run(node("n1"), *members)
    assert sorted(where(result)) == ["m0", "m1", "m2", "m3"]


def test_pods_that_share_a_claim_follow_the_one_that_gets_its_volume() -> None:
    nodes = [node(name, labels={ZONE: zone}) for name, zone in (("n1", "a"), ("n2", "b"))]
    disks = [volume(f"d-{zone}", on=[{ZONE: [zone]}]) for zone in "ab"]
    pods = [claiming(f"p{number}", "shared", requests={"cpu": "5"}) for number in range(2)]
    result = dry_run(*nodes, storage_class(), *disks, claim("shared"), *pods)
    assert len(where(result)) == 1
    assert list(why(result).values()) == [
        "0/2 nodes are available: 1 Insufficient cpu, "
        "1 node(s) didn't find available persistent volumes to bind."
    ]


# --- Objects that cannot be used


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (node("n1", allocatable={"cpu": "much"}), "Node n1: status.allocatable[cpu]: 'much'"),
        (pod("p", requests={"cpu": "much"}), "Pod default/p: spec.containers[0].resources"),
        (pod("p", nodeName="n0", requests={"cpu": "much"}), "Pod default/p: spec.containers[0]"),
        (pod("p", volumes=[{"name": "v", "persistentVolumeClaim": 3}]), "Pod default/p: spec.vol"),
        (claim("c", resources={"requests": {"storage": "x"}}), "PersistentVolumeClaim default/c: "),
        (volume("v", capacity={"storage": "x"}), "PersistentVolume v: spec.capacity[storage]: 'x'"),
        (space("s", capacity="x"), "CSIStorageCapacity default/s: capacity: 'x'"),
        (pod("p", metadata={"creationTimestamp": "now"}), "Pod default/p: metadata.creationTimest"),
    ],
)
def test_an_object_that_cannot_be_used_is_named_with_its_file(broken: Manifest, words: str) -> None:
    with pytest.raises(InputError) as caught:
        dry_run(node("n0"), broken, node("n2"))
    assert str(caught.value).startswith(f"cluster.json: items[1]: {words}")
    assert "\n" not in str(caught.value)


# --- Random clusters


class RandomCluster:
    """Machines in two zones, disks that one machine or a zone reaches, pods and groups with claims,
    and pods that have to be beside others."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(f"files {seed}")
        self.zones = {f"n{n}": rng.choice("ab") for n in range(rng.randint(1, 5))}
        self.disks = {f"d{n}": self._reach() for n in range(rng.randint(0, 5))}
        self.pods: dict[str, Manifest] = {}
        self.claims: dict[str, str] = {}
        self.beside: dict[str, str] = {}
        self.groups: list[list[str]] = []
        for number in range(rng.randint(2, 8)):
            if rng.random() < 0.3:
                size = rng.randint(2, 3)
                names = [f"g{number}-{n}" for n in range(size)]
                self.groups.append(names)
                with_claims, app = rng.random() < 0.6, self._app()
                for name in names:
                    self._add(member(name, f"g{number}", size), app, with_claims=with_claims)
            else:
                self._add(pod(f"p{number}"), self._app(), with_claims=rng.random() < 0.6)

    def _reach(self) -> tuple[str, str]:
        if self.rng.random() < 0.3:
            return HOSTNAME, self.rng.choice(list(self.zones))
        return ZONE, self.rng.choice("ab")

    def _app(self) -> str:
        """The name of an earlier pod that has to be near, or none."""
        return self.rng.choice(["", *self.pods])

    def _add(self, manifest: Manifest, beside: str, *, with_claims: bool) -> None:
        name, spec = manifest["metadata"]["name"], manifest["spec"]
        manifest["metadata"]["labels"]["app"] = name
        spec["containers"][0]["resources"]["requests"] = {"cpu": self.rng.choice("123")}
        if with_claims:
            self.claims[name] = f"c-{name}"
            source = {"persistentVolumeClaim": {"claimName": self.claims[name]}}
            spec["volumes"] = [{"name": "v", **source}]
        if beside:
            self.beside[name] = beside
            term = {"labelSelector": {"matchLabels": {"app": beside}}, "topologyKey": ZONE}
            spec["affinity"] = {"podAffinity": {REQUIRED: [term]}}
        self.pods[name] = manifest

    def items(self) -> list[Manifest]:
        return [
            *(node(name, labels={ZONE: z, HOSTNAME: name}) for name, z in self.zones.items()),
            storage_class(),
            *(volume(name, on=[{key: [at]}]) for name, (key, at) in self.disks.items()),
            *(claim(name) for name in self.claims.values()),
            *self.pods.values(),
        ]

    def have_disks(self, placed: dict[str, str]) -> bool:
        """Whether every placed pod with a claim can have a disk of its own."""
        reaching = [
            [
                disk
                for disk, (key, at) in self.disks.items()
                if at == (self.zones[machine] if key == ZONE else machine)
            ]
            for name, machine in placed.items()
            if name in self.claims
        ]
        return _can_match(reaching, set())


def _can_match(reaching: list[list[str]], taken: set[str]) -> bool:
    if not reaching:
        return True
    free = [disk for disk in reaching[0] if disk not in taken]
    return any(_can_match(reaching[1:], taken | {disk}) for disk in free)


@pytest.mark.parametrize("batch", range(10))
def test_what_is_placed_on_files_could_run_together(batch: int) -> None:
    for seed in range(batch * 20, batch * 20 + 20):
        cluster = RandomCluster(seed)
        result = dry_run(*cluster.items())
        placed, waiting = where(result), why(result)
        assert placed.keys() | waiting.keys() == cluster.pods.keys(), seed
        assert not placed.keys() & waiting.keys(), seed
        for names in cluster.groups:
            assert len({name in placed for name in names}) == 1, (seed, names)
        for name, other in cluster.beside.items():
            if name in placed:
                assert other in placed, (seed, name)
                assert cluster.zones[placed[name]] == cluster.zones[placed[other]], (seed, name)
        assert cluster.have_disks(placed), seed
        for name in waiting:
            # Nothing waits without need: a pod on its own that requires nothing, on some machine.
            if name.startswith("p") and name not in cluster.beside and name not in cluster.claims:
                assert "Insufficient cpu" in waiting[name], (seed, name)
