"""YAML means what it means to kubectl, and cannot be used to hurt."""

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from afflux.kube.inventory import load
from afflux.kube.yaml_events import documents
from afflux.model.errors import InputError


def value(text: str) -> Any:
    (found,) = documents(text)
    return found


def complaint(text: str) -> str:
    with pytest.raises(InputError) as caught:
        list(documents(text))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("abc", "abc"),
        ("'1'", "1"),
        ('"true"', "true"),
        ("!!str 5", "5"),
        ("! 5", "5"),
        ("|\n  1\n", "1\n"),
        ("1", 1),
        ("-12", -12),
        ("0x1F", 31),
        ("010", 8),
        ("0o10", 8),
        ("0b11", 3),
        ("1_000", 1000),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("99999999999999999999", 99999999999999999999),
        ("9" * 101, "9" * 101),
        ("1e999", "1e999"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("12:30:45", "12:30:45"),
        ("1.2.3", "1.2.3"),
        ("500m", "500m"),
        ("-", None),
        ("yes", True),
        ("off", False),
        ("True", True),
        ("~", None),
        ("", None),
        ("2026-01-31T08:00:00Z", "2026-01-31T08:00:00Z"),
        ("2026-01-31", "2026-01-31"),
        ("!!timestamp 2026-01-31", "2026-01-31"),
    ],
)
def test_scalars(written: str, meant: Any) -> None:
    found = value(f"a: {written}" if written != "-" else "a:")["a"]
    assert (found, type(found)) == (meant, type(meant))


def test_keys_become_strings() -> None:
    assert value("{1: a, true: b, 1.5: c, '2': d}") == {"1": "a", "true": "b", "1.5": "c", "2": "d"}


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
    assert complaint("a: &x 1\n---\nb: *x") == (
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
def test_what_is_refused_with_its_place(text: str, expected: str) -> None:
    assert complaint(text) == expected


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
def test_a_bomb_is_defused_before_it_unfolds(text: str) -> None:
    start = time.perf_counter()
    with pytest.raises(InputError, match="aliases unfold to more than 5000000 values"):
        load([("bomb.yaml", text.encode())])
    assert time.perf_counter() - start < 2


def test_a_chain_of_aliases_is_not_a_way_around_the_depth() -> None:
    chain = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 3000))
    with pytest.raises(InputError, match="nested too deeply"):
        load([("chain.yaml", chain.encode())])


@pytest.mark.parametrize("text", ["- " * 100_000, "a: [" + "[" * 100_000, "{a: " * 100_000])
def test_nesting_without_bottom_is_refused(text: str) -> None:
    assert "nested more than 200 levels deep" in complaint(f"---\n{text}")


@settings(deadline=None)
@given(st.text(alphabet="ab:-[]{}&*!|>'\"\\#%@,?~<1.\n\t ", max_size=60))
def test_no_text_raises_anything_else(text: str) -> None:
    try:
        list(documents(text))
    except InputError as error:
        complaint = str(error)
    else:
        complaint = ""
    assert "\n" not in complaint
