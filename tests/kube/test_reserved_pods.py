"""What is written into a NodeDiskIOInfo: who is added, who is removed, in which order."""

from typing import Any

import msgspec
from disk_objects import disk_info, read_info
from hypothesis import given
from hypothesis import strategies as st

from afflux.kube import objects
from afflux.kube.disks.disk_devices import (
    RESERVED_DISKS,
    devices_annotation,
    given_disks,
    reserved_disks,
)
from afflux.kube.disks.reserved_pods import next_reserved_pods


def info(*reserved: str, **noted: list[str]) -> objects.NodeDiskIOInfo:
    annotations = {RESERVED_DISKS: msgspec.json.encode(noted).decode()}
    return read_info(disk_info(reserved=reserved, annotations=annotations, resourceVersion="7"))


def test_pods_are_added_and_those_that_are_gone_removed() -> None:
    found = next_reserved_pods(info("gone", "u1"), {"u2": ("a",), "u1": ()}, {"u1", "u2"})
    assert found is not None
    assert (found.uids, found.is_complete) == (("u1", "u2"), True)
    assert reserved_disks(found.annotation) == {"u2": ("a",)}


def test_a_pod_that_another_writer_has_reserved_stays_while_it_is_on_the_node() -> None:
    assert next_reserved_pods(info("other"), {}, {"other"}) is None
    found = next_reserved_pods(info("other"), {}, set[str]())
    assert found is not None
    assert found.uids == ()


def test_a_pod_on_another_disk_is_removed_first_and_added_then() -> None:
    wanted = {"u1": ("b",)}
    first = next_reserved_pods(info("u1", "u2", u1=["a"]), wanted, {"u1", "u2"})
    assert first is not None
    assert (first.uids, first.is_complete) == (("u2",), False)
    second = next_reserved_pods(info("u2"), wanted, {"u1", "u2"})
    assert second is not None
    assert (second.uids, second.is_complete) == (("u2", "u1"), True)
    assert reserved_disks(second.annotation) == {"u1": ("b",)}


def test_the_write_fails_if_the_object_has_changed_meanwhile() -> None:
    seen = info()
    found = next_reserved_pods(seen, {"u1": ("a",)}, {"u1"})
    assert found is not None
    assert found.patch(seen) == {
        "metadata": {"resourceVersion": "7", "annotations": {RESERVED_DISKS: '{"u1":["a"]}'}},
        "spec": {"reservedPods": ("u1",)},
    }


def test_a_uid_that_is_listed_twice_is_listed_once() -> None:
    found = next_reserved_pods(info("u1", "u1"), {"u1": ()}, {"u1"})
    assert found is not None
    assert found.uids == ("u1",)


UIDS = st.sampled_from(["u1", "u2", "u3", "u4"])
GIVEN = st.sampled_from([(), ("a",), ("b",)])


@given(
    st.lists(UIDS, max_size=5),
    st.dictionaries(UIDS, GIVEN.map(list)),
    st.dictionaries(UIDS, GIVEN),
    st.sets(UIDS),
)
def test_two_writes_at_most_make_the_object_what_is_wanted(
    reserved: list[str],
    noted: dict[str, list[str]],
    wanted: dict[str, tuple[str, ...]],
    others: set[str],
) -> None:
    present = others | wanted.keys()
    seen, writes = info(*reserved, **noted), 0
    while (found := next_reserved_pods(seen, wanted, present)) is not None:
        writes += 1
        assert writes <= 2
        assert found.is_complete == (writes == 2 or set(found.uids) >= wanted.keys())
        seen = info(*found.uids, **{u: [*d] for u, d in reserved_disks(found.annotation).items()})
    final = seen.spec.reserved_pods or ()
    assert len(set(final)) == len(final)
    assert set(final) == wanted.keys() | (set(reserved) & others)
    stored = reserved_disks(seen.metadata.annotations)
    assert all(stored.get(uid, disks) == disks for uid, disks in wanted.items() if disks)


# --- The annotation of a pod


def test_the_annotation_of_a_pod_has_the_disk_of_each_volume() -> None:
    written = devices_annotation(("data", "log"), ("a", "b"))
    assert written == {"afflux.dev/disk-devices": '{"data":"a","log":"b"}'}
    assert given_disks(written, ("data", "log")) == ("a", "b")
    assert given_disks(written, ("log",)) == ("b",)
    assert devices_annotation(("data",), ()) == {}


def test_an_annotation_that_does_not_name_every_volume_says_nothing() -> None:
    def read(text: str, *volumes: str) -> Any:
        return given_disks({"afflux.dev/disk-devices": text}, volumes)

    assert read('{"data": "a"}', "data", "log") == ()
    assert read('{"data": ""}', "data") == ()
    assert read("{", "data") == ()
    assert read('{"data": 1}', "data") == ()
    assert given_disks(None, ("data",)) == ()
    assert reserved_disks({RESERVED_DISKS: "[]"}) == {}
