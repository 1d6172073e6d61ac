"""What the reserved pods leave of each disk, held against a slow reading of the rule."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from afflux.diskio.remaining_bandwidth import (
    BandwidthModel,
    ManagedDisk,
    Measured,
    Remaining,
    ReservedPod,
)
from afflux.diskio.sampling import IORate
from afflux.model.disks import Bandwidth, DiskRequest, VolumeIO, as_stated

SMALL = ManagedDisk("small", "/dev/sda", "", Bandwidth(100, 100, 150))
LARGE = ManagedDisk("large", "/dev/sdb", "", Bandwidth(1000, 800, 1500))
DEFAULT = DiskRequest((VolumeIO(5, 5),), is_stated=False)


def double(model: str, volume: VolumeIO) -> Bandwidth | None:
    """Small blocks cost double."""
    factor = 2 if volume.block_bytes <= 4096 else 1
    taken = as_stated("", volume)
    assert taken is not None
    return Bandwidth(taken.read * factor, taken.write * factor, taken.total * factor)


def rate(read: int = 0, write: int = 0, block_bytes: int = 32768) -> IORate:
    return IORate(read, write, block_bytes, block_bytes, 10.0)


def stated(uid: str, *volumes: tuple[int, int], **disks: str) -> ReservedPod:
    names = tuple(f"v{number}" for number in range(len(volumes)))
    return ReservedPod(uid, DiskRequest(tuple(VolumeIO(*v) for v in volumes)), names, disks)


def model(*disks: ManagedDisk, default: DiskRequest | None = DEFAULT) -> BandwidthModel:
    return BandwidthModel(disks or (SMALL, LARGE), double, default)


def test_a_pod_takes_what_it_requests_while_it_does_less() -> None:
    found = model().remaining(
        [stated("a", (10, 20), v0="small")], {"a": Measured({"small": rate(5, 5)})}
    )
    assert found.left == {"small": Bandwidth(90, 80, 120), "large": LARGE.capacity}
    (charge,) = found.charges
    assert not charge.is_excess


def test_a_pod_takes_what_it_does_if_that_is_more() -> None:
    measured = {"a": Measured({"small": rate(30, 5, block_bytes=4096)})}
    found = model().remaining([stated("a", (10, 20), v0="small")], measured)
    (charge,) = found.charges
    # Reads in blocks of 4k count double; each figure is the larger one.
    assert charge.charged == Bandwidth(60, 20, 70)
    assert found.left["small"] == Bandwidth(40, 80, 80)
    assert charge.is_excess


def test_what_is_left_is_never_below_zero() -> None:
    found = model(SMALL).remaining([stated("a", (500, 500)), stated("b", (1, 1))], {})
    assert found.left["small"] == Bandwidth(0, 0, 0)


def test_a_pod_without_a_request_takes_the_default_until_it_is_measured() -> None:
    pods = [ReservedPod("a", None)]
    known = model()
    assert known.remaining(pods, {}).left["large"] == Bandwidth(995, 795, 1490)
    begun = {"a": Measured({"large": rate(1, 1)})}
    assert known.remaining(pods, begun).left["large"] == Bandwidth(995, 795, 1490)
    complete = {"a": Measured({"large": rate(1, 1)}, is_complete=True)}
    assert known.remaining(pods, complete).left["large"] == Bandwidth(999, 799, 1498)
    assert model(default=None).remaining(pods, {}).charges == ()


def test_a_volume_is_where_the_scheduler_has_put_it() -> None:
    measured = {"a": Measured({"large": rate(1, 1)})}
    found = model().remaining([stated("a", (10, 10), v0="small")], measured)
    assert found.left == {"small": Bandwidth(90, 90, 130), "large": Bandwidth(999, 799, 1498)}


def test_without_an_annotation_a_volume_is_where_the_pod_is_seen_to_work() -> None:
    known = model()
    pods = [stated("a", (10, 10))]
    assert known.remaining(pods, {}).left["small"] == Bandwidth(90, 90, 130)
    found = known.remaining(pods, {"a": Measured({"large": rate(1, 1)})})
    assert found.left == {"small": SMALL.capacity, "large": Bandwidth(990, 790, 1480)}
    # It stays there while it is idle.
    assert known.remaining(pods, {}).left == found.left


def test_otherwise_it_is_on_the_fullest_disk_on_which_it_fits() -> None:
    found = model().remaining([stated("a", (70, 70)), stated("b", (10, 10))], {})
    # 70 + 70 leave 10 of the small disk, so that the second pod does not fit there.
    assert found.left == {"small": Bandwidth(30, 30, 10), "large": Bandwidth(990, 790, 1480)}


def test_what_fits_nowhere_is_on_the_disk_with_most_left() -> None:
    found = model().remaining([stated("a", (2000, 0))], {})
    assert found.left == {"small": SMALL.capacity, "large": Bandwidth(0, 800, 0)}


def test_each_volume_sees_what_those_before_it_have_taken() -> None:
    found = model().remaining([stated("a", (50, 50), (50, 50))], {})
    assert found.left == {"small": Bandwidth(50, 50, 50), "large": Bandwidth(950, 750, 1400)}


def test_a_choice_is_kept_until_the_pod_leaves() -> None:
    known = model()
    first = known.remaining([stated("a", (70, 70)), stated("b", (10, 10))], {})
    assert first.left["large"] == Bandwidth(990, 790, 1480)
    # There would be room on the small disk now; b stays on the large one.
    assert known.remaining([stated("b", (10, 10))], {}).left["large"] == first.left["large"]
    known.remaining([], {})
    assert known.remaining([stated("b", (10, 10))], {}).left["small"] == Bandwidth(90, 90, 130)


def test_a_disk_whose_normaliser_refuses_is_full() -> None:
    refusing = BandwidthModel([replace(SMALL, model="v/m")], as_stated, DEFAULT)
    found = refusing.remaining([stated("a", (1, 1))], {})
    assert found.left["small"] == Bandwidth(0, 0, 0)


def test_other_io_is_deducted_on_request() -> None:
    found = model().remaining([], {}, {"large": rate(100, 0)})
    assert found.left["large"] == Bandwidth(900, 800, 1400)


def test_without_disks_there_is_nothing_to_report() -> None:
    nothing = BandwidthModel([], double, DEFAULT)
    assert nothing.remaining([stated("a", (1, 1))], {}) == Remaining({}, ())


# --- The oracle

DISKS = (SMALL, LARGE)
AMOUNT = st.integers(0, 300)
VOLUMES = st.tuples(AMOUNT, AMOUNT)
RATES = st.builds(rate, AMOUNT, AMOUNT, st.sampled_from([512, 4096, 32768]))
UIDS = st.lists(st.sampled_from("abcdef"), unique=True)
MEASURED = st.dictionaries(
    st.sampled_from("abcdef"),
    st.builds(Measured, st.dictionaries(st.sampled_from(["small", "large"]), RATES), st.booleans()),
)


@st.composite
def reserved(draw: st.DrawFn) -> list[ReservedPod]:
    """Pods whose volumes all have a disk, or that state nothing."""
    pods: list[ReservedPod] = []
    for uid in draw(UIDS):
        if draw(st.booleans()):
            pods.append(ReservedPod(uid, None))
            continue
        volumes = draw(st.lists(VOLUMES, min_size=1, max_size=3))
        disks = {f"v{n}": draw(st.sampled_from(["small", "large"])) for n in range(len(volumes))}
        pods.append(stated(uid, *volumes, **disks))
    return pods


def slowly(pods: Sequence[ReservedPod], measured: Mapping[str, Measured]) -> dict[str, Bandwidth]:
    """Capacity minus the sum of the larger of request and measurement, figure by figure."""
    left: dict[str, Bandwidth] = {}
    for disk in DISKS:
        figures: list[int] = []
        for figure in ("read", "write", "total"):
            amount = getattr(disk.capacity, figure)
            for pod in pods:
                requested = 0
                volumes = pod.request.volumes if pod.request else ()
                for name, volume in zip(pod.volumes, volumes, strict=True):
                    if pod.disks[name] == disk.id:
                        requested += getattr(double("", volume), figure)
                done = 0
                found = measured.get(pod.uid, Measured()).rates.get(disk.id)
                for stream in (found.as_reads(), found.as_writes()) if found else ():
                    done += getattr(double("", stream), figure)
                amount -= max(requested, done)
            figures.append(max(0, amount))
        left[disk.id] = Bandwidth(*figures)
    return left


@given(reserved(), MEASURED)
def test_what_is_left_is_the_capacity_minus_the_larger_of_request_and_measurement(
    pods: list[ReservedPod], measured: dict[str, Measured]
) -> None:
    found = model(default=None).remaining(pods, measured)
    assert found.left == slowly(pods, measured)


@given(reserved(), MEASURED, st.lists(VOLUMES, min_size=1, max_size=3))
def test_one_pod_more_never_leaves_more(
    pods: list[ReservedPod], measured: dict[str, Measured], volumes: list[tuple[int, int]]
) -> None:
    before = model().remaining(pods, measured).left
    after = model().remaining([*pods, stated("new", *volumes)], measured).left
    for disk, left in after.items():
        assert left.read <= before[disk].read
        assert left.write <= before[disk].write
        assert left.total <= before[disk].total


@given(reserved(), MEASURED)
def test_the_same_question_has_the_same_answer(
    pods: list[ReservedPod], measured: dict[str, Measured]
) -> None:
    known = model()
    assert known.remaining(pods, measured) == known.remaining(pods, measured)
