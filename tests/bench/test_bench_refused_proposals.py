"""The benchmark of refused proposals, on a small cluster."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # bench is not part of the package

from afflux.plan.refused_proposals import REFUSAL_KINDS
from bench import refused_proposals


def test_every_workload_reports_what_was_refused():
    found = {r.workload: r for r in refused_proposals.measure(machines=30, tasks=90)}
    assert found["no constraints, load 1.1"].refused.keys() <= {"resources"}
    assert all(kind in REFUSAL_KINDS for each in found.values() for kind in each.refused)
    assert any(each.refused for each in found.values())
