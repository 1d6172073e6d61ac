"""YAML means what it means to kubectl, and no file can exhaust memory or the stack."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from manifests import load

from afflux.kube.yaml_reader import documents
from afflux.model.errors import InputError


def value(text: str) -> Any:
    (found,) = documents(text)
    return found


def error_text(text: str) -> str:
    with pytest.raises(InputError) as caught:
        list(documents(text))
    assert "\n" not in str(caught.value)
    return str(caught.value)


with (Path(__file__).parent / "kubectl_scalars.tsv").open(newline="") as table:
    # What sigs.k8s.io/yaml v1.6.0, which kubectl uses, makes of `a: SCALAR` and of
    # `? SCALAR` with the value 1; written by a Go program that calls its YAMLToJSON.
    KUBECTL = [*csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE)]


@pytest.mark.parametrize("row", KUBECTL, ids=[row["scalar"] for row in KUBECTL])
def test_scalars_mean_what_they_mean_to_kubectl(row: dict[str, str]) -> None:
    for text, expected in (
        (f"a: {row['scalar']}", row["value"]),
        (f"? {row['scalar']}\n: 1", row["key"]),
    ):
        if expected == "error":
            assert error_text(text)
        else:
            # 1, 1.0 and True are equal, their texts are not.
            assert repr(value(text)) == repr(json.loads(expected))


def test_block_text_and_missing_values() -> None:
    assert value("a: |\n  1\n") == {"a": "1\n"}
    assert value("a:") == {"a": None}
    assert value("a: 1" + "0" * 400) == {"a": "1" + "0" * 400}


def test_anchors_aliases_and_merges() -> None:
    text = """
    base: &base {cpu: 1, memory: 2}
    more: &more {cpu: 9, disk: 3}
    alias: *base
    merged: {<<: *base, memory: 5}
    list: {<<: [*base, *more]}
    quoted: {"<<": 1}
    """
    found = value(text)
    assert found["alias"] == {"cpu": 1, "memory": 2}
    assert found["merged"] == {"cpu": 1, "memory": 5}
    assert found["list"] == {"cpu": 1, "memory": 2, "disk": 3}
    assert found["quoted"] == {"<<": 1}
    assert found["base"] == {"cpu": 1, "memory": 2}


def test_anchors_end_with_their_document() -> None:
    assert error_text("a: &x 1\n---\nb: *x") == (
        "line 3, column 4: alias '*x' of an anchor that is not defined above"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{a: 1, b: 2, a: 3}", "line 1, column 14: key 'a' twice in one mapping"),
        ("{1: a, '1': b}", "line 1, column 8: key '1' twice in one mapping"),
        ("? [a]\n: b", "line 1, column 3: a key that is a mapping or a list, expected a string"),
        ("&a [x]: b", "line 1, column 1: a key that is a mapping or a list, expected a string"),
        ("~: b", "line 1, column 1: a key that is null, expected a string"),
        ("0E0: a\n0.0: b", "line 2, column 1: key '0' twice in one mapping"),
        (
            "9223372036854775808: a",
            "line 1, column 1: a key that is 9223372036854775808, "
            "expected at most 9223372036854775807",
        ),
        ("a: -.inf", "line 1, column 4: -inf, which JSON does not have; expected a finite number"),
        (
            "&a .inf: *a",
            "line 1, column 10: inf, which JSON does not have; expected a finite number",
        ),
        ("a: !!int abc", "line 1, column 4: 'abc' with the tag !!int, expected such a value"),
        ("<<: 1", "line 1, column 5: merge key '<<' with something that is not a mapping"),
        ("a: &a [*a]", "line 1, column 8: alias '*a' inside what it stands for"),
        (
            "!!python/object/apply:os.system [x]",
            "line 1, column 1: tag 'tag:yaml.org,2002:python/object/apply:os.system', "
            "expected plain values only",
        ),
        (
            "a: !!binary aGk=",
            "line 1, column 4: tag 'tag:yaml.org,2002:binary', expected plain values only",
        ),
        (
            "a:\n\t- b",
            "line 2, column 1: not valid YAML: found character that cannot start any token",
        ),
    ],
)
def test_refused_documents_name_line_and_column(text: str, expected: str) -> None:
    assert error_text(text) == expected


def bomb(levels: int, width: int, load_text: str = "x") -> str:
    lines = [f"a0: &a0 [{', '.join([load_text] * width)}]"]
    for level in range(1, levels):
        aliases = ", ".join([f"*a{level - 1}"] * width)
        lines.append(f"a{level}: &a{level} [{aliases}]")
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        bomb(9, 9),
        bomb(200, 10),
        bomb(4, 30, "y" * 100_000),
        "a: &a {k: v}\n" + "".join(f"b{i}: &b{i} {{<<: *a, c: *a}}\n" for i in range(10))
        + bomb(9, 9),
    ],
)  # fmt: skip
def test_nested_aliases_are_counted_before_they_are_copied(text: str) -> None:
    # The reader only refers to what an alias stands for: copies are made of what it yields.
    with pytest.raises(InputError, match="aliases unfold to more than 5000000 values"):
        next(documents(text))


def test_a_chain_of_aliases_is_bounded_in_depth() -> None:
    chain = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 3000))
    with pytest.raises(InputError, match="nested too deeply"):
        load([("chain.yaml", chain.encode())])


@pytest.mark.parametrize("text", ["- " * 100_000, "a: [" + "[" * 100_000, "{a: " * 100_000])
def test_nesting_is_bounded(text: str) -> None:
    assert "nested more than 200 levels deep" in error_text(f"---\n{text}")


@given(st.text(alphabet="ab:-[]{}&*!|>'\"\\#%@,?~<1.\n\t ", max_size=60))
def test_any_text_is_read_or_raises_one_line(text: str) -> None:
    try:
        list(documents(text))
    except InputError as error:
        error_text = str(error)
    else:
        error_text = ""
    assert "\n" not in error_text
