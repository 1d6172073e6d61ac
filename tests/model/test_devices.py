"""Devices one by one: what fits, what is taken, against trying everything."""

from itertools import combinations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from afflux.model.devices import (
    DeviceRequest,
    choose_devices,
    pack_devices,
    room_on_devices,
    take_devices,
)

MILLI = st.sampled_from((100, 150, 250, 340, 500, 600, 1000))
FREE = st.lists(st.integers(-200, 1000) | st.sampled_from((0, 500, 1000)), max_size=4).map(tuple)
REQUEST = st.builds(DeviceRequest, st.integers(1, 3), MILLI)


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


@given(FREE, REQUEST, st.data())
def test_choosing_for_further_requests_keeps_room_for_all_of_them(free, request, data):
    count = data.draw(st.integers(0, room_on_devices(free, request)))
    for left in range(count - 1, -1, -1):
        chosen = choose_devices(free, request, left)
        assert chosen is not None
        assert len(set(chosen)) == request.count
        free = take_devices(free, chosen, request.milli)
        assert all(free[index] >= 0 for index in chosen)


@given(FREE, REQUEST)
def test_a_single_request_takes_the_fullest_devices(free, request):
    chosen = choose_devices(free, request)
    usable = sorted(left for left in free if left >= request.milli)
    if len(usable) < request.count:
        assert chosen is None
    else:
        assert sorted(free[index] for index in chosen) == usable[: request.count]


@settings(max_examples=500)
@given(FREE, st.lists(REQUEST, max_size=4))
@example((1000, 500, 500), [DeviceRequest(2, 500), DeviceRequest(2, 500)])
@example((900, 500, 400), [DeviceRequest(1, 500), DeviceRequest(2, 400)])
def test_several_requests_are_packed_exactly_if_they_fit(free, requests):
    chosen = pack_devices(free, requests)
    assert (chosen is not None) == fits_by_trial(free, requests)
    for request, indices in zip(requests, chosen or (), strict=chosen is not None):
        assert len(set(indices)) == request.count
        free = take_devices(free, indices, request.milli)
        assert all(free[index] >= 0 for index in indices)


def test_halves_of_two_devices_are_not_a_whole():
    assert room_on_devices((500, 500), DeviceRequest(1, 1000)) == 0
    assert room_on_devices((500, 500), DeviceRequest(2, 500)) == 1
    assert room_on_devices((1000,), DeviceRequest(2, 500)) == 0


def test_giving_back_undoes_taking():
    free = (1000, 700, 0)
    assert take_devices(take_devices(free, (0, 1), 300), (0, 1), -300) == free


def test_hundreds_of_requests_at_once_end_without_an_exact_search():
    requests = [DeviceRequest(1, 1)] * 1300 + [DeviceRequest(1, 500)]
    chosen = pack_devices((1000, 1000), requests)
    assert chosen is not None
    assert len(chosen) == len(requests)
