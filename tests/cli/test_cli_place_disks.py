"""afflux place judges disks like everything else: from NodeDiskIOInfo objects, the ConfigMap of the
normalisers and their contents, all given as files."""

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cluster_manifests import Manifest, node, pod, write
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from run_afflux import Afflux, Answer

MI = 2**20
POLICY = ("--policy", "cpu-memory+disk-io")
Place = Callable[..., Answer]


def disks(name: str, *, model: str = "", reserved: tuple[str, ...] = (), **left: int) -> Manifest:
    """The disks of a node with so many MiB per second left."""
    figures = {
        disk: {"status": dict.fromkeys(("total", "read", "write"), amount * MI)}
        for disk, amount in left.items()
    }
    models = json.dumps(dict.fromkeys(left, model)) if model else "{}"
    return {
        "apiVersion": "ioi.intel.com/v1",
        "kind": "NodeDiskIOInfo",
        "metadata": {
            "name": name,
            "namespace": "any",
            "generation": 1,
            "annotations": {"afflux.dev/disk-models": models},
        },
        "spec": {"nodeName": name, "reservedPods": list(reserved)},
        "status": {"observedGeneration": 1, "allocatableBandwidth": figures},
    }


def io_pod(name: str, read: str = "60Mi", **spec: Any) -> Manifest:
    found = pod(name, cpu="100m", **spec)
    stated = json.dumps({"rbps": read, "blocksize": "4k"})
    found["metadata"]["annotations"] = {"blockio.kubernetes.io/throughput": stated}
    return found


def table(factor: float, name: str = "Acme/NV100") -> bytes:
    factors = {"4k": factor, "32k": 1}
    found = {"kind": "DiskCoefficients", "name": name, "read": factors, "write": factors}
    return json.dumps(found).encode()


def vendors(*entries: Manifest, name: str = "normalization-func") -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": {"diskVendors": json.dumps(entries), "other": "text"},
    }


def entry(content: bytes | None = None, **more: Any) -> Manifest:
    digest = {} if content is None else {"digest": f"sha256:{hashlib.sha256(content).hexdigest()}"}
    return {"vendorName": "Acme", "model": "NV100", **digest, **more}


@pytest.fixture
def place(afflux: Afflux, tmp_path: Path) -> Place:
    def call(*items: Manifest, contents: tuple[bytes, ...] = (), more: Any = POLICY) -> Answer:
        files = [write(tmp_path / "cluster.json", *items)]
        for number, content in enumerate(contents):
            files.append(tmp_path / f"content{number}")
            files[-1].write_bytes(content)
        return afflux("place", *files, "-o", "json", *more)

    return call


def where(answer: Answer) -> dict[str, str]:
    return {each["pod"]: each["node"] for each in answer.json["placements"]}


def why(answer: Answer) -> dict[str, str]:
    return {each["pod"]: each["reason"] for each in answer.json["waiting"]}


def test_pods_share_a_disk_as_long_as_it_has_room(place: Place) -> None:
    found = place(node("n1"), disks("n1", a=100), *(io_pod(f"p{n}", "40Mi") for n in range(3)))
    assert len(where(found)) == 2
    (reason,) = why(found).values()
    assert reason == "0/1 nodes are available: 1 node(s) had insufficient disk bandwidth."


def test_every_node_has_its_reason(place: Place) -> None:
    unreadable = disks("n4", a=1000)
    unreadable["metadata"]["annotations"] = {"afflux.dev/disk-models": "broken"}
    found = place(
        *(node(f"n{number}") for number in range(1, 5)),
        disks("n2", a=10),
        disks("n3", model="Acme/NV100", a=1000),
        unreadable,
        io_pod("p"),
    )
    _, _, reasons = why(found)["shop/p"].partition("0/4 nodes are available: ")
    assert set(reasons.removesuffix(".").split(", ")) == {
        "1 node(s) had no disk IO information",
        "1 node(s) had insufficient disk bandwidth",
        "1 node(s) had disks of a model without a normalisation function",
        "1 node(s) had disks whose models cannot be read",
    }


def test_without_the_policy_disks_do_not_count(place: Place) -> None:
    found = place(node("n1"), disks("n1", a=1), vendors(), io_pod("p"), more=())
    assert where(found) == {"shop/p": "n1"}
    assert "ignored objects that do not matter here: 1 ConfigMap, 1 NodeDiskIOInfo" in found.err


def test_running_pods_count_unless_the_report_acknowledges_them(place: Place) -> None:
    running = io_pod("running", "60Mi", on="n1")
    running["metadata"]["uid"] = "u1"
    new = io_pod("new", "60Mi")
    unknown = place(node("n1"), disks("n1", a=100), running, new)
    assert where(unknown) == {}
    known = place(node("n1"), disks("n1", a=100, reserved=("u1",)), running, new)
    assert where(known) == {"shop/new": "n1"}


def test_a_malformed_annotation_keeps_the_pod_waiting_and_no_other(place: Place) -> None:
    found = place(node("n1"), disks("n1", a=100), io_pod("bad", "fast"), io_pod("good"))
    assert where(found) == {"shop/good": "n1"}
    assert why(found)["shop/bad"].startswith(
        "annotation blockio.kubernetes.io/throughput: rbps: 'fast', expected bytes per second"
    )


# --- Normalisers


def test_a_table_normalises_for_the_model_that_its_entry_names(place: Place) -> None:
    content = table(2)
    cluster = [node("n1"), disks("n1", model="Acme/NV100", a=100), vendors(entry(content))]
    small, large = io_pod("small", "50Mi"), io_pod("large", "51Mi")
    assert where(place(*cluster, small, contents=(content,))) == {"shop/small": "n1"}
    found = place(*cluster, large, contents=(content,))
    assert "insufficient disk bandwidth" in why(found)["shop/large"]
    assert (
        "note: the normaliser of Acme/NV100 is not signed by a trusted key (diskIO.trustedKeys)"
    ) in found.err


def test_an_entry_without_a_digest_takes_the_table_of_its_name(place: Place) -> None:
    cluster = [node("n1"), disks("n1", model="Acme/NV100", a=100), vendors(entry())]
    assert where(place(*cluster, io_pod("p"), contents=(table(1),)))
    found = place(*cluster, io_pod("p"), contents=(table(1, "another"),))
    assert "a model without a normalisation function" in why(found)["shop/p"]
    assert "no normaliser of Acme/NV100: none of the given files is its content" in found.err
    assert "no entry of the ConfigMap selects this normaliser" in found.err


def test_another_config_map_lists_no_normalisers(place: Place) -> None:
    content = table(1)
    cluster = [node("n1"), disks("n1", model="Acme/NV100", a=100)]
    found = place(*cluster, vendors(entry(content), name="x"), io_pod("p"), contents=(content,))
    assert where(found) == {}
    assert "ignored objects that do not matter here: 1 ConfigMap" in found.err


def test_a_list_of_normalisers_that_cannot_be_read_is_an_error_of_the_input(place: Place) -> None:
    broken = vendors()
    broken["data"]["diskVendors"] = "{"
    complaint = place(node("n1"), broken, io_pod("p")).complaint
    assert "ConfigMap default/normalization-func: diskVendors: " in complaint


def test_with_trusted_keys_normalisers_must_be_signed(place: Place, tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    raw = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"k1": base64.b64encode(raw).decode()}))
    config = tmp_path / "afflux.yaml"
    config.write_text(
        "apiVersion: afflux.dev/v1alpha1\nkind: AffluxConfiguration\n"
        f"policies: [{{name: cpu-memory}}, {{name: disk-io}}]\ndiskIO: {{trustedKeys: {keys}}}\n"
    )
    content = table(1)
    cluster = [node("n1"), disks("n1", model="Acme/NV100", a=100), io_pod("p")]
    more = ("--config", str(config))
    unsigned = place(*cluster, vendors(entry(content)), contents=(content,), more=more)
    assert where(unsigned) == {}
    assert "signature: missing, expected that of a trusted key" in unsigned.err
    digest = entry(content)["digest"]
    covered = {"digest": digest, "model": "NV100", "vendor": "Acme", "version": 1}
    signature = key.sign(json.dumps(covered, sort_keys=True, separators=(",", ":")).encode())
    signed = entry(content, version=1, keyId="k1", signature=base64.b64encode(signature).decode())
    found = place(*cluster, vendors(signed), contents=(content,), more=more)
    assert where(found) == {"shop/p": "n1"}
    assert found.err == ""
