"""Backfilled groups and reservations on the report page of several strategies."""

import re
from dataclasses import replace
from random import Random

import pytest
from call_counter import count_calls
from report_parser import check, pictures, visible
from report_results import tiny

from afflux.app import simulated_scheduler
from afflux.config import parse_scheduler_spec
from afflux.model.machine import Machine
from afflux.model.resources import resources
from afflux.model.task import Shape, Task
from afflux.model.waiting_group import WaitingGroup
from afflux.sim.replay import replay
from afflux.sim.report import render
from afflux.sim.report.comparison import compare
from afflux.sim.report.timeline_excerpt import MAX_GROUPS, choose_excerpt
from afflux.sim.result import CycleTiming, ReservationRecord, Result, Run
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
    return [
        replay(log, simulated_scheduler(parse_scheduler_spec(f"cpu-memory@{name}")))
        for name in STRATEGIES
    ]


@pytest.fixture(scope="module")
def page(results: list[Result]) -> str:
    return render(results)


def part(page: str, key: str) -> str:
    """A section of the page, empty if it has none."""
    found = re.search(rf'<section id="{key}".*?</section>', page, re.DOTALL)
    return found[0] if found else ""


class Passing:
    """Three groups submitted one after the other: `wide` waits, `small` is backfilled."""

    hosts = (Machine("m", resources({"cpu": 4})),)

    def __init__(
        self, *reservations: ReservationRecord, wide: float = 60.0, name: str = "toy"
    ) -> None:
        lives = {"first": (0.0, 0.0, 50.0), "wide": (10.0, wide, 90.0), "small": (20.0, 20.0, 40.0)}
        submissions: list[Submission] = []
        runs: list[Run] = []
        for group, (submit, start, end) in lives.items():
            task = Task(group, group, Shape(resources({"cpu": 2})))
            group_of = WaitingGroup(group, (task,), ready_seconds=submit, run_seconds=end - start)
            submissions.append(Submission(group_of, end - start))
            runs.append(Run(task, group, submit, start, start, end, "m"))
        workload = Workload("three", self.hosts, tuple(submissions))
        cycles = (CycleTiming(0.0, 0.001, 1, 1),)
        self.result = Result(name, workload, tuple(runs), cycles, 90.0, reservations)

    @property
    def page(self) -> str:
        return render([self.result])


def row_of(page: str, name: str, key: str = "excerpt") -> str:
    """The SVG of one group, its tooltip first."""
    found = re.search(rf"<g><title>{name}, .*?</g>", part(page, key), re.DOTALL)
    assert found, name
    return found[0]


class TestThePage:
    def test_is_well_formed_and_has_both_sections(self, page: str):
        check(page)
        assert part(page, "backfilling")
        assert part(page, "excerpt")

    def test_each_section_has_one_picture_with_all_schedulers(self, page: str):
        for key in ("backfilling", "excerpt"):
            drawn = [svg for svg in pictures(part(page, key)) if svg.get("role") == "img"]
            assert len(drawn) == 1
            for name in STRATEGIES:
                assert f"cpu-memory@{name}" in visible(part(page, key))

    def test_leaves_both_sections_out_without_backfilling_and_reservations(
        self, results: list[Result]
    ):
        alone = render(results[:1])
        check(alone)
        assert not part(alone, "backfilling")
        assert not part(alone, "excerpt")
        assert "Backfilled" not in visible(alone)

    @staticmethod
    def many_groups(groups: int) -> list[Result]:
        rng = Random(1)
        hosts = tuple(Machine(f"m{i}", resources({"cpu": 4000})) for i in range(100))
        shape = Shape(resources({"cpu": 1000}))
        submissions = tuple(
            Submission(
                WaitingGroup(f"g{i}", (Task(f"g{i}", f"g{i}", shape),), ready_seconds=10.0 * i), 9
            )
            for i in range(groups)
        )
        workload = Workload("many", hosts, submissions)
        many: list[Result] = []
        for name in STRATEGIES:
            runs: list[Run] = []
            reservations: list[ReservationRecord] = []
            for i, submission in enumerate(submissions):
                submit = 10.0 * i
                start = submit + rng.expovariate(0.001)
                task = submission.group.tasks[0]
                runs.append(Run(task, f"g{i}", submit, start, start, start + 900.0, f"m{i % 100}"))
                first = submit + rng.expovariate(0.0005)
                reservations.append(ReservationRecord(f"g{i}", submit, first, first, "strategy"))
            many.append(Result(name, workload, tuple(runs), (), 2e5, tuple(reservations)))
        return many

    def test_of_many_schedulers_and_groups_stays_small(self):
        drawn = render(self.many_groups(10_000))
        assert len(drawn.encode()) < 1_500_000
        check(drawn)

    def test_takes_linear_work_in_the_number_of_groups(self):
        few, many = (count_calls(render, self.many_groups(n)) for n in (1_000, 4_000))
        assert many < 5 * few


class TestBackfilledGroups:
    def test_have_a_colour_of_their_own(self):
        page = Passing().page
        assert 'class="run t2 back"' in row_of(page, "small")
        assert 'class="run t2"' in row_of(page, "wide")
        assert 'class="run t2 back"' in row_of(page, "small", "groups")

    def test_say_so_in_their_tooltip(self):
        page = Passing().page
        assert "small, 1 task: waited 0 s, ran 20.0 s, backfilled<" in row_of(page, "small")

    def test_are_in_the_legend_only_if_they_occur(self, results: list[Result], page: str):
        assert "a group ahead of it still waited" in visible(part(page, "groups"))
        assert "a group ahead of it still waited" not in visible(
            part(render(results[:1]), "groups")
        )

    def test_are_stacked_on_the_others_in_the_strips(self, page: str):
        for held, of_it in re.findall(r'data-v="([\d ]+)" data-w="([\d ]+)"', page):
            pairs = list(zip(map(int, held.split()), map(int, of_it.split()), strict=True))
            assert len(pairs) > 300
            assert all(0 <= share <= whole <= 100 for whole, share in pairs)

    def test_share_of_a_strip_is_what_they_held(self):
        drawn = part(Passing().page, "backfilling")
        (held,) = re.findall(r'data-v="([\d ]+)"', drawn)
        (of_it,) = re.findall(r'data-w="([\d ]+)"', drawn)
        # 4 of cpu: `first` has 2 until 50, `small` 2 from 20 to 40, of 90 seconds.
        number = len(held.split())
        at = {second: int(second / 90 * number) for second in (10, 30, 45)}
        assert [held.split()[place] for place in at.values()] == ["50", "100", "50"]
        assert [of_it.split()[place] for place in at.values()] == ["0", "50", "0"]


class TestReservations:
    def test_that_are_kept_have_a_mark_at_the_reserved_start(self):
        page = Passing(ReservationRecord("wide", 10.0, 75.0, 70.0)).page
        row = row_of(page, "wide")
        assert "waited 50.0 s, ran 30.0 s, reserved a wait of 1 min 5 s at most<" in row
        # In the middle of the bar, which runs from 60 to 90.
        (mark,) = re.findall(r'class="due in" d="M([\d.]+) ', row)
        (bar,) = re.findall(r'class="run t2" d="M([\d.]+) [\d.]+h([\d.]+)"', row)
        start, width = map(float, bar)
        assert float(mark) == pytest.approx(start + width / 2, abs=0.2)
        assert "late" not in row

    def test_show_since_when_a_group_had_one(self):
        row = row_of(Passing(ReservationRecord("wide", 35.0, 75.0, 70.0)).page, "wide", "groups")
        (wait,) = re.findall(r'class="wait" d="M([\d.]+) [\d.]+H([\d.]+)"', row)
        (reserved,) = re.findall(r'class="wait reserved" d="M([\d.]+) [\d.]+H([\d.]+)"', row)
        assert reserved[1] == wait[1]
        assert float(reserved[0]) == pytest.approx(sum(map(float, wait)) / 2, abs=0.2)

    def test_that_are_broken_are_highlighted_and_name_the_cause(self):
        page = Passing(ReservationRecord("wide", 10.0, 45.0, 45.0, "higher priority")).page
        row = row_of(page, "wide")
        assert "reserved a wait of 35.0 s at most, reservation broken (higher priority)<" in row
        assert 'class="due broken"' in row
        assert 'class="wait late"' in row
        strip = part(page, "backfilling")
        assert "toy: 1 broken reservation, 1 by: higher priority" in strip
        assert strip.count('class="flagged"') == 1

    def test_beyond_the_end_of_the_picture_are_only_in_the_tooltip(self):
        row = row_of(Passing(ReservationRecord("wide", 10.0, 5000.0, 70.0)).page, "wide")
        assert "due" not in row
        assert "reserved a wait of 1 h 23 min at most" in row

    def test_have_their_marks_in_the_legend_if_they_occur(self):
        reserved, broken = "first reserved start", "reserved start, broken"
        kept = visible(Passing(ReservationRecord("wide", 10.0, 75.0, 70.0)).page)
        late = visible(Passing(ReservationRecord("wide", 10.0, 45.0, 45.0, "strategy")).page)
        none = visible(Passing().page)
        assert [reserved in text for text in (kept, late, none)] == [True, False, False]
        assert [broken in text for text in (kept, late, none)] == [False, True, False]

    def test_broken_at_about_the_same_time_share_a_flag(self):
        lives = [(float(i), float(i), 200.0) for i in range(20, 40)]
        result = replace(
            tiny(lives, ended_at=200.0),
            reservations=tuple(
                ReservationRecord(
                    f"g{i}", 0.0, 10.0 + i / 100, 10.0, "strategy" if i % 2 else "foreign pod"
                )
                for i in range(20)
            ),
        )
        strip = part(render([result]), "backfilling")
        assert strip.count('class="flagged"') == 1
        assert "20 broken reservations, 10 by: foreign pod and 10 by: strategy" in strip


class TestTheSummary:
    def cells(self, page: str, name: str) -> list[str]:
        found = re.search(rf'<tr><th scope="row">{name}(?:<small>.*?)?</th>(.*?)</tr>', page)
        return (
            [visible(cell).strip() for cell in re.findall("<td.*?</td>", found[1])] if found else []
        )

    def test_has_rows_for_backfilling_and_reservations(self, page: str):
        assert self.cells(page, "Backfilled")[0] == "0.0 %"
        reservations = self.cells(page, "Reservations")
        assert reservations[0] == "0"
        assert all(int(cell) > 0 for cell in reservations[1:])
        broken = self.cells(page, "Reservations broken")
        assert broken[0] == "–"
        assert broken[1].startswith("0")  # easy
        assert broken[3].startswith("0")  # compress

    def test_names_the_causes(self):
        kept = Passing(ReservationRecord("wide", 10.0, 75.0, 70.0), name="kept").result
        late = Passing(
            ReservationRecord("wide", 10.0, 45.0, 45.0, "foreign pod"), name="late"
        ).result
        page = render([kept, late])
        assert self.cells(page, "of them: foreign pod") == ["0", "1"]
        assert self.cells(page, "Reservations broken") == ["0 best", "1"]
        assert "of them: strategy" not in page

    def test_a_scheduler_without_reservations_has_no_broken_ones(self):
        nothing = Passing(name="nothing").result
        late = Passing(ReservationRecord("wide", 10.0, 45.0, 45.0, "strategy"), name="late").result
        assert self.cells(render([nothing, late]), "Reservations broken") == ["–", "1"]


class TestTheExcerpt:
    def quiet_but(self, busy: range, groups: int = 500) -> Result:
        """Groups that start at once, except that `busy` ones pass the first of them."""
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

    def test_shows_where_groups_were_backfilled(self):
        excerpt = choose_excerpt(compare([self.quiet_but(range(300, 320))]))
        assert excerpt is not None
        assert len(excerpt.names) == MAX_GROUPS
        assert {f"g{i}" for i in range(300, 320)} <= set(excerpt.names)
        assert excerpt.begin <= 3000.0 < 3200.0 < excerpt.end

    def test_says_when_it_begins(self):
        text = visible(render([self.quiet_but(range(300, 320))]))
        assert f"{MAX_GROUPS} of 500 groups submitted one after the other" in text
        assert "after the first submission" in text

    def test_shows_all_groups_with_names_if_they_are_few(self):
        drawn = part(Passing().page, "excerpt")
        assert "All 3 groups" in visible(drawn)
        for name in ("first", "wide", "small"):
            assert re.search(rf'<text class="tick"[^>]*text-anchor="end">{name}</text>', drawn)

    def test_is_left_out_without_backfilling_and_reservations(self):
        assert choose_excerpt(compare([tiny([(0.0, 0.0, 5.0)] * 5)])) is None
        assert choose_excerpt(compare([tiny([])])) is None

    def test_works_for_a_simulation_of_no_length(self):
        result = replace(
            tiny([(0.0, 0.0, 0.0)] * 3, ended_at=0.0),
            reservations=(ReservationRecord("g1", 0.0, 0.0, 0.0),),
        )
        check(render([result]))

    def test_shows_groups_that_never_start(self):
        lives = [(0.0, 0.0, 10.0), (None, None, None), (20.0, 20.0, None)]
        result = replace(
            tiny(lives),
            reservations=(
                ReservationRecord("g1", 0.0, 15.0, 15.0, "machine lost"),
                ReservationRecord("g2", 0.0, 25.0, 25.0),
            ),
        )
        page = render([result])
        check(page)
        assert (
            "g1, 1 task: never started, reserved a wait of 15.0 s at most, reservation broken"
            in page
        )
        assert 'class="due in"' in row_of(page, "g2")


def test_names_and_notes_of_a_strip_do_not_overlap():
    result = Passing(ReservationRecord("wide", 10.0, 45.0, 45.0, "strategy"), name="x" * 300).result
    for key in ("backfilling", "excerpt"):
        drawn = part(render([result]), key)
        (name,) = re.findall(r'<text class="strip" x="([\d.]+)"[^>]*>([^<]*)<', drawn)
        (note,) = re.findall(r'<text class="tick" x="1110"[^>]*>([^<]*reservation[^<]*)<', drawn)
        assert float(name[0]) + 8 * len(name[1]) < 1110 - 6.4 * len(note)
