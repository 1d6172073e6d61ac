"""Shares of devices, against exhaustive search."""

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from afflux.cluster.task_room import FreeCapacity, choose_devices, room_of
from afflux.model.devices import DeviceRequest, take_devices
from afflux.model.task import Shape

MILLI = st.sampled_from((100, 150, 250, 340, 500, 600, 1000))
FREE = st.lists(st.integers(-200, 1000) | st.sampled_from((0, 500, 1000)), max_size=4).map(tuple)
REQUEST = st.builds(DeviceRequest, st.integers(1, 3), MILLI)


def room_on_devices(free: tuple[int, ...], request: DeviceRequest) -> int:
    none = np.zeros(0, np.int64)
    there = FreeCapacity(none.reshape(1, 0), [free])
    return int(room_of(none, Shape((), request), there)[0])


def fits_by_trial(free: tuple[int, ...], requests: list[DeviceRequest]) -> bool:
    if not requests:
        return True
    request, *others = requests
    usable = [i for i, left in enumerate(free) if left >= request.milli]
    return any(
        fits_by_trial(take_devices(free, indices, request.milli), others)
        for indices in combinations(usable, request.count)
    )


@given(FREE, REQUEST)
def test_room_is_the_largest_number_of_requests_that_fit(free, request):
    room = room_on_devices(free, request)
    if room <= 4:
        assert fits_by_trial(free, [request] * room)
        assert not fits_by_trial(free, [request] * (room + 1))


@given(FREE, REQUEST)
def test_a_single_request_takes_the_fullest_devices(free, request):
    chosen = choose_devices(free, request)
    usable = sorted(left for left in free if left >= request.milli)
    if len(usable) < request.count:
        assert chosen is None
    else:
        assert sorted(free[index] for index in chosen) == usable[: request.count]


def test_halves_of_two_devices_are_not_a_whole():
    assert room_on_devices((500, 500), DeviceRequest(1, 1000)) == 0
    assert room_on_devices((500, 500), DeviceRequest(2, 500)) == 1
    assert room_on_devices((1000,), DeviceRequest(2, 500)) == 0


def test_giving_back_undoes_taking():
    free = (1000, 700, 0)
    assert take_devices(take_devices(free, (0, 1), 300), (0, 1), -300) == free
