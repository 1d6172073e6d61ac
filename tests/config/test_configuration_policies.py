"""Configuration: which policies with which weights and arguments, and which strategy."""

from pathlib import Path

import pytest

from afflux import config
from afflux.config import PolicySettings, SchedulerSettings, parse_scheduler_spec, read_settings
from afflux.model.errors import InputError

HEADER = "apiVersion: afflux.dev/v1alpha1\nkind: AffluxConfiguration\n"


def read(tmp_path: Path, content: str | bytes) -> SchedulerSettings:
    path = tmp_path / "afflux.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_settings(str(path))


def policies(settings: SchedulerSettings) -> list[tuple[str, int, dict[str, object]]]:
    return [(policy.name, policy.weight, policy.args) for policy in settings.policies]


# --- In a file


def test_the_example_in_the_documentation_is_valid(tmp_path: Path) -> None:
    assert config.__doc__ is not None
    lines = config.__doc__.splitlines()
    example = "\n".join(line[4:] for line in lines if line.startswith("    "))
    settings = read(tmp_path, example)
    assert policies(settings) == [("cpu-memory", 2, {"omega": 1000})]
    assert settings.strategy == "flow"


def test_missing_fields_have_defaults(tmp_path: Path) -> None:
    settings = read(tmp_path, HEADER)
    assert policies(settings) == [("cpu-memory", 1, {})]
    assert settings.strategy == "flow"


def test_policies_keep_their_order(tmp_path: Path) -> None:
    content = "policies: [{name: b, weight: 0}, {name: a, weight: 10000}]"
    assert policies(read(tmp_path, HEADER + content)) == [("b", 0, {}), ("a", 10_000, {})]


def test_messages_name_the_file(tmp_path: Path) -> None:
    assert read(tmp_path, HEADER).origin == str(tmp_path / "afflux.yaml")


@pytest.mark.parametrize(
    "content",
    [
        '{"apiVersion": "afflux.dev/v1alpha1", "kind": "AffluxConfiguration", "strategy": "fcfs"}',
        f"# why\n---\n{HEADER}strategy: fcfs\n---\n",
        f"\ufeff{HEADER}strategy: fcfs\n",
        (HEADER + "strategy: fcfs\n").replace("\n", "\r\n"),
    ],
    ids=["JSON", "comment and empty document", "byte order mark", "CRLF"],
)
def test_equivalent_spellings_are_accepted(tmp_path: Path, content: str) -> None:
    assert read(tmp_path, content).strategy == "fcfs"


def test_a_policy_cannot_be_changed_by_another_one(tmp_path: Path) -> None:
    one, other = PolicySettings("a"), PolicySettings("b")
    assert one.args is not other.args


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (HEADER + "polices: []", "polices: unknown field; expected one of apiVersion, kind, "),
        (
            HEADER + "policies: [{name: a}, {name: b, wait: 1}]",
            "policies[1].wait: unknown field; expected one of name, weight, args",
        ),
        (
            HEADER + "policies: [{name: a, weight: -1}]",
            "policies[0].weight: -1, expected a whole number from 0 to 10000",
        ),
        (
            HEADER + "policies: [{name: a, weight: 10001}]",
            "policies[0].weight: 10001, expected a whole number from 0 to 10000",
        ),
        (HEADER + "policies: [{name: a, weight: heavy}]", "policies[0].weight: 'heavy', expected"),
        (
            HEADER + "policies: [{name: a, args: {omega: -1}}]",
            "policies[0].args.omega: -1, expected a whole number from 0 to 10000",
        ),
        (HEADER + "policies: [{name: a, args: [1]}]", "policies[0].args: [1], expected a mapping"),
        (HEADER + "policies: [{name: a}, {name: a}]", "policy 'a' is named twice"),
        (HEADER + "policies: []", "policies: [], expected at least one"),
        ("kind: AffluxConfiguration", "apiVersion: missing"),
        (HEADER.replace("v1alpha1", "v2"), "apiVersion: 'afflux.dev/v2', expected afflux.dev/v1"),
        (HEADER.replace("kind: Afflux", "kind: "), "kind: 'Configuration', expected Afflux"),
        ("", "0 documents; expected one AffluxConfiguration"),
        (f"{HEADER}---\n{HEADER}", "2 documents; expected one AffluxConfiguration"),
        ("a: [", "not valid YAML"),
        (b"\xff\xfe\xfd", "byte 0 is not UTF-8 text"),
    ],
)
def test_wrong_values_are_refused_with_their_field(
    tmp_path: Path, content: str | bytes, complaint: str
) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path, content)
    assert str(refused.value).startswith(f"{tmp_path / 'afflux.yaml'}: ")
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("path", ["no/such/file", ".", "null\0byte"])
def test_files_that_cannot_be_read_are_refused(path: str) -> None:
    with pytest.raises(InputError, match="expected a file that can be read"):
        read_settings(path)


# --- On the command line


@pytest.mark.parametrize(
    ("text", "names", "strategy"),
    [
        ("cpu-memory", ["cpu-memory"], "flow"),
        ("cpu-memory@fcfs", ["cpu-memory"], "fcfs"),
        ("cpu-memory+load-spreading", ["cpu-memory", "load-spreading"], "flow"),
        ("a+b+c@easy", ["a", "b", "c"], "easy"),
        # Nothing is guessed: these find no policy or strategy of that name later on.
        ("", [""], "flow"),
        ("a@", ["a"], ""),
        ("a@b@c", ["a"], "b@c"),
        (" a", [" a"], "flow"),
    ],
)
def test_a_scheduler_is_named_by_policies_and_strategy(
    text: str, names: list[str], strategy: str
) -> None:
    settings = parse_scheduler_spec(text)
    assert policies(settings) == [(name, 1, {}) for name in names]
    assert settings.strategy == strategy
    assert repr(text) in settings.origin


def test_a_policy_is_named_once() -> None:
    with pytest.raises(InputError, match=r"scheduler 'a\+b\+a': policy 'a' is named twice"):
        parse_scheduler_spec("a+b+a")
