"""What one pod may name: beyond a limit it waits, with the field and the numbers."""

import json

import msgspec
import pytest
from manifests import node, pod, reasons

from afflux.kube import objects, pods
from afflux.kube.sized_cache import sized_cache
from afflux.model.selectors import ANYWHERE


def required(*terms: list[dict]) -> dict:
    listed = [{"matchExpressions": expressions} for expressions in terms]
    wanted = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": listed}}
    return {"affinity": {"nodeAffinity": wanted}}


def exists(key: str) -> dict:
    return {"key": key, "operator": "Exists"}


def has_one_of(key: str, values: list[str]) -> dict:
    return {"key": key, "operator": "In", "values": values}


NAMES = [f"node-{number}" for number in range(5_000)]
AFFINITY = "spec.affinity.nodeAffinity"


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (
            required(*([exists("k")] for _ in range(513))),
            f"{AFFINITY}: 513 expressions, expected at most 512",
        ),
        (
            required(*([] for _ in range(513))),
            f"{AFFINITY}: 513 expressions, expected at most 512",
        ),
        (
            required([has_one_of("k", NAMES[:4_097])]),
            f"{AFFINITY}: 4097 values, expected at most 4096",
        ),
        (
            required([exists(f"k{number}") for number in range(129)]),
            f"{AFFINITY}: 129 different label keys, expected at most 128",
        ),
        (
            required([has_one_of("k", [f"{name:x<63}" for name in NAMES[:4_096]])] * 2)
            | {"nodeSelector": {"k" * 5_000: "v"}},
            f"{AFFINITY}: 8193 values, expected at most 4096",
        ),
        (
            required([exists("k" * 262_145)]),
            f"{AFFINITY}: 262145 characters, expected at most 262144",
        ),
        (
            {"nodeSelector": {f"k{number}": "v" for number in range(129)}},
            "spec.nodeSelector: 129 different label keys, expected at most 128",
        ),
        (
            {"tolerations": [exists(f"k{number}") for number in range(257)]},
            "spec.tolerations: 257 tolerations, expected at most 256",
        ),
    ],
)
def test_a_pod_beyond_a_limit_waits_with_the_field_and_the_numbers(spec: dict, reason: str):
    assert reasons(node(), pod("p", **spec)) == {"default/p": reason}


def test_a_pod_at_the_limits_is_not_refused():
    expressions = [has_one_of(f"k{number % 128}", NAMES[:8]) for number in range(512)]
    tolerated = [exists(f"k{number}") for number in range(256)]
    assert not reasons(node(), pod("p", tolerations=tolerated, **required(expressions)))


def test_a_running_pod_beyond_a_limit_is_counted_with_its_requests():
    manifest = pod("p", nodeName="n1", **required([has_one_of("k", NAMES)]))
    running = msgspec.json.decode(json.dumps(manifest), type=objects.Pod)
    found = pods.task(running)
    assert found.blocked is None
    assert found.shape.affinity is ANYWHERE
    assert ("cpu", 1_000) in found.shape.requests


def test_a_cache_is_bounded_by_the_size_of_its_answers():
    computed: list[str] = []

    @sized_cache(len, 10)
    def doubled(text: str) -> str:
        computed.append(text)
        return text * 2

    for number in range(100):
        # Half of the cache holds two answers of two letters.
        for text in ("a", str(number % 10)):
            assert doubled(text) == text * 2
    assert computed.count("a") == 1
    assert computed.count("5") == 10
    assert doubled("too large") == doubled("too large")
    assert computed.count("too large") == 2
