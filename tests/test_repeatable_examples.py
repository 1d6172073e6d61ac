"""Property tests draw the same examples in every run, and new ones with the profile `explore`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROPERTY = """
from hypothesis import given, strategies as st

@given(st.lists(st.integers()))
def test_prints_what_it_draws(numbers):
    print(numbers)
"""


def drawn(folder: Path, *arguments: str, ci: bool = False) -> list[str]:
    """The examples that one run of pytest in a process of its own draws.

    Hypothesis has other defaults where the variable CI is set.
    """
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    if ci:
        environment["CI"] = "true"
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:xdist", *arguments, str(folder)],
        check=True, capture_output=True, text=True, timeout=300, env=environment,
    )  # fmt: skip
    return [line for line in found.stdout.splitlines() if line.startswith("[")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "test_property.py").write_text(PROPERTY)
    (tmp_path / "conftest.py").write_text((Path(__file__).parent / "conftest.py").read_text())
    return tmp_path


def test_two_runs_draw_the_same_examples(folder: Path):
    first = drawn(folder)
    assert len(first) > 50
    assert drawn(folder, ci=True) == first


@pytest.mark.parametrize("ci", [False, True])
def test_exploration_draws_what_its_seed_says(folder: Path, ci: bool):
    explore = ("-m", "hypothesis", "--hypothesis-profile=explore")
    seventh = drawn(folder, *explore, "--hypothesis-seed=7", ci=ci)
    assert seventh != drawn(folder, ci=ci)
    assert drawn(folder, *explore, "--hypothesis-seed=7", ci=ci) == seventh
    assert drawn(folder, *explore, "--hypothesis-seed=8", ci=ci) != seventh
