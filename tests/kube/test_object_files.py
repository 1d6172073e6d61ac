"""Output of kubectl can be read; errors name file, object and field on one line."""

import json
from typing import Any

import pytest
import yaml
from manifests import Manifest, as_list, inventory, load, node, pod

from afflux.model.errors import InputError


def names(content: str | bytes, file: str = "cluster.json") -> list[str]:
    """The names of the machines and tasks found in this file."""
    data = content if isinstance(content, bytes) else content.encode()
    loaded = load([(file, data)])
    tasks = [task.name for group in loaded.groups for task in group.tasks]
    return [machine.name for machine in loaded.machines] + tasks


def error_text(content: str | bytes, file: str = "x") -> str:
    data = content if isinstance(content, bytes) else content.encode()
    with pytest.raises(InputError) as caught:
        load([(file, data)])
    assert "\n" not in str(caught.value)
    return str(caught.value)


def kind_list(kind: str, *items: Any) -> Manifest:
    return {"apiVersion": "v1", "kind": kind, "items": list(items)}


def without_kind(manifest: Manifest) -> Manifest:
    return {key: value for key, value in manifest.items() if key not in {"kind", "apiVersion"}}


# --- The forms objects come in

BOTH = ["n1", "default/web"]


def test_a_list_of_mixed_kinds() -> None:
    assert names(as_list(node(), pod())) == BOTH


def test_one_object() -> None:
    assert names(json.dumps(node())) == ["n1"]


def test_lists_in_lists_and_empty_lists() -> None:
    inner = kind_list("List", kind_list("List", node()), kind_list("NodeList"))
    assert names(as_list(inner, {**kind_list("List"), "items": None}, pod())) == BOTH


def test_a_typed_list_whose_items_leave_out_their_kind() -> None:
    nodes = kind_list("NodeList", without_kind(node()))
    pods = kind_list("PodList", without_kind(pod()))
    assert names(json.dumps(nodes)) + names(json.dumps(pods)) == BOTH


def test_an_array_and_several_json_texts_in_a_row() -> None:
    assert names(json.dumps([node(), pod()])) == BOTH
    assert names(f"{json.dumps(node())}\n{json.dumps(pod(), indent=1)}\n") == BOTH


def test_yaml_documents() -> None:
    documents = [yaml.safe_dump(kind_list("List", node())), "# nothing\n", yaml.safe_dump(pod())]
    assert names("---\n" + "---\n".join(documents)) == BOTH


def test_a_yaml_flow_mapping_in_a_yaml_file() -> None:
    text = "{apiVersion: v1, kind: Node, metadata: {name: n1}}"
    assert names(text, "node.yaml") == ["n1"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings_that_shells_write(encoding: str) -> None:
    assert names(as_list(node(), pod()).decode().encode(encoding)) == BOTH


def test_several_files() -> None:
    loaded = load([("a.json", as_list(node())), ("b.yaml", yaml.safe_dump(pod()).encode())])
    assert (len(loaded.machines), len(loaded.groups)) == (1, 1)


def test_other_kinds_are_counted_and_ignored() -> None:
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "items": 5}
    foreign = {"apiVersion": "longhorn.io/v1beta2", "kind": "Node", "metadata": {"name": 5}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}
    loaded = inventory(deployment, deployment, foreign, claim, node())
    assert loaded.ignored == {"Deployment": 2, "Node.longhorn.io": 1}


def test_null_means_absent() -> None:
    bare = {"name": "web", "namespace": None, "labels": None, "creationTimestamp": None}
    empty = pod(metadata=bare, affinity=None, tolerations=None, nodeName=None, volumes=None)
    assert names(as_list(empty)) == ["default/web"]


# --- Which pods are which


def test_the_id_of_a_task_is_its_uid_or_its_name() -> None:
    loaded = inventory(pod("a", metadata={"uid": "123"}), pod("b"))
    assert [group.tasks[0].id for group in loaded.groups] == ["123", "default/b"]


def test_finished_pods_are_left_out_and_bound_pods_run() -> None:
    done = pod("done", nodeName="n1", status={"phase": "Succeeded"})
    failed = pod("failed", status={"phase": "Failed"})
    loaded = inventory(node("n1"), done, failed, pod("up", nodeName="n1"))
    assert [(task.name, on) for task, on in loaded.running] == [("default/up", "n1")]
    assert not loaded.groups


def test_pods_on_unknown_nodes_and_deleted_pods_are_noted() -> None:
    leaving = pod("old", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    elsewhere = [pod(f"p{i}", nodeName="n9") for i in range(5)]
    loaded = inventory(node("n1"), leaving, *elsewhere)
    assert not loaded.running
    assert not loaded.groups
    assert not loaded.waiting
    assert loaded.notes == (
        "5 pods are on nodes that are not in the input and take up nothing: "
        "default/p0, default/p1, default/p2 and 2 more",
        "1 pod is being deleted and had no node; left alone: default/old",
    )


# --- What cannot be read

HEAD = "apiVersion: v1\nkind: Pod\n"
EMPTY = "x: empty, expected Kubernetes objects in JSON or YAML"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", EMPTY),
        (" \n\t", EMPTY),
        ("# nothing\n---\n", EMPTY),
        ("hello", "x: 'hello', expected a mapping"),
        ("{", "x: not valid JSON: it ends too early"),
        ('{"kind": }', "x: not valid JSON: invalid character (byte 9)"),
        ("[1]", "x: items[0]: 1, expected a mapping"),
        (b"\x89PNG\r\n", "x: byte 0 is not utf-8 text, expected JSON or YAML"),
        (
            '{"metadata": {"name": "a"}}',
            "x: object default/a: kind: missing, expected one such as Pod",
        ),
        ('{"kind": "Pod"}', "x: Pod: apiVersion: missing, expected e.g. v1"),
        ('{"kind": 3}', "x: kind: 3, expected a string (put it in quotes)"),
        ('{"kind": "List", "apiVersion": "v1", "items": 5}', "x: items: 5, expected a list"),
        (HEAD, "x: Pod: metadata.name: missing, expected a name"),
        (
            HEAD + "metadata: {name: a/b}",
            "x: Pod default/a/b: metadata.name: 'a/b', expected a plain name",
        ),
        (
            HEAD + "metadata: {name: a, labels: {app: web, version: 1}}",
            "x: Pod default/a: metadata.labels[version]: 1, expected a string (put it in quotes)",
        ),
        (
            HEAD + "metadata: {name: a, labels: {on: yes}}",
            "x: Pod default/a: metadata.labels[true]: true, expected a string (put it in quotes)",
        ),
        (
            HEAD + "metadata: {name: a}\nspec: {priority: high}",
            "x: Pod default/a: spec.priority: 'high', expected a whole number",
        ),
        (
            HEAD + "metadata: {name: a}\nspec: {priority: 3000000000}",
            "x: Pod default/a: spec.priority: 3000000000, expected a whole number <= 2147483647",
        ),
        (
            HEAD + "metadata: {name: a}\nspec: {containers: {name: c}}",
            'x: Pod default/a: spec.containers: {"name":"c"}, expected a list',
        ),
        (
            "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nspec: {taints: [{key: a}]}",
            "x: Node a: spec.taints[0].effect: missing, expected a value",
        ),
    ],
)
def test_errors_name_object_and_field_on_one_line(content: str | bytes, expected: str) -> None:
    assert error_text(content) == expected


@pytest.mark.parametrize("again", [node("n1"), pod("web")])
def test_the_same_object_twice_is_an_error(again: Manifest) -> None:
    with pytest.raises(InputError) as caught:
        load([("a.json", as_list(node("n1"), pod("web"))), ("b.json", as_list(again))])
    assert ": given twice, first in a.json: items[" in str(caught.value)
    assert str(caught.value).startswith("b.json: items[0]: ")


def test_two_pods_with_one_uid_are_an_error() -> None:
    with pytest.raises(InputError, match=r"metadata\.uid: 'u' is also that of default/a"):
        inventory(pod("a", metadata={"uid": "u"}), pod("b", metadata={"uid": "u"}))


def test_an_error_names_document_and_list_index() -> None:
    broken = pod("web", priority="high")
    nested = kind_list("List", node("n2"), kind_list("List", broken))
    documents = f"{yaml.safe_dump(node())}---\n{yaml.safe_dump(nested)}"
    assert error_text(documents, "all.yaml") == (
        "all.yaml: document 2: items[1].items[0]: Pod default/web: spec.priority: 'high', "
        "expected a whole number"
    )


def test_the_nesting_of_lists_is_bounded() -> None:
    manifest = node()
    for _ in range(20):
        manifest = kind_list("List", manifest)
    assert error_text(json.dumps(manifest)).endswith("lists nested more than 8 deep")


@pytest.mark.parametrize(
    "content", ["[" * 10**6, '{"a":' * 10**6, '{"apiVersion":"v1","kind":"Pod","x":' + "[" * 10**6]
)
def test_deeply_nested_json_is_refused(content: str) -> None:
    assert error_text(content) == "x: nested too deeply"
