"""afflux diskio driver, aggregator and profile: a report from files, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from run_afflux import Afflux

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
PROFILE = {
    "kind": "DiskProfile",
    "model": "v/m",
    "read": {"4k": 1000, "32k": 4000},
    "write": {"4k": 1000, "32k": 4000},
    "total": 5000,
    "devices": ["d1", "d2"],
}


def pod(name: str, **request: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "uid": name,
            "annotations": {"blockio.kubernetes.io/throughput": json.dumps(request)},
        },
        "spec": {"nodeName": "x", "containers": [{"name": "c"}]},
    }


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "profile.json").write_text(json.dumps(PROFILE))
    elsewhere = pod("elsewhere", rbps="1")
    elsewhere["spec"]["nodeName"] = "y"
    pods = [pod("a", rbps="100", blocksize="4k"), pod("b", wbps="50"), elsewhere]
    (tmp_path / "pods.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": pods})
    )
    return tmp_path


FROM_FILES = ("--profile", "profile.json", "--pods", "pods.json")
ONCE = ("diskio", "driver", "--once", "--node", "x", *FROM_FILES)


def test_one_report_needs_no_cluster(afflux: Afflux, files: Path) -> None:
    found = afflux(*ONCE, "-o", "json").json
    capacity = {"read": 4000, "write": 4000, "total": 5000}
    # a reads in blocks of 4k, which cost four times as much; b is on the fuller disk.
    assert found["devices"]["d1"]["left"] == {"read": 3600, "write": 3950, "total": 4550}
    assert found["devices"]["d2"]["left"] == found["devices"]["d2"]["capacity"] == capacity
    assert [(each["uid"], each["device"]) for each in found["pods"]] == [("a", "d1"), ("b", "d1")]
    assert found["unmeasuredPods"] == ["a", "b"]
    mixes = found["devices"]["d1"]["mixError"]["read"]
    assert mixes["atLeast"] <= 1 <= mixes["atMost"]


def test_the_reserved_pods_are_those_of_the_object_if_it_is_given(
    afflux: Afflux, files: Path
) -> None:
    info = {
        "apiVersion": "ioi.intel.com/v1",
        "kind": "NodeDiskIOInfo",
        "metadata": {"name": "x", "uid": "o", "generation": 7},
        "spec": {"nodeName": "x", "reservedPods": ["b", "gone"]},
    }
    (files / "info.json").write_text(json.dumps(info))
    found = afflux(*ONCE, "--pods", "info.json", "--default-charge", "1", "-o", "json").json
    assert found["observedGeneration"] == 7
    assert [(each["uid"], each["requested"]["total"]) for each in found["pods"]] == [
        ("b", 50), ("gone", 2),
    ]  # fmt: skip


def test_the_table_shows_disks_and_the_wide_one_pods(afflux: Afflux, files: Path) -> None:
    default, wide = afflux(*ONCE), afflux(*ONCE, "-o", "wide")
    assert default.out.startswith("DEVICE")
    assert wide.out.startswith(default.out.rstrip())
    assert "CHARGED TOTAL" in wide.out
    assert afflux(*ONCE, "-o", "yaml").out.startswith("version: 1\n")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("driver", "the following arguments are required: --node"),
        ("driver --node x --interval 0", "--interval: '0'; expected seconds from 0.01"),
        ("driver --node x --profile-size 1q", "expected bytes such as 512M or 1G"),
        ("driver --node x --model y", "'y'; expected ID=VENDOR/MODEL"),
        ("driver --node x --port 65536", "expected a whole number from 0 to 65535"),
        ("driver --once --node x --profile missing.json", "'missing.json': No such file"),
        ("driver --once --node x --profile pods.json", "pods.json: "),
        ("driver --node x --pods pods.json", "--pods: is for --once"),
        ("aggregator", "--token-file, --account: expected one of them"),
        ("aggregator --token-file a --account b:c", "--token-file, --account: expected one of"),
        ("aggregator --qps 0 --account b:c", "expected a number from 0.1"),
        ("profile", "one of the arguments --directory --raw-device is required"),
        ("profile --raw-device nothing", "'nothing': no such block device"),
    ],
)
def test_wrong_usage_names_what_was_expected(
    afflux: Afflux, files: Path, command: str, words: str
) -> None:
    assert words in afflux("diskio", *command.split()).complaint


def test_every_command_is_in_the_documentation() -> None:
    for action in ("driver --once", "profile"):
        assert f"| `diskio {action}` |" in PAGE
