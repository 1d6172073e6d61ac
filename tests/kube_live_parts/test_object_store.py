"""Object stores: which versions of an object count as a change."""

from operator import attrgetter

from afflux.kube import objects
from afflux.kube.reader.object_store import Departure, Key, ObjectStore
from afflux.kube.reader.work_queue import WorkQueue


def replica_set(version: int, app: str = "web", uid: str = "u") -> objects.ReplicaSet:
    selector = objects.LabelSelector(match_labels={"app": app})
    return objects.ReplicaSet(
        objects.Identity("r", "shop", uid, str(version)), objects.LabelSelectorSpec(selector)
    )


def test_without_a_relevant_part_every_version_counts() -> None:
    changes = WorkQueue[Key]()
    store = ObjectStore[objects.ReplicaSet]("replica set", changes)
    for version in (1, 2):
        store.changed(replica_set(version))
        assert list(changes.take()) == [("replica set", "shop/r")]


def test_only_changes_of_the_relevant_part_count() -> None:
    changes = WorkQueue[Key]()
    store = ObjectStore[objects.ReplicaSet]("replica set", changes, attrgetter("spec"))
    store.changed(replica_set(1))
    assert changes.take()
    store.changed(replica_set(2))
    assert not changes.take()
    # The newest version is kept all the same.
    assert store.get("shop/r") == replica_set(2)
    assert store.watch_events == 2
    store.changed(replica_set(3, app="shop"))
    assert changes.take()
    store.changed(replica_set(4, app="shop", uid="another"))
    assert changes.take()
    store.deleted(replica_set(5, app="shop", uid="another"))
    assert changes.take()


def test_a_list_reports_what_is_new_or_gone() -> None:
    changes = WorkQueue[Key]()
    store = ObjectStore[objects.ReplicaSet]("replica set", changes, attrgetter("spec"))
    store.replaced([replica_set(1)])
    assert changes.take()
    store.replaced([replica_set(2)])
    assert not changes.take()
    store.replaced([])
    assert changes.take()


def test_objects_that_are_over_are_not_kept() -> None:
    changes = WorkQueue[Key]()
    departures: list[Departure[objects.ReplicaSet]] = []
    store = ObjectStore[objects.ReplicaSet](
        "replica set", changes, is_over=lambda each: "over" in str(each.spec)
    )
    store.on_departure = departures.append
    alive, over = replica_set(1), replica_set(2, app="over")
    store.changed(alive)
    assert changes.take()
    store.changed(over)
    assert not len(store)
    assert changes.take() == [("replica set", "shop/r")]
    # It is unknown now: later versions concern nothing that the store has.
    store.replaced([over])
    store.deleted(over)
    assert not len(store)
    assert not changes.take()
    assert departures == [Departure(over, alive, False), Departure(over, None, False)]
