"""The annotation of a pod says what it does on disks; what cannot be read keeps the pod waiting."""

import json
from typing import Any

import msgspec
import pytest
from disk_objects import MI, RESOURCES, THROUGHPUT, stating
from hypothesis import given
from hypothesis import strategies as st
from manifests import Manifest, pod
from storage_objects import claim, storage_class, volume

from afflux.kube import objects
from afflux.kube.disks.annotations import (
    MAX_BLOCK_BYTES,
    MAX_BYTES_PER_SECOND,
    MIN_BLOCK_BYTES,
    stated_disk_io,
)
from afflux.kube.disks.disk_requests import DEFAULT_CHARGE, DiskCounting, disk_volume_names
from afflux.kube.pods import PodContext, task
from afflux.kube.volumes.storage import Storage
from afflux.model.disks import DEFAULT_BLOCK_BYTES, DiskRequest, VolumeIO
from afflux.model.errors import InputError
from afflux.model.task import Task

COUNTING = PodContext(disks=DiskCounting(frozenset({"afflux"})))
KI = 1024


def stated(value: object, annotation: str = THROUGHPUT) -> list[tuple[str | None, VolumeIO]]:
    text = value if isinstance(value, str) else json.dumps(value)
    found = stated_disk_io({annotation: text})
    assert found is not None
    return [(each.name, each.io) for each in found.volumes]


def task_of(manifest: Manifest, context: PodContext = COUNTING) -> Task:
    manifest["spec"].setdefault("schedulerName", "afflux")
    return task(msgspec.json.decode(json.dumps(manifest), type=objects.Pod), context)


def why_waiting(value: object, **spec: Any) -> str:
    found = task_of(pod(metadata=stating(value), **spec))
    assert found.shape.disks is None
    assert found.blocked is not None
    return found.blocked


@pytest.mark.parametrize("annotation", [THROUGHPUT, RESOURCES])
def test_the_kep_states_bandwidth_and_block_size_of_the_whole_pod(annotation: str) -> None:
    value = {"rbps": "20M", "wbps": "30Mi", "blocksize": "4k"}
    assert stated(value, annotation) == [(None, VolumeIO(20_000_000, 30 * MI, 4 * KI))]


def test_a_block_size_that_is_not_stated_is_that_of_large_blocks() -> None:
    assert stated({"rbps": 1000}) == [(None, VolumeIO(1000, 0, DEFAULT_BLOCK_BYTES))]


@pytest.mark.parametrize("written", ["4k", "4K", "4Ki", "4096", 4096])
def test_a_block_size_of_4k_is_4096(written: object) -> None:
    assert stated({"wbps": 1, "blockSize": written})[0][1].block_bytes == 4096


def test_keys_may_have_any_letter_case() -> None:
    assert stated({"RBPS": "1k", "WBps": "2k", "BlockSize": "8k"}) == [
        (None, VolumeIO(1000, 2000, 8 * KI))
    ]


def test_operations_are_converted_by_their_block_size() -> None:
    assert stated({"riops": "2k", "wiops": 100, "blocksize": "4k"}) == [
        (None, VolumeIO(2000 * 4 * KI, 100 * 4 * KI, 4 * KI))
    ]


def test_of_bytes_and_operations_the_larger_counts() -> None:
    value = {"riops": 100, "rbps": "1Mi", "wiops": 1000, "wbps": "1Mi", "blocksize": "4k"}
    assert stated(value)[0][1] == VolumeIO(MI, 1000 * 4 * KI, 4 * KI)


def test_volumes_are_stated_by_name_and_their_limits_reserve_nothing() -> None:
    value = {
        "b": {"requests": {"rbps": "50Mi/4k", "wbps": "20Mi/4k"}, "limits": {"rbps": "1Gi"}},
        "a": {"Requests": {"wiops": "10/8k"}, "limits": "anything"},
    }
    assert stated(value) == [
        ("a", VolumeIO(0, 10 * 8 * KI, 8 * KI)),
        ("b", VolumeIO(50 * MI, 20 * MI, 4 * KI)),
    ]


def test_of_two_block_sizes_the_smaller_one_counts() -> None:
    assert stated({"rbps": "1M/64k", "wbps": "1M/4k"})[0][1].block_bytes == 4 * KI
    assert stated({"rbps": "1M/64k", "wbps": "1M"})[0][1].block_bytes == DEFAULT_BLOCK_BYTES
    # Operations are converted by the block size that they state themselves.
    assert stated({"riops": "10/64k", "wbps": "1M/4k"})[0][1] == VolumeIO(
        640 * KI, 1_000_000, 4 * KI
    )


def test_both_annotations_may_be_there_if_they_say_the_same() -> None:
    same = {THROUGHPUT: '{"rbps": "1Mi"}', RESOURCES: '{"rbps": 1048576}'}
    found = stated_disk_io(same)
    assert found is not None
    assert found.volumes[0].io.read == MI
    with pytest.raises(InputError, match=r"throughput: '\{\"rbps\": 1\}', expected the same as in"):
        stated_disk_io({**same, THROUGHPUT: '{"rbps": 1}'})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "'', expected JSON: it ends too early"),
        ('{"rbps": NaN}', "'{\"rbps\": NaN}', expected JSON: invalid character (byte 9)"),
        ("[" * 5000, "expected JSON that is not nested so deeply"),
        ("[1]", "[1], expected a mapping"),
        ("3", "3, expected a mapping"),
        ({}, "{}, expected at least one of rbps, wbps, riops, wiops"),
        ({"blocksize": "4k"}, "only blocksize, expected at least one of rbps"),
        ({"rbps": "-1"}, "rbps: '-1', expected bytes per second such as 20M or 20Mi"),
        ({"rbps": "nan"}, "rbps: 'nan', expected bytes per second"),
        ({"rbps": True}, "rbps: true, expected bytes per second"),
        ({"rbps": None}, "rbps: null, expected bytes per second"),
        ({"rbps": "11T"}, "rbps: '11T', expected bytes per second such as 20M or 20Mi, at most"),
        ({"wiops": "1G", "blocksize": "64Mi"}, "wiops: '1G', expected bytes per second"),
        ({"wiops": "fast"}, "wiops: 'fast', expected operations per second such as 2000 or 2k"),
        ({"rbps": 1, "blocksize": 0}, "blocksize: 0, expected bytes such as 4k, from 512 to"),
        ({"rbps": 1, "blocksize": "1G"}, "blocksize: '1G', expected bytes such as 4k"),
        ({"rbps": "1/"}, "rbps: '', expected bytes such as 4k"),
        ({"rbps": 1, "RBPS": 2}, "rbps: given twice, expected once"),
        ({"rbps": 1, "latency": 2}, "latency: unknown field, expected one of blocksize, rbps"),
        ({"data": {"limits": {}}}, "data.requests: missing, expected at least one of rbps"),
        ({"data": {"requests": {}}}, "data.requests: {}, expected at least one of rbps"),
        ({"data": {"requests": {"rbps": "x"}}}, "data.requests.rbps: 'x', expected bytes"),
        ({"data": {"request": {}}}, "data.request: unknown field, expected one of limits, req"),
        ({"data": {"requests": {"rbps": 1}}, "rbps": 1}, "rbps.: 1, expected a mapping"),
        ({str(n): {"requests": {"rbps": 1}} for n in range(17)}, "17 volumes, expected at most 16"),
        ('{"rbps": ' + " " * 9000 + "1}", "9011 characters, expected at most 8192"),
    ],
)
def test_a_malformed_annotation_names_field_value_and_expectation(
    value: object, message: str
) -> None:
    why = why_waiting(value)
    assert why.startswith(f"annotation {THROUGHPUT}: ")
    assert message.replace(".: ", ": ") in why
    assert why.isprintable()


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)
LIKELY = st.dictionaries(
    st.sampled_from(["rbps", "WBPS", "riops", "wiops", "blocksize", "data", "x"]),
    st.sampled_from(["20M", "4k", "1e3/4k", "-1", "/", "1/2/3", 3, 1e30, -0.0, None, "9" * 400])
    | st.fixed_dictionaries({"requests": st.dictionaries(st.just("rbps"), ANYTHING)})
    | ANYTHING,
)


def read(text: str) -> list[VolumeIO] | str:
    """What the text states, or what is wrong with it."""
    try:
        found = stated_disk_io({THROUGHPUT: text})
    except InputError as error:
        return str(error)
    assert found is not None
    return [each.io for each in found.volumes]


@given(st.text(max_size=40) | st.one_of(LIKELY, ANYTHING).map(json.dumps))
def test_whatever_the_annotation_says_it_is_usable_or_one_sentence(text: str) -> None:
    found = read(text)
    if isinstance(found, str):
        assert found.startswith(f"annotation {THROUGHPUT}: ")
        assert found.isprintable()
        assert len(found) < 400
        return
    assert found
    for each in found:
        assert 0 <= each.read <= MAX_BYTES_PER_SECOND
        assert 0 <= each.write <= MAX_BYTES_PER_SECOND
        assert MIN_BLOCK_BYTES <= each.block_bytes <= MAX_BLOCK_BYTES


# --- Pods


def test_only_pods_of_a_profile_that_counts_disks_state_or_are_charged_anything() -> None:
    io = {"rbps": "1Mi"}
    ours = task_of(pod(metadata=stating(io)))
    assert ours.shape.disks == DiskRequest((VolumeIO(MI, 0),))
    assert task_of(pod()).shape.disks == DEFAULT_CHARGE
    assert task_of(pod(schedulerName="other")).shape.disks is None
    other = task_of(pod(metadata=stating("malformed"), schedulerName="other"))
    assert (other.shape.disks, other.blocked) == (None, None)
    assert task_of(pod(metadata=stating(io)), PodContext()).shape.disks is None


def test_a_default_charge_of_nothing_is_none() -> None:
    context = PodContext(disks=DiskCounting(frozenset({"afflux"}), default=None))
    assert task_of(pod(), context).shape.disks is None


def test_running_pods_of_other_schedulers_count_what_they_state() -> None:
    running = {"nodeName": "n1", "schedulerName": "other"}
    found = task_of(pod(metadata=stating({"wbps": "1Mi"}), **running))
    assert found.shape.disks == DiskRequest((VolumeIO(0, MI),))
    assert task_of(pod(**running)).shape.disks is None


@pytest.mark.parametrize("scheduler", ["afflux", "other"])
def test_a_malformed_annotation_of_a_running_pod_counts_as_the_default(scheduler: str) -> None:
    found = task_of(pod(metadata=stating("{"), nodeName="n1", schedulerName=scheduler))
    assert (found.shape.disks, found.blocked) == (DEFAULT_CHARGE, None)


def test_equal_requests_share_one_shape() -> None:
    first = task_of(pod("a", metadata={**stating({"rbps": "1Mi"}), "name": "a"}))
    second = task_of(pod("b", metadata={**stating({"rbps": 1048576}), "name": "b"}))
    assert first.shape is second.shape


# --- Volumes


def storage(*stated: Manifest) -> Storage:
    kinds: dict[str, type[Any]] = {
        "PersistentVolumeClaim": objects.PersistentVolumeClaim,
        "PersistentVolume": objects.PersistentVolume,
        "StorageClass": objects.StorageClass,
    }
    found = Storage()
    for each in stated:
        found.set(msgspec.json.decode(json.dumps(each), type=kinds[each["kind"]]))
    return found


def counted(volume_source: Manifest, *objects_of_storage: Manifest) -> bool:
    """Whether what a pod states for a volume of this type counts."""
    manifest = pod(
        metadata=stating({"data": {"requests": {"rbps": "1Mi"}}}),
        volumes=[{"name": "other", "emptyDir": {}}, {"name": "data", **volume_source}],
    )
    known = storage(*objects_of_storage)
    context = PodContext(storage=known, disks=DiskCounting(None))
    found = task_of(manifest, context)
    names = disk_volume_names(msgspec.json.decode(json.dumps(manifest), type=objects.Pod), known)
    assert names == (("data",) if found.shape.disks else ())
    return found.shape.disks is not None


@pytest.mark.parametrize(
    ("source", "counts"),
    [
        ({"emptyDir": {}}, True),
        ({"emptyDir": {"sizeLimit": "1Gi"}}, True),
        ({"emptyDir": {"medium": "Memory"}}, False),
        ({"emptyDir": {"medium": "HugePages-2Mi"}}, False),
        ({"hostPath": {"path": "/data"}}, True),
        ({"nfs": {"server": "s", "path": "/"}}, False),
        ({"csi": {"driver": "secrets-store.csi.k8s.io"}}, False),
        ({"configMap": {"name": "c"}}, False),
        ({"secret": {"secretName": "c"}}, False),
        ({"persistentVolumeClaim": {"claimName": "unknown"}}, False),
    ],
)
def test_volumes_on_a_disk_of_the_node_count(source: Manifest, counts: bool) -> None:
    assert counted(source) is counts


ON_N1 = [{"kubernetes.io/hostname": ["n1"]}]
IN_ZONE = [{"topology.kubernetes.io/zone": ["a"]}]
EBS = {"driver": "ebs.csi.aws.com", "volumeHandle": "v"}


@pytest.mark.parametrize(
    ("bound_volume", "counts"),
    [
        (volume("v", on=ON_N1, csi=None, local={"path": "/mnt"}), True),
        (volume("v", csi=None, hostPath={"path": "/mnt"}), True),
        (volume("v", on=ON_N1), True),
        (volume("v", csi={"driver": "topolvm.io", "volumeHandle": "v"}), True),
        (volume("v", on=IN_ZONE, csi=EBS), False),
        (volume("v", csi=None, nfs={"server": "s", "path": "/"}), False),
    ],
)
def test_a_claim_counts_if_its_volume_is_local(bound_volume: Manifest, counts: bool) -> None:
    source = {"persistentVolumeClaim": {"claimName": "c"}}
    assert counted(source, claim("c", volume="v"), bound_volume, storage_class()) is counts


@pytest.mark.parametrize(
    ("provisioner", "counts"), [("rancher.io/local-path", True), ("ebs.csi.aws.com", False)]
)
def test_a_claim_without_a_volume_counts_if_its_provisioner_is_local(
    provisioner: str, counts: bool
) -> None:
    source = {"persistentVolumeClaim": {"claimName": "c"}}
    assert counted(source, claim("c"), storage_class(provisioner=provisioner)) is counts


def test_a_claim_without_a_provisioner_counts_if_it_may_bind_a_local_volume() -> None:
    source = {"persistentVolumeClaim": {"claimName": "c"}}
    local = volume("v", on=ON_N1, csi=None, local={"path": "/mnt"})
    assert counted(source, claim("c"), storage_class(), local)
    remote = volume("v", csi=None, nfs={"server": "s", "path": "/"})
    assert not counted(source, claim("c"), storage_class(), remote)


def test_an_ephemeral_volume_counts_as_its_claim() -> None:
    source: Manifest = {"ephemeral": {"volumeClaimTemplate": {}}}
    owned = {"ownerReferences": [{"kind": "Pod", "uid": "default/io", "controller": True}]}
    stated_claim = claim("io-data", metadata=owned)
    assert counted(source, stated_claim, storage_class(provisioner="topolvm.io"))


def test_a_volume_that_the_pod_does_not_have_keeps_it_waiting() -> None:
    value = {"lost": {"requests": {"rbps": 1}}}
    assert why_waiting(value, volumes=[{"name": "data", "emptyDir": {}}]) == (
        f"annotation {THROUGHPUT}: 'lost', expected the name of one of spec.volumes"
    )


def test_the_order_of_the_request_is_that_of_the_names() -> None:
    value = {"b": {"requests": {"rbps": 2}}, "a": {"requests": {"rbps": 1}}}
    volumes = [{"name": name, "emptyDir": {}} for name in ("b", "a")]
    manifest = pod(metadata=stating(value), volumes=volumes)
    found = task_of(manifest)
    assert found.shape.disks == DiskRequest((VolumeIO(1, 0), VolumeIO(2, 0)))
    decoded = msgspec.json.decode(json.dumps(manifest), type=objects.Pod)
    assert disk_volume_names(decoded, None) == ("a", "b")
