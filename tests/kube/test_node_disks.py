"""NodeDiskIOInfo objects become reports by the protocol of generations."""

import json
from typing import Any

import msgspec
import pytest
from disk_objects import disk_info, left, read_info
from manifests import Manifest

from afflux.cycle.events import DisksGone, DisksReported, Event
from afflux.kube import objects
from afflux.kube.disks.disk_devices import RESERVED_DISKS
from afflux.kube.disks.disk_reports import (
    DISK_MEASUREMENTS,
    DISK_MODELS,
    MAX_DISKS,
    MAX_NAME_CHARACTERS,
    UNREADABLE_MODELS,
    Measured,
    measurements,
)
from afflux.kube.reader.node_disks import SILENT, NodeDisks, SilenceRules
from afflux.kube.reader.object_store import Key, ObjectStore
from afflux.kube.reader.work_queue import WorkQueue
from afflux.model.devices import DeviceRequest
from afflux.model.disks import Bandwidth, Disk, DiskReport, DiskRequest, VolumeIO
from afflux.model.placement import Placement
from afflux.model.task import Shape, Task

NOTHING = Bandwidth(0, 0, 0)


class Watched:
    """NodeDisks behind a store, as the reader has it; time passes only when told."""

    def __init__(self, silence: SilenceRules | None = None) -> None:
        self.now_seconds = 1000.0
        self.changes = WorkQueue[Key]()
        self.store = ObjectStore[objects.NodeDiskIOInfo]("node disk IO info", self.changes)
        # By node and uid, the disks that a pod has.
        self.given: dict[tuple[str, str], tuple[str, ...]] = {}
        self.disks = NodeDisks(
            self.store,
            lambda node, uid: self.given.get((node, uid)),
            silence or SilenceRules(60.0),
        )
        self._version = 0

    def see(self, *manifests: Manifest) -> list[Event]:
        """The events for these new versions of objects."""
        for manifest in manifests:
            self._version += 1
            metadata = manifest["metadata"] | {"resourceVersion": str(self._version)}
            self.store.changed(read_info(manifest | {"metadata": metadata}))
        return self.sync()

    def delete(self, manifest: Manifest) -> list[Event]:
        self.store.deleted(read_info(manifest))
        return self.sync()

    def sync(self) -> list[Event]:
        return self.disks.sync([name for _, name in self.changes.take()], self.now_seconds)

    def reported(self, *manifests: Manifest) -> DiskReport:
        (event,) = self.see(*manifests)
        assert isinstance(event, DisksReported)
        return event.report

    def told(self) -> list[tuple[str, str]]:
        return [(each.kind, each.text) for each in self.disks.take_notices()]


def same(amount: int) -> Bandwidth:
    return Bandwidth(amount, amount, amount)


# --- What a status says


def test_a_status_of_the_current_generation_acknowledges_the_reserved_pods() -> None:
    info = disk_info(disks={"b": left(200, 100, 150), "a": left(7)}, reserved=["u1", "u2"])
    assert Watched().reported(info) == DiskReport(
        "n1",
        (Disk("a", same(7)), Disk("b", Bandwidth(100, 150, 200))),
        frozenset({"u1", "u2"}),
    )


def test_the_form_of_the_keps_sample_is_read_too() -> None:
    sample = {"a": {"name": "/dev/sda", "total": 2200, "read": 1100, "write": 1100}}
    report = Watched().reported(disk_info(disks=sample, generation=3, observed=3))
    assert report.disks == (Disk("a", Bandwidth(1100, 1100, 2200)),)


def test_figures_are_whole_bytes_rounded_down() -> None:
    assert Watched().reported(disk_info(disks={"a": left(9.99)})).disks[0].left == same(9)


def test_models_are_those_that_the_driver_writes() -> None:
    annotations = {DISK_MODELS: '{"a": "Intel/P4510", "z": "other/model"}'}
    found = Watched().reported(
        disk_info(disks={"a": left(1), "b": left(1)}, annotations=annotations)
    )
    assert [disk.model for disk in found.disks] == ["Intel/P4510", ""]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": 1}', "[" * 9999])
def test_models_that_cannot_be_read_refuse_every_stated_request(text: str) -> None:
    watched = Watched()
    found = watched.reported(disk_info(disks={"a": left(1)}, annotations={DISK_MODELS: text}))
    assert found.refused == UNREADABLE_MODELS
    ((kind, said),) = watched.told()
    assert kind == "invalid"
    assert said.startswith(f"annotation {DISK_MODELS}: ")


@pytest.mark.parametrize("value", [-1, None, float("nan"), float("inf")])
def test_a_figure_without_sense_leaves_nothing_of_that_disk_alone(value: Any) -> None:
    watched = Watched()
    info = read_info(disk_info(disks={"a": left(5), "b": left(5)}, resourceVersion="1"))
    assert info.status is not None
    assert info.status.allocatable_bandwidth is not None
    broken = objects.BlockIO(total=5, read=value, write=5)
    info.status.allocatable_bandwidth["a"] = objects.DeviceBandwidth(status=broken)
    watched.store.changed(info)
    (event,) = watched.sync()
    assert isinstance(event, DisksReported)
    assert [disk.left for disk in event.report.disks] == [NOTHING, same(5)]
    ((kind, said),) = watched.told()
    assert kind == "invalid"
    assert said.startswith("status.allocatableBandwidth[a].read: ")
    assert said.endswith("expected bytes per second, 0 or more; the disk counts as full")


def test_the_same_problem_is_told_once() -> None:
    watched = Watched()
    for observed in (1, 1, 1):
        watched.see(disk_info(disks={"a": left(-1)}, observed=observed, annotations={"x": "y"}))
    assert len(watched.told()) == 1


def test_disks_beyond_a_number_are_not_used() -> None:
    watched = Watched()
    disks = {f"{number:03}": left(1) for number in range(MAX_DISKS + 1)}
    assert len(watched.reported(disk_info(disks=disks)).disks) == MAX_DISKS
    assert "65 disks, expected at most 64" in watched.told()[0][1]


def test_names_of_any_length_are_remembered_nowhere() -> None:
    watched = Watched()
    annotations = {DISK_MODELS: json.dumps({"a": "m" * 100_000})}
    disks = {"a": left(1), "b" * 100_000: left(1)}
    report = watched.reported(disk_info(disks=disks, annotations=annotations))
    assert [(disk.id, len(disk.model)) for disk in report.disks] == [("a", MAX_NAME_CHARACTERS)]
    ((kind, said),) = watched.told()
    assert kind == "invalid"
    assert said == (
        "status.allocatableBandwidth: 1 ids of disks, expected at most 253 characters each; these"
        " disks are not used"
    )


def test_an_object_without_a_status_reports_nothing() -> None:
    watched = Watched()
    assert watched.see(disk_info()) == []
    assert watched.reported(disk_info(disks={"a": left(1)}))
    assert watched.see(disk_info(disks={})) == [DisksGone("n1")]


def test_the_node_is_that_of_the_spec_or_the_name_of_the_object() -> None:
    assert Watched().reported(disk_info("n7", {"a": left(1)}, name="other")).machine == "n7"
    unnamed = disk_info("n8", {"a": left(1)})
    del unnamed["spec"]["nodeName"]
    assert Watched().reported(unnamed).machine == "n8"


def test_a_report_that_says_the_same_is_no_event() -> None:
    watched = Watched()
    watched.see(disk_info(disks={"a": left(1)}))
    assert watched.see(disk_info(disks={"a": left(1)}, annotations={"beat": "2"})) == []


def test_measurements_are_read_within_limits() -> None:
    def measured(text: str) -> object:
        return measurements(read_info(disk_info(annotations={DISK_MEASUREMENTS: text})))

    text = '{"u1": {"a": {"read": 5, "write": 6.5}}}'
    assert measured(text) == {"u1": {"a": Measured(5, 6.5)}}
    assert measured("{") == {}
    assert measured(text + " " * 300_000) == {}
    assert measurements(read_info(disk_info())) == {}


# --- Generations


def test_an_older_status_is_discarded_and_the_last_accepted_one_stays() -> None:
    watched = Watched()
    accepted = watched.reported(disk_info(disks={"a": left(100)}, reserved=["u1"]))
    # We reserve another pod; the driver still answers the list before.
    reserved = {"generation": 2, "reserved": ["u1", "u2"]}
    assert watched.see(disk_info(disks={"a": left(100)}, **reserved)) == []
    assert watched.see(disk_info(disks={"a": left(90)}, **reserved)) == []
    assert watched.disks.report("n1") == accepted
    answered = watched.reported(disk_info(disks={"a": left(50)}, observed=2, **reserved))
    assert answered == DiskReport("n1", (Disk("a", same(50)),), frozenset({"u1", "u2"}))
    assert watched.disks.statistics.statuses == {"accepted": 2, "discarded": 1}


def test_after_a_restart_an_older_status_acknowledges_nothing() -> None:
    watched = Watched()
    info = {"generation": 5, "reserved": ["u1"]}
    first = watched.reported(disk_info(disks={"a": left(100)}, observed=4, **info))
    assert first == DiskReport("n1", (Disk("a", same(100)),), frozenset())
    answered = watched.reported(disk_info(disks={"a": left(100)}, observed=5, **info))
    assert answered.acknowledged == {"u1"}


def test_a_generation_that_does_not_exist_is_told_once_and_not_used() -> None:
    watched = Watched()
    first = watched.reported(disk_info(disks={"a": left(9)}, observed=1))
    ahead = disk_info(disks={"a": left(100)}, observed=7, generation=2, reserved=["u1"])
    assert watched.see(ahead) == []
    ahead["metadata"]["annotations"] = {"beat": "2"}
    assert watched.see(ahead) == []
    assert watched.disks.report("n1") == first
    assert watched.told() == [("ahead", "status.observedGeneration: 7, expected at most 2")]


def test_a_version_with_a_lower_generation_is_no_answer_to_the_current_list() -> None:
    watched = Watched()
    watched.see(disk_info(disks={"a": left(9)}, generation=3, observed=2, reserved=["u1"]))
    # A list from a cache of the API server that is behind.
    behind = disk_info(disks={"a": left(99)}, generation=2, observed=2)
    assert watched.see(behind) == []


def test_a_new_object_of_the_same_name_begins_again() -> None:
    watched = Watched()
    watched.see(disk_info(disks={"a": left(9)}, generation=9, observed=9, reserved=["u1"]))
    again = disk_info(disks={"a": left(20)}, uid="another")
    assert watched.reported(again) == DiskReport("n1", (Disk("a", same(20)),))


def test_without_a_generation_as_in_a_file_every_status_counts() -> None:
    info = disk_info(disks={"a": left(9)}, generation=None, observed=None, reserved=["u1"])
    assert Watched().reported(info).acknowledged == {"u1"}


def test_a_pod_that_was_reserved_for_another_disk_is_not_acknowledged() -> None:
    watched = Watched()
    noted = {RESERVED_DISKS: msgspec.json.encode({"u1": ["a"], "u2": ["a"]}).decode()}
    info = disk_info(disks={"a": left(9)}, reserved=["u1", "u2", "u3"], annotations=noted)
    watched.given = {("n1", "u1"): ("a",)}
    assert watched.reported(info).acknowledged == {"u1", "u2", "u3"}
    watched.given["n1", "u1"] = ("b",)
    (event,) = watched.disks.report_again(["n1"])
    assert isinstance(event, DisksReported)
    assert event.report.acknowledged == {"u2", "u3"}


# --- Two objects for one node


def test_of_two_objects_the_older_counts_and_the_other_is_told_once() -> None:
    watched = Watched()
    young = disk_info(disks={"a": left(1)}, name="young", creationTimestamp="2026-01-02T00:00:00Z")
    old = disk_info(disks={"a": left(2)}, name="old", creationTimestamp="2026-01-01T00:00:00Z")
    assert watched.reported(young).disks[0].left == same(1)
    assert watched.reported(old).disks[0].left == same(2)
    watched.see(young, old)
    assert watched.told() == [
        ("duplicate", "afflux-system/old is older and counts for node n1; this object is not used")
    ]
    (event,) = watched.delete(old)
    assert isinstance(event, DisksReported)
    assert event.report.disks[0].left == same(1)
    assert watched.delete(young) == [DisksGone("n1")]


def test_of_two_objects_of_one_moment_the_first_by_name_counts() -> None:
    watched = Watched()
    first, second = (disk_info(disks={"a": left(n)}, name=f"d{n}") for n in (1, 2))
    watched.see(second, first)
    report = watched.disks.report("n1")
    assert report is not None
    assert report.disks[0].left == same(1)


def test_an_object_that_was_created_again_is_the_younger_one() -> None:
    watched = Watched()
    days = ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"]
    watched.see(
        disk_info(disks={"a": left(1)}, name="first", creationTimestamp=days[0]),
        disk_info(disks={"a": left(2)}, name="second", creationTimestamp=days[1]),
    )
    again = disk_info(disks={"a": left(3)}, name="first", creationTimestamp=days[2])
    report = watched.reported(again | {"metadata": again["metadata"] | {"uid": "another"}})
    assert report.disks[0].left == same(2)


def test_of_many_objects_for_one_node_each_that_does_not_count_is_told_once() -> None:
    watched = Watched()
    infos = [disk_info(disks={"a": left(n)}, name=f"d{n:03}") for n in range(200)]
    watched.see(*infos[100:], *infos[:100])
    watched.see(*infos)
    told = watched.told()
    assert [kind for kind, _ in told] == ["duplicate"] * 199
    report = watched.disks.report("n1")
    assert report is not None
    assert report.disks[0].left == same(0)


def test_an_object_may_move_to_another_node() -> None:
    watched = Watched()
    watched.see(disk_info("n1", {"a": left(1)}, name="d"))
    moved = watched.see(disk_info("n2", {"a": left(1)}, name="d"))
    assert moved == [DisksGone("n1"), DisksReported(DiskReport("n2", (Disk("a", same(1)),)))]


# --- Silence


def silent(action: Any, after_seconds: float = 60.0) -> Watched:
    watched = Watched(SilenceRules(after_seconds, action, 0.5))
    watched.see(disk_info(disks={"a": left(101)}, reserved=["u1"]))
    watched.now_seconds += after_seconds
    return watched


def test_the_disks_of_a_silent_driver_are_kept() -> None:
    watched = silent("keep")
    assert watched.disks.check_silence(watched.now_seconds - 1) == []
    assert watched.disks.silent_nodes() == 0
    assert watched.disks.check_silence(watched.now_seconds) == []
    assert watched.disks.silent_nodes() == 1
    assert watched.told() == [("silent", "the IO driver has not reported for 60 s")]


def test_or_count_for_a_share_of_what_they_had_left() -> None:
    watched = silent("degrade")
    (event,) = watched.disks.check_silence(watched.now_seconds)
    assert event == DisksReported(DiskReport("n1", (Disk("a", same(50)),), frozenset({"u1"})))
    # Once, however long the silence is.
    assert watched.disks.check_silence(watched.now_seconds + 1000) == []


def test_or_take_no_pod_that_states_what_it_does() -> None:
    watched = silent("exclude")
    (event,) = watched.disks.check_silence(watched.now_seconds)
    assert isinstance(event, DisksReported)
    assert event.report.refused == SILENT


def test_a_driver_that_reports_again_counts_again() -> None:
    watched = silent("exclude")
    watched.disks.check_silence(watched.now_seconds)
    report = watched.reported(disk_info(disks={"a": left(7)}, reserved=["u1"]))
    assert (report.refused, report.disks[0].left) == ("", same(7))
    assert [kind for kind, _ in watched.told()] == ["silent", "heard"]
    assert watched.disks.statistics.intervals_seconds == [60.0]


def test_a_status_that_is_discarded_is_a_sign_of_life_and_our_own_write_is_none() -> None:
    watched = Watched()
    watched.see(disk_info(disks={"a": left(9)}))
    watched.now_seconds += 59
    noted = {RESERVED_DISKS: '{"u1": ["a"]}'}
    ours = {"generation": 2, "reserved": ["u1"], "annotations": noted}
    watched.see(disk_info(disks={"a": left(9)}, **ours))
    assert watched.disks.next_silence_seconds() == 1060
    watched.see(disk_info(disks={"a": left(8)}, **ours))
    assert watched.disks.next_silence_seconds() == 1059 + 60


def test_a_driver_that_has_nothing_new_writes_an_annotation() -> None:
    watched = Watched()
    watched.see(disk_info(disks={"a": left(9)}))
    watched.now_seconds += 10
    watched.see(disk_info(disks={"a": left(9)}, annotations={"afflux.dev/disk-reported-at": "t"}))
    assert watched.disks.seconds_since_heard("n1", watched.now_seconds) == 0


def test_a_driver_that_has_never_reported_is_silent_too() -> None:
    watched = Watched()
    watched.see(disk_info())
    watched.disks.check_silence(watched.now_seconds + 60)
    assert watched.disks.silent_nodes() == 1


def test_many_drivers_that_go_silent_at_once_are_one_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = Watched()
    watched.see(*(disk_info(f"n{number}", {"a": left(1)}) for number in range(500)))
    caplog.clear()
    watched.disks.check_silence(watched.now_seconds + 60)
    assert [each.getMessage() for each in caplog.records] == [
        "500 IO drivers have gone silent, such as n0, n1, n10, n100, n101"
    ]
    assert len(watched.told()) == 500


def test_a_driver_that_writes_new_nonsense_again_and_again_floods_no_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = Watched()
    for value in range(1, 200):
        watched.see(disk_info(disks={f"d{disk}": left(-value) for disk in range(64)}))
        ((kind, said),) = watched.told()
        assert kind == "invalid"
        assert said.endswith("; and 59 more")
    assert len(caplog.records) < 5


def test_a_clock_that_is_set_back_hides_no_silent_driver() -> None:
    watched = Watched()
    watched.see(disk_info(disks={"a": left(9)}))
    watched.now_seconds -= 900
    watched.disks.check_silence(watched.now_seconds)
    assert watched.disks.next_silence_seconds() == watched.now_seconds + 60
    watched.disks.check_silence(watched.now_seconds + 60)
    assert watched.disks.silent_nodes() == 1


# --- Placements


def test_the_disks_of_a_placement_follow_its_shares_of_devices() -> None:
    watched = Watched()
    watched.see(disk_info(disks={"a": left(9), "b": left(9)}))
    request = DiskRequest((VolumeIO(1, 1), VolumeIO(1, 1)))
    shape = Shape((), devices=DeviceRequest(2, 500), disks=request)
    task = Task("u1", "default/p", shape)
    assert watched.disks.disk_ids(Placement(task, "n1", (0, 1, 1, 0))) == ("b", "a")
    assert watched.disks.disk_ids(Placement(task, "unknown", (0, 1))) == ()
    assert watched.disks.disk_ids(Placement(Task("u", "p", Shape(())), "n1")) == ()
