"""The mirror: however objects come, change and go, the cycle ends up knowing what is there."""

import json
from random import Random

import msgspec
import pytest

from afflux.cluster.state import State
from afflux.cycle.events import GroupReady, GroupWithdrawn, MachineSet, TaskEnded, TaskRuns
from afflux.cycle.loop import Cycle
from afflux.cycle.observing import Unheard
from afflux.kube import objects
from afflux.kube.inventory import load
from afflux.kube.live import gathering, mirror
from afflux.kube.live.mirror import Mirror
from afflux.model.placement import Placement
from afflux.plan.rounds import Round
from afflux.queue.rules import QueueRules

OURS = "afflux"


class Idle:
    """A scheduler that never places anybody."""

    def policies_of(self, shape):
        return ()

    def decide(self, state, queue, *when):
        return Round((), ())


def node(name, cpu="4", **spec):
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": spec,
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"}},
    }


def pod(name, uid, cpu="1", labels=None, scheduler=OURS, **more):
    spec = {
        "schedulerName": scheduler,
        "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
        **more,
    }
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": uid,
        "labels": labels or {},
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {}}


def decoded(manifest):
    kind = {"Node": objects.Node, "Pod": objects.Pod}[manifest["kind"]]
    return msgspec.json.decode(json.dumps(manifest), type=kind)


class Server:
    """An API server's contents, and a mirror that is told of some changes one by one and of others
    by a list, as a watch that was cut would."""

    def __init__(self, seed=0):
        self.rng = Random(seed)
        self.mirror = Mirror([OURS])
        self.cycle = Cycle(State(), Idle())
        self.items = {"Node": {}, "Pod": {}}
        self.cut = {"Node": False, "Pod": False}
        self._version = 0
        self._uid = 0

    def shelf(self, kind):
        return self.mirror.nodes if kind == "Node" else self.mirror.pods

    def put(self, manifest):
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        self._version += 1
        manifest["metadata"]["resourceVersion"] = str(self._version)
        self.items[kind][name] = json.loads(json.dumps(manifest))
        if not self.cut[kind]:
            self.shelf(kind).changed(decoded(manifest))

    def delete(self, kind, name):
        manifest = self.items[kind].pop(name)
        if not self.cut[kind]:
            self.shelf(kind).deleted(decoded(manifest))

    def relist(self, kind):
        self.cut[kind] = False
        self.shelf(kind).replaced([decoded(m) for m in self.items[kind].values()])

    def catch_up(self):
        for kind in self.items:
            self.relist(kind)
        return self.drain()

    def drain(self):
        events = self.mirror.drain()
        self.cycle.run(events)
        return events

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
            self.drain()

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
        """The same objects, read all at once from a file."""
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


def known(server):
    """What the cycle knows, in words that can be compared."""
    state = server.cycle.state
    used = {
        machine.name: sorted(
            name for name, held in server.mirror._tracked.items() if held.node == machine.name
        )
        for _, machine in state.machines()
    }
    amounts = {m.name: state.view().used("cpu")[row] for row, m in state.machines()}
    groups = sorted(sorted(task.name for task in g.tasks) for g in server.cycle.queue)
    held = {task.name: why for task, why in server.mirror.gathering.held_back.values()}
    return used, amounts, groups, held


def wanted(inventory):
    used = {machine.name: [] for machine in inventory.machines}
    amounts = dict.fromkeys(used, 0)
    for task, machine in inventory.running:
        used[machine].append(task.name)
        amounts[machine] += dict(task.shape.requests)["cpu"]
    groups = sorted(sorted(task.name for task in g.tasks) for g in inventory.groups)
    held = {task.name: why for task, why in inventory.waiting}
    return {m: sorted(names) for m, names in used.items()}, amounts, groups, held


@pytest.mark.parametrize("batch", range(60))
def test_any_history_ends_in_what_is_there(batch):
    for seed in range(batch * 10, batch * 10 + 10):
        server = Server(seed)
        for _ in range(60):
            server.random_step()
        server.catch_up()
        if any(most > 1 for most in server.mirror.gathering._most_bound.values()):
            # That a group has run is known to those who saw it, and to nobody who comes later.
            assert known(server)[:2] == wanted(server.expected())[:2], seed
            restarted = Server()
            restarted.items = server.items
            restarted.catch_up()
            server = restarted
        found, right = known(server), wanted(server.expected())
        assert found[:3] == right[:3], seed
        # Which running pod keeps one away, or which of two is named first, is a matter of order.
        assert set(found[3]) == set(right[3]), seed
        assert server.drain() == []


def kinds(events):
    return [type(event) for event in events]


def test_a_pod_that_changes_often_is_looked_at_once():
    server = Server()
    server.put(node("n"))
    for _ in range(5):
        server.put(pod("p", "u"))
    events = server.drain()
    assert sum(isinstance(event, GroupReady) for event in events) == 1


def test_a_change_of_no_consequence_is_no_event():
    server = Server()
    server.put(node("n"))
    server.put(pod("p", "u"))
    server.drain()
    changed = pod("p", "u")
    changed["status"] = {"conditions": [{"type": "PodScheduled", "reason": "Unschedulable"}]}
    server.put(changed)
    assert server.drain() == []


def test_pods_of_other_schedulers_are_counted_and_not_touched():
    server = Server()
    server.put(node("n"))
    server.put(pod("theirs", "u", scheduler="another"))
    assert len(server.drain()) == 1
    server.put(pod("theirs", "u", scheduler="another", nodeName="n"))
    assert kinds(server.drain()) == [TaskRuns]


def test_pods_are_counted_when_their_node_comes_later_or_comes_back():
    server = Server()
    server.put(pod("p", "u", nodeName="n"))
    server.drain()
    server.put(node("n"))
    server.drain()
    assert server.cycle.state.where("u") == "n"
    server.delete("Node", "n")
    server.drain()
    assert server.cycle.state.where("u") is None
    server.put(node("n"))
    server.drain()
    assert server.cycle.state.where("u") == "n"


def placement(server, name, machine):
    return Placement(server.mirror._tracked[f"default/{name}"].task, machine)


def assumed():
    server = Server()
    server.put(node("n"))
    server.put(pod("p", "u"))
    server.drain()
    placed = placement(server, "p", "n")
    server.mirror.assume([placed])
    server.cycle.state.place(placed.task, "n")
    return server, placed


def test_an_assumed_pod_is_not_offered_again_while_the_watch_is_behind():
    server, _ = assumed()
    server.put(pod("p", "u", labels={"new": "label"}))
    assert GroupReady not in kinds(server.drain())


def test_what_the_watch_confirms_is_no_news():
    server, _ = assumed()
    server.drain()
    server.put(pod("p", "u", nodeName="n"))
    assert TaskEnded not in kinds(server.drain())
    assert server.cycle.state.where("u") == "n"


def test_a_placement_that_came_to_nothing_waits_again_in_its_place():
    server, placed = assumed()
    before = server.cycle.queue
    ready_seconds = next(iter(before)).ready_seconds
    server.drain()
    server.mirror.unplaced(placed)
    events = server.drain()
    assert kinds(events) == [TaskEnded, GroupReady]
    assert events[1].group.ready_seconds == ready_seconds


def test_a_refused_pod_waits_with_its_reason_until_it_is_tried_again():
    server, placed = assumed()
    server.drain()
    server.mirror.unplaced(placed, "binding to n was refused: no")
    assert kinds(server.drain()) == [TaskEnded]
    assert [why for _, why in server.mirror.gathering.take_held_back()] == [
        "binding to n was refused: no"
    ]
    assert server.mirror.refusals("default/p") == 1
    server.mirror.try_again("default/p")
    assert kinds(server.drain()) == [GroupReady]


def test_a_pod_bound_by_somebody_else_stays_where_they_put_it():
    server, placed = assumed()
    server.put(node("m"))
    server.put(pod("p", "u", nodeName="m"))
    server.drain()
    server.mirror.unplaced(placed)
    assert server.drain() == []
    assert server.cycle.state.where("u") == "m"


def test_a_pod_made_anew_under_its_name_is_another_pod():
    server, placed = assumed()
    server.drain()
    server.put(pod("p", "second"))
    assert kinds(server.drain()) == [TaskEnded, GroupReady]
    server.mirror.unplaced(placed)
    assert server.drain() == []


def test_the_rest_of_a_gang_whose_binding_failed_in_part_waits_together():
    server = Server()
    server.put(node("n"))
    labels = {"afflux.dev/group-name": "g", "afflux.dev/group-size": "3"}
    for number in range(3):
        server.put(pod(f"p{number}", f"u{number}", labels=labels))
    server.drain()
    placed = [placement(server, f"p{number}", "n") for number in range(3)]
    server.mirror.assume(placed)
    assert kinds(server.drain()) == [GroupWithdrawn]
    for failed in placed[:2]:
        server.mirror.unplaced(failed)
    ready = [event.group for event in server.drain() if isinstance(event, GroupReady)]
    assert [[task.id for task in group.tasks] for group in ready] == [["u0", "u1"]]


# --- When a task is expected to end


def started(name, uid, start="1970-01-01T00:16:40Z", scheduler=OURS, **more):
    """A pod that runs since second 1,000."""
    found = pod(name, uid, scheduler=scheduler, nodeName="n", **more)
    found["status"] = {"phase": "Running", "startTime": start}
    return found


DEADLINE = {"activeDeadlineSeconds": 60, "terminationGracePeriodSeconds": 5}


def ends(events):
    return [event.until_seconds for event in events if isinstance(event, TaskRuns)]


@pytest.mark.parametrize("scheduler", [OURS, "another"])
def test_a_pod_ends_after_its_start_its_deadline_and_its_grace_period(scheduler):
    server = Server()
    server.put(node("n"))
    server.put(started("p", "u", scheduler=scheduler, **DEADLINE))
    server.put(started("endless", "v", scheduler=scheduler))
    assert ends(server.drain()) == [1065.0, None]


def test_a_pod_that_says_how_long_it_takes_ends_then():
    server = Server()
    server.put(node("n"))
    expecting = started("p", "u", **DEADLINE)
    expecting["metadata"]["annotations"] = {"afflux.dev/expected-seconds": "20"}
    server.put(expecting)
    assert ends(server.drain()) == [1020.0]


def test_a_pod_that_says_nothing_ends_as_its_queue_says_if_it_is_ours():
    server = Server()
    rules = {"default": QueueRules(default_run_seconds=300.0)}
    server.mirror = Mirror([OURS], rules)
    server.put(node("n"))
    server.put(started("ours", "u"))
    server.put(started("theirs", "v", scheduler="another"))
    assert ends(server.drain()) == [1300.0, None]


def test_before_its_start_is_known_it_counts_from_when_it_was_seen():
    server = Server()
    server.put(node("n"))
    server.put(pod("p", "u", nodeName="n", **DEADLINE))
    assert ends(server.mirror.drain(2000.0)) == [2065.0]
    # Time alone changes nothing.
    server.put(pod("p", "u", nodeName="n", labels={"new": "label"}, **DEADLINE))
    assert ends(server.mirror.drain(2030.0)) == []
    server.put(started("p", "u", "1970-01-01T00:33:50Z", **DEADLINE))
    assert ends(server.mirror.drain(2031.0)) == [2095.0]


def test_an_end_is_told_again_only_if_it_is_another_one():
    server = Server()
    server.put(node("n"))
    server.put(started("p", "u", **DEADLINE))
    server.drain()
    changed = started("p", "u", **DEADLINE)
    changed["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    server.put(changed)
    assert server.drain() == []
    server.put(started("p", "u", **DEADLINE | {"activeDeadlineSeconds": 30}))
    assert ends(server.drain()) == [1035.0]


def test_the_end_of_what_we_placed_is_told_when_its_start_is_known():
    server = Server()
    server.put(node("n"))
    server.put(pod("p", "u", **DEADLINE))
    server.mirror.drain(1000.0)
    server.mirror.assume([placement(server, "p", "n")])
    server.put(pod("p", "u", nodeName="n", **DEADLINE))
    assert ends(server.mirror.drain(1001.0)) == []
    server.put(started("p", "u", "1970-01-01T00:16:41Z", **DEADLINE))
    assert ends(server.mirror.drain(1002.0)) == [1066.0]


def test_a_node_that_comes_back_has_its_pods_until_their_end():
    server = Server()
    server.put(started("p", "u", **DEADLINE))
    server.drain()
    server.put(node("n"))
    assert ends(server.drain()) == [1065.0]


# --- Names that are used again


def test_pods_made_anew_under_their_old_names_are_a_new_group():
    labels = {"afflux.dev/group-name": "g", "afflux.dev/group-size": "2"}
    server = Server()
    server.put(node("n"))
    for number in range(2):
        server.put(pod(f"p{number}", f"old-{number}", labels=labels))
    server.drain()
    for number in range(2):
        server.delete("Pod", f"p{number}")
        made = pod(f"p{number}", f"new-{number}", labels=labels)
        made["metadata"]["creationTimestamp"] = "2026-01-01T01:00:00Z"
        server.put(made)
    events = server.drain()
    (group,) = [event.group for event in events if isinstance(event, GroupReady)]
    assert [task.id for task in group.tasks] == ["new-0", "new-1"]
    assert group.ready_seconds == pytest.approx(1_767_229_200.0, abs=1.0)


def test_what_ends_frees_everything_at_once():
    labels = {"afflux.dev/group-name": "g", "afflux.dev/group-size": "2"}
    server = Server()
    server.put(node("n"))
    for number in range(2):
        server.put(started(f"p{number}", f"u{number}", labels=labels, **DEADLINE))
    server.drain()
    for number in range(2):
        server.delete("Pod", f"p{number}")
    assert kinds(server.drain()) == [TaskEnded, TaskEnded]
    assert server.mirror.gathering.waiting("default/g") is None


# --- Defects


def test_a_placement_given_back_before_anybody_looked_waits_again():
    server, placed = assumed()
    server.mirror.unplaced(placed)
    assert kinds(server.drain()) == [TaskEnded, GroupReady]


def test_of_a_machine_that_the_cycle_forgot_it_hears_everything_again():
    server = Server()
    server.put(node("n"))
    server.put(pod("p", "u", nodeName="n"))
    server.drain()
    server.cycle.state.remove_machine("n")
    server.mirror.tell_again([Unheard("machine", "n", OverflowError())])
    server.put(node("n", cpu="5"))
    assert kinds(server.drain()) == [MachineSet, TaskRuns]
    assert server.cycle.state.where("u") == "n"


def test_of_a_group_that_the_cycle_forgot_it_hears_again():
    server = Server()
    server.put(pod("p", "u"))
    server.drain()
    server.mirror.tell_again([Unheard("group", "default/p", OverflowError())])
    assert kinds(server.drain()) == [GroupReady]
    assert kinds(server.drain()) == []


def test_nothing_is_forgotten_if_looking_fails(monkeypatch):
    server = Server()
    server.put(node("n"))
    server.put(pod("p", "u"))
    with monkeypatch.context() as patched:
        patched.setattr(server.mirror.disks, "take_touched_nodes", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            server.mirror.drain()
    assert {MachineSet, GroupReady} <= set(kinds(server.drain()))


@pytest.mark.parametrize("where", [{}, {"nodeName": "n"}])
def test_a_defect_about_one_pod_is_about_no_other(monkeypatch, where):
    right = mirror.task

    def wrong(pod, around):
        if pod.metadata.name == "odd":
            raise IndexError("inside")
        return right(pod, around)

    monkeypatch.setattr(mirror, "task", wrong)
    server = Server()
    server.put(node("n"))
    server.put(node("m"))
    server.put(pod("odd", "o", **where))
    server.put(pod("p", "u"))
    server.drain()
    assert [group.name for group in server.cycle.queue] == ["default/p"]
    held = server.mirror.gathering.take_held_back()
    if where:
        # Nobody knows how much is left beside it.
        row = server.cycle.state.rows["n"]
        assert dict(next(server.cycle.state.held_on(row)).task.shape.requests)["pods"] > 10
    else:
        assert ["an error of the scheduler (IndexError)" in why for _, why in held] == [True]


def test_a_defect_about_one_group_is_about_no_other(monkeypatch):
    right = gathering.groups

    def wrong(members, *more):
        if any(each.task.name == "default/odd" for each in members):
            raise IndexError("inside")
        return right(members, *more)

    monkeypatch.setattr(gathering, "groups", wrong)
    server = Server()
    server.put(pod("odd", "o"))
    server.put(pod("p", "u"))
    server.drain()
    assert [group.name for group in server.cycle.queue] == ["default/p"]
    held = server.mirror.gathering.take_held_back()
    assert ["IndexError" in why for _, why in held] == [True]


@pytest.mark.parametrize(("uid", "stays"), [("u", True), ("other", False)])
def test_a_running_pod_that_cannot_be_read_any_more_holds_its_place(uid, stays):
    server = Server()
    server.put(node("n"))
    server.put(pod("p", "u", nodeName="n"))
    server.drain()
    server.mirror.pods.replaced([], [objects.Metadata("p", "default", uid)])
    server.drain()
    assert (server.cycle.state.where("u") == "n") == stays
    server.mirror.pods.replaced([])
    server.drain()
    assert server.cycle.state.where("u") is None


# --- Running pods that keep others away


def places_of(server, uid):
    group = next(each for each in server.cycle.queue if each.tasks[0].id == uid)
    terms = [term for places in group.tasks[0].shape.places for term in places.terms]
    return [(each.key, each.values) for term in terms for each in term.labels]


def in_zone(name, zone):
    manifest = node(name)
    manifest["metadata"]["labels"] = {"zone": zone}
    return manifest


def test_who_has_nowhere_to_go_waits_beside_the_queue_until_there_is_somewhere():
    term = {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "zone"}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    lonely = pod("l", "v", scheduler="other", nodeName="n", affinity={"podAntiAffinity": required})
    server = Server()
    for manifest in (in_zone("n", "a"), in_zone("m", "a"), lonely, pod("p", "u")):
        server.put(manifest)
    server.drain()
    held = [why for _, why in server.mirror.gathering.take_held_back()]
    assert held == ["2 node(s) didn't satisfy existing pods anti-affinity rules"]
    assert list(server.cycle.queue) == []
    server.put(in_zone("m", "b"))
    server.drain()
    assert [each.name for each in server.cycle.queue] == ["default/p"]
    server.delete("Node", "m")
    server.drain()
    assert list(server.cycle.queue) == []
    server.put(in_zone("k", "b"))
    server.drain()
    assert [each.name for each in server.cycle.queue] == ["default/p"]


def test_one_running_pod_closes_its_domain_and_no_other():
    term = {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "zone"}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    server = Server()
    server.put(in_zone("n", "a"))
    server.put(in_zone("m", "b"))
    server.put(pod("p", "u"))
    server.drain()
    assert places_of(server, "u") == []
    lonely = pod("l", "v", scheduler="other", nodeName="n", affinity={"podAntiAffinity": required})
    server.put(lonely)
    server.drain()
    assert server.mirror.gathering.take_held_back() == []
    assert places_of(server, "u") == [("zone", ("a",))]
    # The node is relabelled, and the pod goes away in the end.
    server.put(in_zone("n", "c"))
    server.drain()
    assert places_of(server, "u") == [("zone", ("c",))]
    server.delete("Pod", "l")
    server.drain()
    assert places_of(server, "u") == []
