"""docs/quorum-rules.md is correct: its configuration, its contract, its example as a package."""

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
from registered_queue import Queue, member

from afflux import app
from afflux.cli import main
from afflux.config import read_configuration, read_settings
from afflux.groups.half_bound import HalfBoundGroups
from afflux.groups.member import Member
from afflux.groups.quorum import BUILT_IN, ENTRY_POINT_GROUP, Presence, Starts
from afflux.groups.register import GroupRegister
from afflux.model.errors import InputError
from afflux.queue.rules import QueueRules

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "quorum-rules.md").read_text()
ELASTIC = {"elastic": QueueRules("elastic", quorum="most-members")}


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return found


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    path = tmp_path / "afflux.yaml"
    path.write_text(block("yaml"))
    return path


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example as an installed package."""
    declared = re.fullmatch(
        r'\[project\.entry-points\."(.+)"\]\n([\w-]+) = "([\w.]+):(\w+)"\n', block("toml")
    )
    assert declared
    group, name, module, function = declared.groups()
    assert group == ENTRY_POINT_GROUP
    path = tmp_path.joinpath(*module.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True)
    (path.parent / "__init__.py").touch()
    path.write_text(block("python"))
    about = tmp_path / "my_rules-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-rules\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}:{function}\n")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.fixture
def queue(shipped: None, configuration: Path) -> Queue:
    rules = app.quorum_rules(read_settings(str(configuration)))
    return Queue(GroupRegister(ELASTIC, rules))


def elastic(name: str, *, second: int = 0, bound: bool = False, size: int = 4) -> Member:
    return member(name, "g", size, queue="elastic", second=second, bound=bound)


# --- Choosing a rule


def test_the_default_of_a_queue_is_the_rule_of_the_page(configuration: Path) -> None:
    default, chosen = read_settings(str(configuration)).queue_rules()
    assert default.quorum == "whole-group"
    assert set(BUILT_IN) == {"whole-group"}
    assert chosen.quorum == "most-members"


def test_a_rule_that_is_not_installed_is_refused_with_the_file_the_queue_and_the_known_ones(
    configuration: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["place", str(configuration), "--config", str(configuration)]) == 2
    assert capsys.readouterr().err == (
        f"afflux place: {configuration}: queues[1].quorum: "
        "unknown quorum rule 'most-members'; expected one of whole-group\n"
    )


def test_a_rule_that_is_not_installed_is_refused_before_the_cluster_is_reached(
    configuration: Path,
) -> None:
    with pytest.raises(InputError, match=r"queues\[1\]\.quorum: unknown quorum rule"):
        app.run_in_kubernetes(read_configuration(str(configuration)), "no/kubeconfig", None)


@pytest.mark.usefixtures("shipped")
def test_an_installed_rule_is_one_of_the_known_ones(configuration: Path) -> None:
    configuration.write_text(block("yaml").replace("most-members", "most"))
    with pytest.raises(InputError, match=r"expected one of whole-group, most-members$"):
        app.quorum_rules(read_settings(str(configuration)))


# --- The example


def test_a_group_with_most_of_its_members_starts(queue: Queue) -> None:
    queue.put(elastic("a"), elastic("b"))
    assert not queue.names()
    hold = queue.hold("a")
    assert hold is not None
    assert hold.why == "group default/g has 2 of the 3 members that it needs"
    queue.put(elastic("c"))
    assert queue.names() == {"default/g": ["default/a", "default/b", "default/c"]}


def test_a_member_that_comes_after_most_of_them_run_starts_alone(queue: Queue) -> None:
    queue.put(*(elastic(name, bound=True) for name in "abc"))
    assert not queue.names()
    queue.put(elastic("d"))
    assert queue.names() == {"default/d": ["default/d"]}
    # Also if fewer than most run now.
    queue.end("a")
    assert queue.names() == {"default/d": ["default/d"]}


def states(queue: Queue) -> dict[str, str]:
    changes, _, _ = queue.register.changes.take(0.0)
    return {change.entry.id.name: change.entry.state for change in changes}


def test_a_group_of_which_most_members_run_is_running_while_the_last_one_waits(
    queue: Queue,
) -> None:
    queue.put(elastic("a"), elastic("b"), elastic("c"))
    queue.take()
    assert states(queue) == {"g": "waiting"}
    queue.bind(*"abc")
    queue.put(elastic("d"))
    queue.take()
    assert states(queue) == {"g": "running"}


@pytest.mark.usefixtures("shipped")
def test_only_a_group_of_which_fewer_than_most_are_bound_is_half_bound(configuration: Path) -> None:
    half_bound = HalfBoundGroups(after_seconds=60.0)
    rules = app.quorum_rules(read_settings(str(configuration)))
    queue = Queue(GroupRegister(ELASTIC, rules, half_bound=half_bound))

    def due_seconds(now_seconds: float) -> float | None:
        """When the group has been half-bound for too long; None if it is not half-bound."""
        queue.register.take_starts(now_seconds)
        return half_bound.next_seconds()

    queue.put(*map(elastic, "abcd"))
    queue.bind(*"ab")
    assert due_seconds(1.0) == 61.0
    # The bind of the third fails: it does not interrupt the time.
    queue.send("c")
    assert due_seconds(2.0) is None
    queue.reject("c")
    assert due_seconds(3.0) == 61.0
    queue.bind("c")
    assert due_seconds(4.0) is None
    # Most members ran at one time.
    queue.end("a")
    assert due_seconds(5.0) is None


def test_a_group_keeps_its_place_while_some_of_its_members_are_missing(queue: Queue) -> None:
    queue.put(*(elastic(name, second=1) for name in "abc"))
    place = queue.place("g")
    queue.put(member("other", queue="elastic", second=2))
    for _ in range(3):
        queue.send(*"abc")
        queue.take()
        queue.reject(*"abc")
        assert queue.place("g") == place
    queue.bind(*"abc")
    queue.take()
    # The group lacks one member: the late one has the group's place.
    queue.put(elastic("d", second=9))
    assert queue.place("d") == place


def test_a_group_below_its_quorum_loses_its_place(queue: Queue) -> None:
    queue.put(*(elastic(name, second=1) for name in "abc"))
    place = queue.place("g")
    queue.end("c")
    queue.take()
    queue.put(elastic("d", second=9))
    assert queue.place("g") > place


def pods(names: str, queue: str) -> list[dict[str, object]]:
    labels = {
        "afflux.dev/group-name": f"in-{queue}",
        "afflux.dev/group-size": "4",
        "afflux.dev/queue": queue,
    }
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{queue}-{name}", "labels": labels},
            "spec": {"containers": [container]},
            "status": {"phase": "Pending"},
        }
        for name in names
    ]


@pytest.mark.usefixtures("shipped")
def test_afflux_place_uses_the_rule_of_each_queue(
    configuration: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": "16", "memory": "16Gi", "pods": "110"}},
    }
    items = [node, *pods("abc", "elastic"), *pods("abc", "default")]
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert main(["place", str(cluster), "--config", str(configuration), "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert sorted(each["pod"] for each in answer["placements"]) == [
        f"default/elastic-{name}" for name in "abc"
    ]
    assert {each["reason"] for each in answer["waiting"]} == {
        "group default/in-default has 3 of 4 members"
    }


# --- The contract


@pytest.mark.parametrize("described", [Presence, Starts])
def test_the_page_describes_every_field(described: type[Presence | Starts]) -> None:
    table = re.search(rf"\| `{described.__name__}` \|.*?(?=\n\n)", PAGE, re.DOTALL)
    assert table
    named = re.findall(r"^\| `(\w+)` ", table[0], re.MULTILINE)
    assert named == [described.__name__, *(field.name for field in fields(described))]


def failing(group: Presence) -> Starts:
    raise ZeroDivisionError(group.name)


def test_an_error_of_a_rule_keeps_only_its_own_groups_waiting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rules = {**ELASTIC, "default": QueueRules()}
    queue = Queue(GroupRegister(rules, {**BUILT_IN, "most-members": failing}))
    queue.put(elastic("a", size=1), member("b", "h", 1))
    assert queue.names() == {"default/h": ["default/b"]}
    hold = queue.hold("a")
    assert hold is not None
    assert hold.kind == "waits"
    assert hold.why == "an error of the scheduler (ZeroDivisionError), see its log"
    assert "group default/g could not be evaluated" in caplog.text


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", PAGE))
def test_links_have_targets(link: str) -> None:
    assert (DOCS / link).exists()
