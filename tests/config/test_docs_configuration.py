"""docs/configuration.md lists every field with its type and default."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_origin

import msgspec
import pytest

from afflux.config import read_configuration
from afflux.config.durations import Duration
from afflux.config.schema import ConfigurationFile, Fields
from afflux.config.unknown_fields import field_types, mapping_in

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
ROW = re.compile(r"\| `(?P<field>[^`]+)` \| (?P<type>[^|]+?) \| (?P<default>[^|]*?) ?\| .+ \|")
WORDS = {
    str: "string",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Duration: "duration",
}

# Defaults that depend on other fields or are abbreviated.
IN_WORDS = {
    "queues": "`[{name: default}]`",
    "queues[].strategy": "the top-level `strategy`",
    "queues[].depth": "all",
    "queues[].reservations": "64 for `hybrid`, all for `conservative-*`",
    "queues[].defaultDuration": "without end",
    "queues[].limits.duration": "none",
    "queues[].limits.groups": "none",
    "policies": "`[{name: cpu-memory}]`",
    "cleanup.halfBoundAfter": "never",
    "profiles": "`[{schedulerName: afflux}]`",
    "profiles[].schedulerName": "`afflux`",
    "profiles[].policies": "the top-level `policies`",
    "profiles[].topologySpread": "the top-level `topologySpread`",
    "profiles[].preemption.enabled": "`true`, not for `simulate`",
    "topologySpread.defaultConstraints": "`[]`",
    "topologySpread.defaultConstraints[].minDomains": "none",
}


def type_word(annotation: object) -> str:
    members = [member for member in get_args(annotation) if member is not type(None)]
    if get_origin(annotation) is tuple:
        return "list"
    if get_origin(annotation) is dict:
        return "mapping"
    if members:
        return type_word(members[0])
    assert isinstance(annotation, type)
    if issubclass(annotation, Fields):
        return "mapping"
    return WORDS[annotation]


def fields(mapping: type[Fields], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Path, type and default of every field that holds a value."""
    details = {field.encode_name: field for field in msgspec.structs.fields(mapping)}
    for name, annotation in field_types(mapping):
        path = f"{prefix}{name}"
        inner = mapping_in(annotation)
        if inner is not None and annotation is inner:
            yield from fields(inner, f"{path}.")
            continue
        field = details[name]
        default = "" if field.required else shown(default_of(field))
        yield path, type_word(annotation), IN_WORDS.get(path, default)
        # The fields of a mapping that may be missing are those of the top-level one.
        if inner is not None and "list" in type_word(annotation):
            yield from fields(inner, f"{path}[].")


def default_of(field: msgspec.structs.FieldInfo) -> object:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    assert callable(field.default_factory)
    return field.default_factory()


def shown(value: object) -> str:
    match value:
        case bool():
            text = str(value).lower()
        case "":
            text = '""'
        case float():
            text = f"{value:g}"
        case _:
            text = str(value)
    return f"`{text}`"


def test_the_page_lists_every_field_with_its_type_and_default() -> None:
    listed = [
        (row["field"], row["type"], row["default"])
        for line in PAGE.read_text().splitlines()
        if (row := ROW.fullmatch(line))
    ]
    assert listed == list(fields(ConfigurationFile))


def test_the_example_on_the_page_can_be_read(tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert blocks
    for number, block in enumerate(blocks):
        path = tmp_path / f"{number}.yaml"
        path.write_text(block)
        assert read_configuration(str(path)).profiles


def test_the_example_on_the_page_about_groups_has_two_profiles(tmp_path: Path) -> None:
    (block,) = re.findall(
        r"```yaml\n(apiVersion: afflux.*?)```", PAGE.with_name("groups.md").read_text(), re.DOTALL
    )
    path = tmp_path / "afflux.yaml"
    path.write_text(block)
    profiles = read_configuration(str(path)).profiles
    assert [each.scheduler_name for each in profiles] == ["afflux", "fluxnetes"]


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)]+)\)", PAGE.read_text()))
def test_links_have_targets(link: str) -> None:
    assert (PAGE.parent / link).exists()
