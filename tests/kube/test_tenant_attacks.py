"""One tenant's pods may name what they like: memory stays bounded, and others start at once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import tenant_attacks

# Without the limits most of these attacks take 1.3 to more than 3 GB, with them less than 45 MB.
MAX_GROWTH_MIB = 200


def cost_of(kind: str) -> dict:
    """In a process of its own, as the peak of memory is that of a process."""
    program = Path(tenant_attacks.__file__)
    ran = subprocess.run(
        [sys.executable, str(program), kind],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
    )
    return json.loads(ran.stdout)


@pytest.mark.parametrize(
    "kind",
    [
        *("affinity", "resources", "ports", "keys", "tolerations"),
        *("terms", "spread", "expressions", "repulsion", "skews"),
    ],
)
def test_an_attack_takes_little_memory_and_delays_no_other_tenant(kind: str):
    cost = cost_of(kind)
    assert cost["cycle"] == 1
    assert cost["growth_mib"] < MAX_GROWTH_MIB
    assert "expected at most" in cost["reason"]


def test_sets_without_a_place_are_searched_for_a_bounded_number_of_times():
    cost = cost_of("sets")
    assert cost["cycle"] == 1
    assert cost["growth_mib"] < MAX_GROWTH_MIB
    # 48 searches; without the bound, each of the 1,000 is searched for, several times in a round.
    assert cost["untried_sets"] > 100
    assert cost["cut_searches"] < 100
