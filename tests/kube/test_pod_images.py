"""Only images that distinguish machines enter the model."""

from typing import Any

import pytest
from manifests import inventory, node, only_task, pod

from afflux.kube.images import ImageCensus
from afflux.model.errors import InputError
from afflux.model.images import Images, normalised
from afflux.model.machine import Machine

MIB = 1024 * 1024


def with_images(name: str, **mebibytes: int) -> dict[str, Any]:
    images = [
        {"names": [f"{image}@sha256:0", f"{image}:1"], "sizeBytes": size * MIB}
        for image, size in mebibytes.items()
    ]
    return node(name, images=images)


def running(*images: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": f"c{n}", "image": image} for n, image in enumerate(images)]
    return pod(containers=containers, **spec)


CLUSTER = [with_images("n1", app=100, tool=22, base=50), with_images("n2", base=50)]


def test_a_machine_has_its_large_images_by_each_name() -> None:
    first, _ = inventory(*CLUSTER).machines
    assert first.images == {
        f"{name}{tag}": size * MIB
        for name, size in (("app", 100), ("base", 50))
        for tag in ("@sha256:0", ":1")
    }


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (running("app:1"), Images(("app:1",), 1)),
        (running("app@sha256:0"), Images(("app@sha256:0",), 1)),
        (running("other:1", "app:1", "app:1"), Images(("app:1", "app:1"), 3)),
        (
            running("other:1", initContainers=[{"name": "i", "image": "app:1"}]),
            Images(("app:1",), 2),
        ),
        (
            running("other:1", volumes=[{"name": "v", "image": {"reference": "app:1"}}]),
            Images(("app:1",), 2),
        ),
        # Another tag, too small, on every machine, on no machine: these do not matter.
        (running("app"), None),
        (running("tool:1"), None),
        (running("base:1"), None),
        (running("new:1"), None),
        (running(""), None),
    ],
)
def test_the_images_of_a_pod(manifest: dict[str, Any], expected: Images | None) -> None:
    assert only_task(*CLUSTER, manifest).shape.images == expected


def test_pods_that_differ_in_unknown_images_share_a_shape() -> None:
    pods = [running(f"new:{n}", metadata={"name": f"p{n}"}) for n in range(5)]
    loaded = inventory(*CLUSTER, *pods)
    assert len({group.tasks[0].shape for group in loaded.groups}) == 1


def test_an_invalid_image_volume_is_an_error() -> None:
    wrong = running("app:1", volumes=[{"name": "v", "image": {"reference": 7}}])
    expected = r"Pod default/web: spec\.volumes\[0\]\.image: reference: 7, expected a string"
    with pytest.raises(InputError, match=expected):
        inventory(*CLUSTER, wrong)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("app", "app:latest"),
        ("app:1", "app:1"),
        ("host:5000/app", "host:5000/app:latest"),
        ("host:5000/app:1", "host:5000/app:1"),
        ("host/app@sha256:0", "host/app@sha256:0"),
    ],
)
def test_an_image_without_a_tag_means_latest(written: str, meant: str) -> None:
    assert normalised(written) == meant


def test_the_census_is_updated_with_machines() -> None:
    def machine(name: str, **mebibytes: int) -> Machine:
        return Machine(name, (), images={image: n * MIB for image, n in mebibytes.items()})

    census = ImageCensus([machine("a", x=100, y=30), machine("b")])
    assert "x" in census
    assert "y" not in census  # 30 MiB on half of the machines are 15
    census.set(machine("b", x=100))
    assert "x" not in census  # on all of them
    census.set(machine("b", y=60))
    assert "x" in census
    census.remove("a")
    assert "x" not in census
    assert "y" not in census
    census.set(machine("c"))
    assert "y" in census
