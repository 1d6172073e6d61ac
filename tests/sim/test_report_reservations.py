"""Strategies side by side on the page: who was backfilled, what was promised, what was kept."""

import re
import time
from dataclasses import replace
from random import Random

import pytest
from report_outline import check, pictures, visible
from reported_results import tiny

from afflux.app import contestant
from afflux.config import parse_spec
from afflux.model.group import Group
from afflux.model.machine import Machine
from afflux.model.resources import resources
from afflux.model.task import Shape, Task
from afflux.sim.replay import replay
from afflux.sim.report import render
from afflux.sim.report.closeup import MOST, find_stretch
from afflux.sim.report.comparison import compare
from afflux.sim.result import CycleTiming, Promised, Result, Run
from afflux.sim.swf import read_swf
from afflux.sim.workload import Submission, Workload

STRATEGIES = ["fcfs", "easy", "hybrid", "conservative-compress", "conservative-rebuild"]


def random_log(jobs: int = 80, size: int = 8) -> Workload:
    rng = Random(7)
    lines: list[str] = []
    submit = 0
    for number in range(1, jobs + 1):
        submit += rng.choice([0, 5, 20, 40])
        estimate = rng.choice([10, 30, 100, 300])
        run = rng.choice([estimate, max(1, estimate // 3)])
        processors = rng.choice([1, 1, 2, 3, size])
        lines.append(f"{number} {submit} -1 {run} {processors} -1 -1 -1 {estimate}" + " -1" * 9)
    return read_swf("\n".join(lines) + "\n", "log", size)


@pytest.fixture(scope="module")
def results() -> list[Result]:
    log = random_log()
    return [replay(log, contestant(parse_spec(f"cpu-memory@{name}"))) for name in STRATEGIES]


@pytest.fixture(scope="module")
def page(results: list[Result]) -> str:
    return render(results)


def part(page: str, key: str) -> str:
    """A section of the page, empty if it has none."""
    found = re.search(rf'<section id="{key}".*?</section>', page, re.DOTALL)
    return found[0] if found else ""


class Passing:
    """Three groups one after the other: `wide` waits, `small` passes it."""

    hosts = (Machine("m", resources({"cpu": 4})),)

    def __init__(self, *promised: Promised, wide: float = 60.0, name: str = "toy") -> None:
        lives = {"first": (0.0, 0.0, 50.0), "wide": (10.0, wide, 90.0), "small": (20.0, 20.0, 40.0)}
        submissions: list[Submission] = []
        runs: list[Run] = []
        for group, (submit, start, end) in lives.items():
            task = Task(group, group, Shape(resources({"cpu": 2})))
            group_of = Group(group, (task,), ready_seconds=submit, run_seconds=end - start)
            submissions.append(Submission(group_of, end - start))
            runs.append(Run(task, group, submit, start, start, end, "m"))
        workload = Workload("three", self.hosts, tuple(submissions))
        cycles = (CycleTiming(0.0, 0.001, 1, 1),)
        self.result = Result(name, workload, tuple(runs), cycles, 90.0, promised)

    @property
    def page(self) -> str:
        return render([self.result])


def row_of(page: str, name: str, key: str = "closeup") -> str:
    """What is drawn of a group, its tooltip first."""
    found = re.search(rf"<g><title>{name}, .*?</g>", part(page, key), re.DOTALL)
    assert found, name
    return found[0]


class TestThePage:
    def test_is_well_formed_and_has_both_sections(self, page: str):
        check(page)
        assert part(page, "backfilling")
        assert part(page, "closeup")

    def test_has_one_picture_for_all_schedulers_in_each_of_them(self, page: str):
        for key in ("backfilling", "closeup"):
            drawn = [svg for svg in pictures(part(page, key)) if svg.get("role") == "img"]
            assert len(drawn) == 1
            for name in STRATEGIES:
                assert f"cpu-memory@{name}" in visible(part(page, key))

    def test_says_nothing_of_it_where_nobody_passed_and_nothing_was_promised(
        self, results: list[Result]
    ):
        alone = render(results[:1])
        check(alone)
        assert not part(alone, "backfilling")
        assert not part(alone, "closeup")
        assert "Backfilled" not in visible(alone)

    def test_of_many_schedulers_and_groups_stays_small_and_quick(self):
        groups = 10_000
        rng = Random(1)
        hosts = tuple(Machine(f"m{i}", resources({"cpu": 4000})) for i in range(100))
        shape = Shape(resources({"cpu": 1000}))
        submissions = tuple(
            Submission(Group(f"g{i}", (Task(f"g{i}", f"g{i}", shape),), ready_seconds=10.0 * i), 9)
            for i in range(groups)
        )
        workload = Workload("many", hosts, submissions)
        many: list[Result] = []
        for name in STRATEGIES:
            runs: list[Run] = []
            promised: list[Promised] = []
            for i, submission in enumerate(submissions):
                submit = 10.0 * i
                start = submit + rng.expovariate(0.001)
                task = submission.group.tasks[0]
                runs.append(Run(task, f"g{i}", submit, start, start, start + 900.0, f"m{i % 100}"))
                first = submit + rng.expovariate(0.0005)
                promised.append(Promised(f"g{i}", submit, first, first, "strategy"))
            many.append(Result(name, workload, tuple(runs), (), 2e5, tuple(promised)))
        before = time.perf_counter()
        drawn = render(many)
        assert time.perf_counter() - before < 15  # about 2 s on an idle machine
        assert len(drawn.encode()) < 1_500_000
        check(drawn)


class TestBackfilledGroups:
    def test_have_a_colour_of_their_own(self):
        page = Passing().page
        assert 'class="run t2 back"' in row_of(page, "small")
        assert 'class="run t2"' in row_of(page, "wide")
        assert 'class="run t2 back"' in row_of(page, "small", "groups")

    def test_say_so_to_who_points_at_them(self):
        page = Passing().page
        assert "small, 1 task: waited 0 s, ran 20.0 s, backfilled<" in row_of(page, "small")

    def test_are_in_the_legend_only_where_there_are_any(self, results: list[Result], page: str):
        assert "one ahead of it still waited" in visible(part(page, "groups"))
        assert "one ahead of it still waited" not in visible(part(render(results[:1]), "groups"))

    def test_lie_on_the_others_in_the_strips(self, page: str):
        for held, of_it in re.findall(r'data-v="([\d ]+)" data-w="([\d ]+)"', page):
            pairs = list(zip(map(int, held.split()), map(int, of_it.split()), strict=True))
            assert len(pairs) > 300
            assert all(0 <= share <= whole <= 100 for whole, share in pairs)

    def test_hold_what_the_strip_says(self):
        drawn = part(Passing().page, "backfilling")
        (held,) = re.findall(r'data-v="([\d ]+)"', drawn)
        (of_it,) = re.findall(r'data-w="([\d ]+)"', drawn)
        # 4 of cpu: `first` has 2 until 50, `small` 2 from 20 to 40, of 90 seconds.
        number = len(held.split())
        at = {second: int(second / 90 * number) for second in (10, 30, 45)}
        assert [held.split()[place] for place in at.values()] == ["50", "100", "50"]
        assert [of_it.split()[place] for place in at.values()] == ["0", "50", "0"]


class TestPromises:
    def test_that_were_kept_are_a_mark_at_the_promised_start(self):
        page = Passing(Promised("wide", 10.0, 75.0, 70.0)).page
        row = row_of(page, "wide")
        assert "waited 50.0 s, ran 30.0 s, promised to wait 1 min 5 s at most<" in row
        # In the middle of the bar, which runs from 60 to 90.
        (mark,) = re.findall(r'class="due in" d="M([\d.]+) ', row)
        (bar,) = re.findall(r'class="run t2" d="M([\d.]+) [\d.]+h([\d.]+)"', row)
        start, width = map(float, bar)
        assert float(mark) == pytest.approx(start + width / 2, abs=0.2)
        assert "late" not in row

    def test_show_from_when_on_a_group_waited_with_one(self):
        row = row_of(Passing(Promised("wide", 35.0, 75.0, 70.0)).page, "wide", "groups")
        (wait,) = re.findall(r'class="wait" d="M([\d.]+) [\d.]+H([\d.]+)"', row)
        (told,) = re.findall(r'class="wait told" d="M([\d.]+) [\d.]+H([\d.]+)"', row)
        assert told[1] == wait[1]
        assert float(told[0]) == pytest.approx(sum(map(float, wait)) / 2, abs=0.2)

    def test_that_were_not_kept_stand_out_and_name_the_cause(self):
        page = Passing(Promised("wide", 10.0, 45.0, 45.0, "higher priority")).page
        row = row_of(page, "wide")
        assert "promised to wait 35.0 s at most, not kept (higher priority)<" in row
        assert 'class="due broken"' in row
        assert 'class="wait late"' in row
        strip = part(page, "backfilling")
        assert "toy: 1 promise not kept, 1 by: higher priority" in strip
        assert strip.count('class="flagged"') == 1

    def test_beyond_the_end_of_the_picture_are_told_and_not_drawn(self):
        row = row_of(Passing(Promised("wide", 10.0, 5000.0, 70.0)).page, "wide")
        assert "due" not in row
        assert "promised to wait 1 h 23 min at most" in row

    def test_have_their_marks_in_the_legend_where_they_occur(self):
        told, broken = "start it was first promised", "promised start, not kept"
        kept = visible(Passing(Promised("wide", 10.0, 75.0, 70.0)).page)
        late = visible(Passing(Promised("wide", 10.0, 45.0, 45.0, "strategy")).page)
        none = visible(Passing().page)
        assert [told in text for text in (kept, late, none)] == [True, False, False]
        assert [broken in text for text in (kept, late, none)] == [False, True, False]

    def test_of_the_same_stretch_share_a_flag(self):
        lives = [(float(i), float(i), 200.0) for i in range(20, 40)]
        result = replace(
            tiny(lives, ended_at=200.0),
            promised=tuple(
                Promised(f"g{i}", 0.0, 10.0 + i / 100, 10.0, "strategy" if i % 2 else "foreign pod")
                for i in range(20)
            ),
        )
        strip = part(render([result]), "backfilling")
        assert strip.count('class="flagged"') == 1
        assert "20 promises not kept, 10 by: foreign pod and 10 by: strategy" in strip


class TestTheSummary:
    def cells(self, page: str, name: str) -> list[str]:
        found = re.search(rf'<tr><th scope="row">{name}(?:<small>.*?)?</th>(.*?)</tr>', page)
        return (
            [visible(cell).strip() for cell in re.findall("<td.*?</td>", found[1])] if found else []
        )

    def test_has_what_was_backfilled_promised_and_broken(self, page: str):
        assert self.cells(page, "Backfilled")[0] == "0.0 %"
        promised = self.cells(page, "Promised a start")
        assert promised[0] == "0"
        assert all(int(cell) > 0 for cell in promised[1:])
        broken = self.cells(page, "Promises broken")
        assert broken[0] == "–"
        assert broken[1].startswith("0")  # easy
        assert broken[3].startswith("0")  # compress

    def test_names_the_causes(self):
        kept = Passing(Promised("wide", 10.0, 75.0, 70.0), name="kept").result
        late = Passing(Promised("wide", 10.0, 45.0, 45.0, "foreign pod"), name="late").result
        page = render([kept, late])
        assert self.cells(page, "of them: foreign pod") == ["0", "1"]
        assert self.cells(page, "Promises broken") == ["0 best", "1"]
        assert "of them: strategy" not in page

    def test_who_promises_nothing_keeps_no_promise(self):
        nothing = Passing(name="nothing").result
        late = Passing(Promised("wide", 10.0, 45.0, 45.0, "strategy"), name="late").result
        assert self.cells(render([nothing, late]), "Promises broken") == ["–", "1"]


class TestTheCloseUp:
    def quiet_but(self, busy: range, groups: int = 500) -> Result:
        """Groups that start at once, but for some that pass one of them."""
        result = tiny([(0.0, 0.0, 5.0)] * groups, ended_at=groups * 10.0)
        runs: list[Run] = []
        submissions: list[Submission] = []
        for i, (run, submission) in enumerate(
            zip(result.runs, result.workload.submissions, strict=True)
        ):
            submit = 10.0 * i
            start = submit + (200.0 if i == busy.start else 0.0)
            runs.append(replace(run, submit=submit, bound=start, start=start, end=start + 5))
            group = replace(submission.group, ready_seconds=submit)
            submissions.append(replace(submission, group=group))
        workload = replace(result.workload, submissions=tuple(submissions))
        return replace(result, workload=workload, runs=tuple(runs))

    def test_looks_where_groups_pass_each_other(self):
        stretch = find_stretch(compare([self.quiet_but(range(300, 320))]))
        assert stretch is not None
        assert len(stretch.names) == MOST
        assert {f"g{i}" for i in range(300, 320)} <= set(stretch.names)
        assert stretch.begin <= 3000.0 < 3200.0 < stretch.end

    def test_says_when_that_was(self):
        text = visible(render([self.quiet_but(range(300, 320))]))
        assert f"{MOST} of 500 groups that came one after the other" in text
        assert "after the first submission" in text

    def test_shows_all_groups_with_their_names_where_they_are_few(self):
        drawn = part(Passing().page, "closeup")
        assert "All 3 groups" in visible(drawn)
        for name in ("first", "wide", "small"):
            assert re.search(rf'<text class="tick"[^>]*text-anchor="end">{name}</text>', drawn)

    def test_is_left_out_where_nothing_happened(self):
        assert find_stretch(compare([tiny([(0.0, 0.0, 5.0)] * 5)])) is None
        assert find_stretch(compare([tiny([])])) is None

    def test_takes_no_time_at_all_in_its_stride(self):
        result = replace(
            tiny([(0.0, 0.0, 0.0)] * 3, ended_at=0.0),
            promised=(Promised("g1", 0.0, 0.0, 0.0),),
        )
        check(render([result]))

    def test_shows_those_that_never_start(self):
        lives = [(0.0, 0.0, 10.0), (None, None, None), (20.0, 20.0, None)]
        result = replace(
            tiny(lives),
            promised=(
                Promised("g1", 0.0, 15.0, 15.0, "machine lost"),
                Promised("g2", 0.0, 25.0, 25.0),
            ),
        )
        page = render([result])
        check(page)
        assert "g1, 1 task: never started, promised to wait 15.0 s at most, not kept" in page
        assert 'class="due in"' in row_of(page, "g2")


def test_names_and_notes_of_a_strip_do_not_run_into_each_other():
    result = Passing(Promised("wide", 10.0, 45.0, 45.0, "strategy"), name="x" * 300).result
    for key in ("backfilling", "closeup"):
        drawn = part(render([result]), key)
        (name,) = re.findall(r'<text class="strip" x="([\d.]+)"[^>]*>([^<]*)<', drawn)
        (note,) = re.findall(r'<text class="tick" x="1110"[^>]*>([^<]*promise[^<]*)<', drawn)
        assert float(name[0]) + 8 * len(name[1]) < 1110 - 6.4 * len(note)
