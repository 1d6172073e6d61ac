"""bench.kube: figures, tables, picture and page of stored runs."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # bench is not part of the package

from bench.kube import docs_section, report
from bench.kube.plans import Machine, Plan, Pod, PodClass
from bench.kube.plot import draw, round_up
from bench.kube.results import (
    API_SERVER,
    BACKLOG,
    SCHEDULER,
    STREAM,
    Imbalance,
    Run,
    Seen,
    as_dict,
    from_dict,
    imbalance,
    medians,
    quantile,
    waits,
)

SVG = "{http://www.w3.org/2000/svg}"


def a_run(scheduler: str, rate: float, cpu: float, **other: object) -> Run:
    run = Run(
        nodes=1000,
        workload="plain",
        mode=STREAM,
        scheduler=scheduler,
        pods=2000,
        placed=2000,
        seconds=2000 / rate,
        p50_seconds=0.012,
        p99_seconds=0.2,
        cpu_seconds={SCHEDULER: 2 * cpu, API_SERVER: 6.0},
        peak_bytes=100 << 20,
        events=2000,
        imbalance=Imbalance(0.01, 0.05, 0.02, 0.1),
    )
    return replace(run, **other)  # pyright: ignore[reportArgumentType]


RUNS = [
    a_run("afflux", 450, 0.5),
    a_run("kube-scheduler", 300, 1.5),
    a_run("null", 600, 0.1),
    a_run("afflux", 90, 2.0, workload="burst", placed=1900),
    a_run("kube-scheduler", 300, 1.5, workload="burst", placed=1800),
    a_run("null", 600, 0.1, workload="burst"),
    a_run("afflux", 560, 0.5, mode=BACKLOG, nodes=5000),
    a_run("kube-scheduler", 700, 0.6, mode=BACKLOG, nodes=5000),
    a_run("null", 600, 0.1, mode=BACKLOG, nodes=5000),
]


def test_quantiles_are_measured_values():
    assert quantile([], 0.5) is None
    assert quantile([3.0], 0.99) == 3.0
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.0
    assert quantile(list(range(1, 101)), 0.99) == 99


def test_waits_count_from_the_creation_or_from_a_given_time():
    seen = Seen([1.0, 2.0, 3.0], [1.5, -1.0, 7.0], ["a", "", "b"])
    assert waits(seen, None) == [0.5, 4.0]
    assert waits(seen, 1.0) == [0.5, 6.0]


def test_imbalance_includes_pods_that_ran_before():
    machines = [Machine("a", 1000, 1000), Machine("b", 2000, 1000)]
    classes = {"c": PodClass(500, 100), "f": PodClass(1000, 500)}
    plan = Plan(machines, classes, [Pod("p", "c", "a"), Pod("q", "c", "b")], [Pod("x", "f", "b")])
    # cpu: a 0.5, b 0.5; memory: a 0.1, b 0.5
    found = imbalance(plan, {"p": "a"})
    assert found.cpu_deviation == found.cpu_range == pytest.approx(0.0)
    assert found.memory_deviation == pytest.approx(0.2)
    assert found.memory_range == pytest.approx(0.4)
    assert imbalance(plan, {"p": "b", "q": "b"}).cpu_range == pytest.approx(1.0)


def test_a_stored_run_is_read_back():
    for run in (RUNS[0], Run(5, "plain", STREAM, "afflux", 10, complaints=["it fell over"])):
        kept = json.loads(json.dumps(as_dict(run)))
        assert from_dict(kept) == replace(
            run, seconds=kept["seconds"], complaints=kept["complaints"]
        )
    assert as_dict(RUNS[0])["pods_per_second"] == 450
    assert as_dict(RUNS[0])["cpu_per_thousand"] == 0.5
    assert as_dict(RUNS[0])["seconds"] == 4.44444


def test_figures_are_shown_in_a_fixed_order_of_schedulers():
    turned = [RUNS[2], RUNS[0], RUNS[1], *RUNS[3:]]
    assert list(report.ordered(medians(turned))) == list(medians(RUNS))


def test_figures_are_medians_of_runs():
    found = medians([a_run("null", 100, 1.0), a_run("null", 900, 3.0), a_run("null", 300, 8.0)])
    (one,) = found.values()
    assert one.pods_per_second == pytest.approx(300)
    assert one.cpu_of(SCHEDULER) == pytest.approx(3.0)


def test_goals_are_relative_to_the_peer_or_the_ceiling():
    plain, burst, backlog = report.goals(medians(RUNS))
    assert plain.fast
    assert plain.cheap
    assert plain.of_ceiling == pytest.approx(0.75)
    assert not burst.fast
    assert not burst.cheap
    # Slower than the peer, but at 93 % of what the API server can take.
    assert backlog.fast
    assert backlog.of_peer == pytest.approx(0.8)


def test_the_delay_of_one_pod_is_relative_to_the_null_binder():
    trickle = [
        a_run("afflux", 20, 1.0, workload="trickle", p50_seconds=0.030, p99_seconds=0.09),
        a_run("null", 20, 0.1, workload="trickle", p50_seconds=0.010, p99_seconds=0.02),
    ]
    ((nodes, p50, p99),) = report.idle_delays(medians([*RUNS, *trickle]))
    assert (nodes, p50, p99) == (1000, pytest.approx(0.02), pytest.approx(0.07))
    text = docs_section.section("a machine", [*trickle, *RUNS])
    assert "afflux took 20 ms longer than the null binder in the median and 70 ms longer" in text


def test_tables_have_a_cell_for_every_column():
    failed = Run(1000, "mixed", STREAM, "afflux", 100, complaints=["machine x is over capacity"])
    found = medians([*RUNS, failed])
    assert {len(row) for row in report.rows(found)} == {len(report.HEADER)}
    assert {len(row) for row in report.share_rows(found)} == {len(report.SHARES_HEADER)}
    assert {len(row) for row in report.goal_rows(report.goals(found))} == {len(report.GOALS_HEADER)}
    assert "FAILED" in report.rows(found)[-1]
    assert report.wrong(found) == ["1,000, mixed, stream, afflux: machine x is over capacity"]
    assert "1,900 of 2,000" in next(row for row in report.rows(found) if "burst" in row)


def test_shares_are_relative_to_the_null_binder():
    first = report.share_rows(medians(RUNS))[0]
    assert first == ["1,000", "plain", "stream", "afflux", "0.75", "1.00", "1.00", "5.00", "1.00", "1.00", "1.00", "1.00"]  # noqa: E501  # fmt: skip


def test_the_section_of_the_page_is_replaced():
    before = "# Benchmarks\n\nWords.\n"
    once = docs_section.rewritten(before, "a machine", RUNS)
    assert once.startswith(before)
    assert "| 1,000 | plain | afflux | 2,000 | 450 | 0.75 | 12 | 200 | 0.50 | 0.33 |" in once
    assert "burst stream at 1,000 (0.32 of its speed)" in once
    assert "afflux 100 of 2,000 (1,000 nodes, burst, stream)" in once
    after = f"{once}\n## More\n\nOther words.\n"
    again = docs_section.rewritten(after, "a machine", [a_run("afflux", 777, 0.5)])
    begin = docs_section.BEGIN.format(file="kube.json")
    assert again.count(begin) == again.count(docs_section.END) == 1
    assert "777" in again
    assert "| 450 |" not in again
    assert again.endswith("\n## More\n\nOther words.\n")
    assert again.startswith(before)


def test_a_failed_run_is_shown_on_the_page():
    failed = replace(RUNS[0], complaints=["machine x is over its capacity"])
    text = docs_section.section("a machine", [failed, *RUNS[1:]])
    assert "1 of 9 runs failed" in text
    assert "| failed |" in text


def test_the_picture_has_a_panel_for_each_size_and_figure():
    root = ElementTree.fromstring(draw(medians(RUNS)))  # noqa: S314 - our own
    words = [each.text or "" for each in root.iter(f"{SVG}text")]
    assert sum(word.startswith("1,000 nodes") for word in words) == 3
    assert sum(word.startswith("5,000 nodes") for word in words) == 3
    bars = [each for each in root.iter(f"{SVG}path") if each.get("class") in {"ours", "peer"}]
    # Two schedulers: two streams, one backlog, CPU of two streams; and the legend.
    assert len(bars) == 2 * (2 + 1 + 2) + 2


@pytest.mark.parametrize(("value", "above"), [(0, 1), (1, 1), (1.2, 2), (420, 500), (0.3, 0.5)])
def test_scales_end_at_round_numbers(value: float, above: float):
    assert round_up(value) == pytest.approx(above)


def test_the_constraints_between_pods_have_a_section_of_their_own():
    constrained = [replace(run, workload="services", mode=BACKLOG) for run in RUNS]
    page = docs_section.rewritten("# Benchmarks\n", "a machine", RUNS)
    both = docs_section.rewritten(page, "a machine", constrained)
    assert both.startswith(page.rstrip())
    assert both.count(docs_section.END) == 2
    assert "- *services*:" in both
