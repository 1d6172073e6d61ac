"""Small values: resources, reasons, shapes, groups."""

from afflux.model import reason
from afflux.model.devices import DeviceRequest
from afflux.model.machine import Machine
from afflux.model.resources import amount_of, resources
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup


def test_equal_vectors_are_equal_values():
    one = resources({"memory": 2, "cpu": 1, "pods": 0})
    other = resources([("cpu", 1), ("memory", 2)])
    assert one == other == (("cpu", 1), ("memory", 2))
    assert hash(one) == hash(other)
    assert amount_of(one, "memory") == 2
    assert amount_of(one, "pods") == 0


def test_shapes_are_equal_if_requests_and_devices_are():
    plain = Shape(resources({"cpu": 1}))
    assert plain == Shape(resources({"cpu": 1}))
    assert hash(plain) == hash(Shape(resources({"cpu": 1})))
    assert plain != Shape(resources({"cpu": 2}))
    assert plain != Shape(resources({"cpu": 1}), DeviceRequest(1, 500))


def test_a_group_of_one_is_no_gang():
    tasks = tuple(Task(f"t{i}", f"t{i}", Shape(())) for i in range(2))
    assert not WaitingGroup("g", tasks[:1]).is_gang
    assert WaitingGroup("g", tasks).is_gang


def test_a_free_machine_has_whole_devices():
    assert Machine("m", (), devices=2).free_devices() == (1000, 1000)
    assert Machine("m", ()).free_devices() == ()


def test_reasons_for_insufficient_resources():
    assert reason.insufficient("pods") == "Too many pods"
    assert reason.insufficient("nvidia.com/gpu") == "Insufficient nvidia.com/gpu"


def test_a_machine_counts_once_for_each_of_its_reasons():
    assert reason.summary(2, {"Insufficient cpu": 2, "Insufficient memory": 1}) == (
        "0/2 nodes are available: 1 Insufficient memory, 2 Insufficient cpu."
    )
    assert reason.summary(0, {}) == "no nodes available to schedule pods"
