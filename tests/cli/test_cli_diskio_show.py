"""afflux diskio show: disks, what is left of them, and the pods on them."""

import json
from pathlib import Path

import pytest
from cluster_manifests import Manifest, pod, write
from run_afflux import Afflux, Answer

MI = 2**20


def info(**changes: object) -> Manifest:
    left = {"total": 60 * MI, "read": 30 * MI, "write": 30 * MI}
    measured = {"u1": {"ssd": {"read": 3 * MI, "write": 0}}}
    return {
        "apiVersion": "ioi.intel.com/v1",
        "kind": "NodeDiskIOInfo",
        "metadata": {
            "name": "n1",
            "namespace": "disks",
            "generation": 4,
            "annotations": {
                "afflux.dev/disk-models": '{"ssd": "Acme/NV100"}',
                "afflux.dev/disk-measurements": json.dumps(measured),
                "afflux.dev/reserved-disks": '{"u1": ["ssd"]}',
                "afflux.dev/disk-reported-at": "2026-01-01T00:00:00Z",
            },
        },
        "spec": {"nodeName": "n1", "reservedPods": ["u1", "u2"]},
        "status": {
            "observedGeneration": 4,
            "allocatableBandwidth": {"ssd": {"name": "/dev/sda", "status": left}},
        },
        **changes,
    }


def io_pod() -> Manifest:
    found = pod("io", on="n1")
    stated = {"blockio.kubernetes.io/throughput": '{"rbps": "5Mi", "wbps": "1Mi"}'}
    found["metadata"] |= {"uid": "u1", "annotations": stated}
    return found


@pytest.fixture
def shown(afflux: Afflux, tmp_path: Path) -> Answer:
    file = write(tmp_path / "disks.json", info(), io_pod())
    return afflux("diskio", "show", file, "-o", "json")


def test_every_disk_has_its_model_what_is_left_and_its_pods(shown: Answer) -> None:
    (node,) = shown.json["nodes"]
    assert node == {
        "node": "n1",
        "generation": 4,
        "observedGeneration": 4,
        "reportedAt": "2026-01-01T00:00:00Z",
        "remarks": [],
        "disks": [
            {
                "id": "ssd",
                "name": "/dev/sda",
                "model": "Acme/NV100",
                "left": {"read": 30 * MI, "write": 30 * MI, "total": 60 * MI},
                "pods": [
                    {
                        "uid": "u1",
                        "pod": "shop/io",
                        "stated": {"read": 5 * MI, "write": MI},
                        "measured": {"read": 3 * MI, "write": 0},
                    }
                ],
            }
        ],
        "podsWithoutDisk": [
            {
                "uid": "u2",
                "pod": None,
                "stated": {"read": 0, "write": 0},
                "measured": {"read": 0, "write": 0},
            }
        ],
    }


def test_the_table_adds_up(afflux: Afflux, tmp_path: Path) -> None:
    file = write(tmp_path / "disks.json", info(), io_pod())
    lines = afflux("diskio", "show", file, "-o", "wide").out.splitlines()
    assert lines[0].split() == [
        *("NODE", "DISK", "MODEL", "LEFT", "READ", "WRITE", "STATED", "MEASURED"),
        *("PODS", "NAME", "NAMES"),
    ]
    assert lines[1].split() == [
        *("n1", "ssd", "Acme/NV100", "60.0Mi", "30.0Mi", "30.0Mi", "6.0Mi", "3.0Mi"),
        *("1", "/dev/sda", "shop/io"),
    ]
    assert lines[2].split()[-3:] == ["1", "-", "u2"]


def test_what_is_out_of_date_or_not_used_is_remarked(afflux: Afflux, tmp_path: Path) -> None:
    behind = info(status={**info()["status"], "observedGeneration": 3})
    empty = info(status={})
    empty["metadata"] = {"name": "z", "namespace": "disks", "creationTimestamp": "2026"}
    file = write(tmp_path / "disks.json", behind, empty)
    assert afflux("diskio", "show", file).out.splitlines()[-3:] == [
        "n1: not used: answers generation 3",
        "n1: not used: another object of this node is older",
        "n1: nothing reported",
    ]


def test_without_objects_there_are_no_disks(afflux: Afflux, tmp_path: Path) -> None:
    file = write(tmp_path / "cluster.json", pod("web"))
    assert afflux("diskio", "show", file).out == "No disks are reported.\n"


def test_files_and_a_cluster_are_not_asked_at_once(afflux: Afflux, tmp_path: Path) -> None:
    file = write(tmp_path / "cluster.json", pod("web"))
    assert "expected one of the two" in afflux("diskio", "show", file, "--context", "x").complaint
    assert "given twice" in afflux("diskio", "show", "-", "-").complaint


def test_a_cluster_that_does_not_answer_is_no_wrong_usage(
    afflux: Afflux, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
                "users": [{"name": "u", "user": {}}],
            }
        )
    )
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    answer = afflux("diskio", "show")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.startswith("afflux diskio show: GET ")
