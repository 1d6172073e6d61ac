"""docs/groups.md is correct: its states, its picture, its messages, its links."""

import re
from pathlib import Path

import pytest
from registered_queue import MACHINE, Queue, member, queue_with

from afflux.groups.member import Hold
from afflux.groups.states import GROUP_STATES
from afflux.kube import objects
from afflux.kube.group_claims import member as claimed
from afflux.model.resources import resources
from afflux.model.task import Shape, Task

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "groups.md").read_text()
PICTURE = (DOCS / "pictures" / "group-life.svg").read_text()


def test_the_page_lists_every_state_of_a_group() -> None:
    table = re.search(r"^\| state \|.*?(?=\n\n)", PAGE, re.DOTALL | re.MULTILINE)
    assert table
    named = re.findall(r"^\| `(\w+)` ", table[0], re.MULTILINE)
    assert sorted(named) == sorted(GROUP_STATES)


def test_the_picture_shows_every_state_of_a_group_and_every_table() -> None:
    shown = set(re.findall(r">([a-z_]+)</text>", PICTURE))
    tables = {"provisional_groups", "queue", "running_groups", "finished_groups"}
    assert shown >= {*GROUP_STATES, *tables}


# --- The arrows of the picture


def state(queue: Queue) -> str:
    """The state of the only group there is, as the ledger gets it."""
    queue.take()
    changes, ended, _ = queue.register.changes.take(0.0)
    (entry,) = [each.entry for each in (*changes, *ended)]
    return entry.state


def test_a_group_goes_from_its_first_pod_to_its_last_one() -> None:
    queue = queue_with(member("a", "g"))
    assert state(queue) == "provisional"
    queue.put(member("b", "g"))
    assert state(queue) == "waiting"
    queue.send(*"ab")
    assert state(queue) == "starting"
    queue.bind(*"ab")
    assert state(queue) == "running"
    queue.end("a")
    assert state(queue) == "running"
    queue.end("b")
    assert state(queue) == "finished"


def test_a_group_that_lacks_a_pod_is_provisional_again() -> None:
    queue = queue_with(member("a", "g"), member("b", "g"))
    assert state(queue) == "waiting"
    queue.end("b")
    assert state(queue) == "provisional"
    queue.end("a")
    assert state(queue) == "finished"


def test_a_group_of_refused_pods_is_refused_until_they_are_corrected() -> None:
    queue = queue_with(member("a", "g", 1, problem=Hold("refused", "a size of 0")))
    assert state(queue) == "refused"
    queue.put(member("a", "g"))
    assert state(queue) == "provisional"
    queue.put(member("a", "g", 1, problem=Hold("refused", "a size of 0")))
    assert state(queue) == "refused"


def test_a_group_is_unsatisfiable_until_the_cluster_changes() -> None:
    queue = queue_with(member("a", "g", 1))
    (key,) = queue.by_key
    queue.register.set_reasons({}, {key: "too large"})
    assert state(queue) == "unsatisfiable"
    queue.register.set_reasons({}, {})
    assert state(queue) == "waiting"


def test_a_group_waits_again_after_a_failed_bind_and_while_too_few_are_bound() -> None:
    queue = queue_with(member("a", "g"), member("b", "g"))
    queue.send(*"ab")
    assert state(queue) == "starting"
    queue.reject(*"ab")
    assert state(queue) == "waiting"
    queue.send(*"ab")
    queue.bind(*"ab")
    assert state(queue) == "running"
    queue.end("a")
    queue.put(member("again", "g"))
    assert state(queue) == "waiting"
    queue.register.sent("uid-again", MACHINE)
    assert state(queue) == "starting"


# --- Messages and links


def test_the_page_has_the_words_about_a_size_without_a_name() -> None:
    labels = {"afflux.dev/group-size": "4"}
    pod = objects.Pod(
        metadata=objects.Metadata(name="a", namespace="default", uid="uid-a", labels=labels)
    )
    problem = claimed(pod, Task("uid-a", "default/a", Shape(resources({"cpu": 1})))).claim.problem
    assert problem is not None
    assert problem.kind == "refused"
    assert f"`{problem.why}`" in PAGE


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", PAGE))
def test_links_have_targets(link: str) -> None:
    assert (DOCS / link).exists()


@pytest.mark.parametrize("anchor", sorted(set(re.findall(r"\]\(#([^)]+)\)", PAGE))))
def test_links_within_the_page_have_targets(anchor: str) -> None:
    headings = re.findall(r"^#+ (.+)$", PAGE, re.MULTILINE)
    assert anchor in {heading.lower().replace(" ", "-") for heading in headings}
