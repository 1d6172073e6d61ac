"""The report page is complete, inert and self-contained for any results."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
from call_counter import count_calls
from report_parser import SECTIONS, Outline, check, pictures, visible
from report_results import NEVER, PAGE, RAN, RESULTS, STRANDED, made_up, tiny

from afflux.model.machine import Machine
from afflux.model.resources import resources
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from afflux.sim.report import render, write_report
from afflux.sim.result import CycleTiming, Result, Run
from afflux.sim.workload import Submission, Workload


class TestThePage:
    def test_has_every_section_and_well_formed_pictures(self):
        check(PAGE)
        drawn = [svg for svg in pictures(PAGE) if svg.get("role") == "img"]
        # three resources, two distributions, one queue, strips and excerpt for all, and three
        # panels per scheduler
        assert len(drawn) == 3 + 2 + 1 + 2 + 3 * 3

    def test_names_workload_and_schedulers(self):
        text = visible(PAGE)
        assert "made-up mix" in text
        for fact in ("cpu-memory", "load-spreading", "pod-by-pod", "120 groups", "6 machines"):
            assert fact in text

    def test_every_picture_has_a_caption_of_its_section(self):
        assert PAGE.count("<figcaption>") == PAGE.count("<section") == len(SECTIONS) + 2

    def test_loads_nothing_from_the_network(self):
        page = PAGE.replace("http-equiv", "")
        assert "http" not in page
        assert "@import" not in page
        assert "url(" not in page
        for tag, attributes in Outline(PAGE).elements:
            assert tag not in {"link", "iframe", "object", "embed", "base"}
            for name in ("href", "src", "xlink:href", "srcset"):
                assert (attributes.get(name) or "data:").startswith("data:")

    def test_has_both_colour_schemes_and_a_printed_form(self):
        assert "prefers-color-scheme: dark" in PAGE
        assert "@media print" in PAGE

    def test_is_the_same_for_the_same_results(self):
        assert render(RESULTS) == PAGE

    def test_is_written_atomically(self, tmp_path: Path):
        write_report(RESULTS, tmp_path / "report.html")
        assert (tmp_path / "report.html").read_text(encoding="utf-8") == PAGE
        assert [p.name for p in tmp_path.iterdir()] == ["report.html"]

    def test_is_small(self):
        assert len(PAGE.encode()) < 400_000


class TestNames:
    EVIL = "<script>alert('x')</script>\"' onload=\"x\" &amp; ]]> \x00\x1b \ud800"

    def evil(self) -> list[Result]:
        machine = Machine(self.EVIL, resources({"cpu": 4000, self.EVIL: 5}))
        shape = Shape(resources({"cpu": 1000, self.EVIL: 1}))
        tasks = tuple(Task(f"{i}{self.EVIL}", self.EVIL, shape) for i in range(2))
        group = WaitingGroup(self.EVIL, tasks, run_seconds=5.0)
        workload = Workload(self.EVIL, (machine,), (Submission(group, 5.0),))
        runs = tuple(Run(t, self.EVIL, 0.0, 1.0, 2.0, 7.0, self.EVIL) for t in tasks)
        never = tuple(Run(t, self.EVIL, 0.0, None, None, None, None) for t in tasks)
        cycles = (CycleTiming(0.0, 0.001, 1, 1),)
        return [
            Result(self.EVIL, workload, runs, cycles, 7.0),
            Result(self.EVIL + "2", workload, never, cycles, 7.0),
        ]

    def test_are_always_escaped(self):
        page = render(self.evil())
        check(page)
        outline = Outline(page)
        assert [tag for tag, _ in outline.elements].count("script") == 1
        assert not any(name.startswith("on") for _, a in outline.elements for name in a)
        assert "alert('x')</script>" not in page
        assert "&lt;script&gt;alert(" in page

    def test_with_any_characters_can_be_written(self, tmp_path: Path):
        write_report(self.evil(), tmp_path / "evil.html")
        (tmp_path / "evil.html").read_text(encoding="utf-8")

    def test_of_any_length_are_shortened(self):
        long = replace(RESULTS[0], scheduler="x" * 100_000)
        assert len(render([long])) < len(PAGE)

    def test_of_the_same_scheduler_twice_get_a_number(self):
        text = visible(render([RESULTS[0], RESULTS[0]]))
        assert "cpu-memory (2)" in text


class TestEdges:
    @pytest.mark.parametrize(
        "results",
        [
            [tiny([])],
            [tiny([], machines=0, ended_at=0.0, cycles=())],
            [tiny([NEVER], machines=0)],
            [tiny([NEVER, NEVER])],
            [tiny([STRANDED])],
            [tiny([RAN])],
            [tiny([(0.0, 0.0, None)])],
            [tiny([(0.0, 0.0, 0.0)], ended_at=0.0)],
            [tiny([(5.0, 5.0, 5.0)], ended_at=5.0)],
            [tiny([(1e-7, 1e-7, 2e-7)], ended_at=2e-7)],
            [tiny([(3e8, 3e8, 3e9)], ended_at=3e9)],
            [tiny([RAN], cycles=(CycleTiming(0.0, 0.0, 0, 0),))],
            [tiny([RAN], cycles=())],
            [tiny([RAN], scheduler=f"s{i}") for i in range(5)],
            [tiny([RAN], scheduler=f"s{i}") for i in range(13)],
            [tiny([RAN]), tiny([NEVER], "other"), tiny([STRANDED], "third")],
            [tiny([RAN], machines=1001)],
            RESULTS[:1],
            RESULTS[:2],
            [*RESULTS, *RESULTS[:2]],
        ],
        ids=[
            "no tasks",
            "nothing at all",
            "no machines",
            "nothing placed",
            "only held",
            "one task",
            "without end",
            "no time",
            "no time later",
            "microseconds",
            "years",
            "cycles of no time",
            "no cycles",
            "five schedulers",
            "more schedulers than colours",
            "one of three places",
            "many machines",
            "one scheduler",
            "two schedulers",
            "five mixed",
        ],
    )
    def test_have_a_valid_page(self, results: list[Result]):
        check(render(results))

    def test_no_result_is_refused(self):
        with pytest.raises(ValueError, match="at least one result"):
            render([])

    def test_different_workloads_are_refused(self):
        with pytest.raises(ValueError, match=r"one workload, not on .*made-up mix.*tiny"):
            render([RESULTS[0], tiny([RAN])])


def large_comparison(groups: int, cycles: int) -> list[Result]:
    mix = made_up(groups=groups, machines=300)
    draw = random.Random(3)
    results: list[Result] = []
    for name in ("one", "two", "three"):
        runs: list[Run] = []
        for submission in mix.submissions:
            start = submission.group.ready_seconds + draw.expovariate(0.01)
            end = start + (submission.run_seconds or 1.0)
            runs.extend(
                Run(task, submission.group.name, submission.group.ready_seconds, start, start, end,
                    f"node-{draw.randrange(300):03}")
                for task in submission.group.tasks
            )  # fmt: skip
        timings = tuple(
            CycleTiming(i * 0.5, draw.lognormvariate(-6, 1), 1, 1) for i in range(cycles)
        )
        results.append(Result(name, mix, tuple(runs), timings, max(run.end or 0 for run in runs)))
    return results


def test_a_large_comparison_stays_small():
    assert len(render(large_comparison(2_000, 8_000)).encode()) < 1_500_000


def test_work_grows_linearly_with_the_comparison():
    small, large = (
        count_calls(render, large_comparison(groups, 4 * groups)) for groups in (500, 2_000)
    )
    assert large < 5 * small
