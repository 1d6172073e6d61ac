"""The page of a comparison: whole, inert, self-contained, and honest about who wins."""

import heapq
import random
import re
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from afflux.model.devices import DeviceRequest
from afflux.model.group import Group
from afflux.model.machine import Machine
from afflux.model.resources import amount_of, resources
from afflux.model.task import Shape, Task
from afflux.sim.report import render, write_report
from afflux.sim.report.binning import held_over_time
from afflux.sim.report.scale import time_ticks
from afflux.sim.report.text import duration
from afflux.sim.result import CycleTiming, Result, Run
from afflux.sim.workload import Submission, Workload

GIB = 2**30
SHAPES = (
    Shape(resources({"cpu": 1000, "memory": 2 * GIB})),
    Shape(resources({"cpu": 4000, "memory": 4 * GIB})),
    Shape(resources({"cpu": 2000, "memory": 24 * GIB})),
    Shape(resources({"cpu": 4000, "memory": 16 * GIB}), devices=DeviceRequest(1, 500)),
)


def made_up(groups: int, machines: int, seed: int = 1, load: float = 0.95) -> Workload:
    """Bursts of jobs, a few gangs, services and priorities."""
    draw = random.Random(seed)
    hosts = tuple(
        Machine(
            f"node-{i:03}",
            resources({"cpu": 32_000, "memory": 128 * GIB, "pods": 110}),
            devices=4 if i % 4 == 0 else 0,
        )
        for i in range(machines)
    )
    submissions: list[Submission] = []
    now = 0.0
    between = 4100 / (machines * 32 * load)
    for index in range(groups):
        busy = 0.45 if (index * 8 // groups) % 2 else 1.55
        now += draw.expovariate(1 / (between * busy))
        size = draw.choice([1, 1, 1, 1, 1, 1, 2, 4, 8, 16])
        shape = draw.choices(SHAPES, [6, 3, 2, 1])[0]
        name = f"job-{index:05}"
        tasks = tuple(Task(f"{name}/{k}", f"{name}-{k}", shape) for k in range(size))
        seconds = min(2400.0, draw.lognormvariate(5.6, 1.1))
        run = None if draw.random() < 0.004 else round(seconds, 1)
        priority = draw.choices([0, 50, 100], [6, 3, 1])[0]
        group = Group(name, tasks, priority=priority, ready_seconds=round(now, 3), run_seconds=run)
        submissions.append(Submission(group, run))
    return Workload("made-up mix", hosts, tuple(submissions))


def simulate(
    workload: Workload, scheduler: str, *, tight: bool, skips: bool, piecemeal: bool = False
) -> Result:
    """A toy: first come first served, with or without letting later groups pass.

    `tight` packs, otherwise it spreads; `piecemeal` binds members of a gang one by one.
    """
    draw = random.Random(scheduler)
    names = [machine.name for machine in workload.machines]
    keys = ("cpu", "memory")
    free = np.array(
        [
            [*(amount_of(m.capacity, key) for key in keys), 1000 * m.devices]
            for m in workload.machines
        ],
        dtype=np.float64,
    ).reshape(len(names), 3)
    lives: dict[str, Run] = {
        task.id: Run(task, s.group.name, s.group.ready_seconds, None, None, None, None)
        for s in workload.submissions
        for task in s.group.tasks
    }
    waiting: list[Submission] = []
    arrivals = list(workload.submissions)[::-1]
    ends: list[tuple[float, int, np.ndarray]] = []
    partial: dict[str, list[tuple[Task, int, float]]] = {}
    cycles: list[CycleTiming] = []
    now, ticket = 0.0, 0

    def needs(task: Task) -> np.ndarray:
        asked = task.shape.devices
        devices = asked.count * asked.milli if asked else 0
        return np.array([*(amount_of(task.shape.requests, key) for key in keys), devices])

    def place(submission: Submission) -> bool:
        nonlocal ticket
        held = partial.setdefault(submission.group.name, [])
        taken: list[tuple[Task, int, float]] = []
        for task in submission.group.tasks[len(held) :]:
            want = needs(task)
            fits = (free >= want).all(axis=1)
            if not fits.any():
                break
            rank = np.where(fits, free[:, 0] if tight else -free[:, 0], np.inf)
            row = int(rank.argmin())
            free[row] -= want
            taken.append((task, row, now))
        if len(held) + len(taken) < len(submission.group.tasks) and not piecemeal:
            for task, row, _ in taken:
                free[row] += needs(task)
            return False
        held += taken
        for task, row, bound in taken:
            lives[task.id] = replace(lives[task.id], bound=bound, machine=names[row])
        if len(held) < len(submission.group.tasks):
            return False
        end = None if submission.run_seconds is None else now + submission.run_seconds
        for task, row, _ in held:
            lives[task.id] = replace(lives[task.id], start=now, end=end)
            if end is not None:
                gain = np.zeros_like(free)
                gain[row] = needs(task)
                ticket += 1
                heapq.heappush(ends, (end, ticket, gain))
        return True

    while arrivals or ends:
        next_arrival = arrivals[-1].group.ready_seconds if arrivals else np.inf
        now = min(next_arrival, ends[0][0] if ends else np.inf)
        while ends and ends[0][0] <= now:
            free += heapq.heappop(ends)[2]
        while arrivals and arrivals[-1].group.ready_seconds <= now:
            waiting.append(arrivals.pop())
        before, still = len(waiting), []
        for index, submission in enumerate(waiting):
            if not place(submission):
                still.append(submission)
                if not skips or index > 40:
                    still.extend(waiting[index + 1 :])
                    break
        waiting = still
        seconds = 2e-4 * (1 + before) ** 0.6 * draw.lognormvariate(0, 0.35)
        cycles.append(CycleTiming(now, seconds, before, before - len(waiting)))
    return Result(scheduler, workload, tuple(lives.values()), tuple(cycles), now)


def three(workload: Workload) -> list[Result]:
    return [
        simulate(workload, "cpu-memory", tight=True, skips=True),
        simulate(workload, "load-spreading", tight=False, skips=True),
        simulate(workload, "pod-by-pod", tight=False, skips=True, piecemeal=True),
    ]


MIX = made_up(groups=120, machines=6)
RESULTS = three(MIX)
PAGE = render(RESULTS)
SECTIONS = ("summary", "utilisation", "waiting", "queue", "machines", "groups", "cycles")
VOID = {"meta", "wbr", "br", "img", "link", "hr", "input"}


class Outline(HTMLParser):
    """Reads a page strictly: every element closed by its own end tag."""

    def __init__(self, page: str):
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), (tag, attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def with_id(self, key: str) -> bool:
        return any(attributes.get("id") == key for _, attributes in self.elements)


def pictures(page: str) -> list[ElementTree.Element]:
    drawn = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    return [ElementTree.fromstring(svg) for svg in drawn]  # noqa: S314, it is our own page


def visible(page: str) -> str:
    """The text of a page without its tags."""
    body = re.sub(r"<(style|script)>.*?</\1>", "", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body))


def check(page: str) -> None:
    """What every page has, whatever it shows."""
    outline = Outline(page)
    for key in SECTIONS:
        assert outline.with_id(key), key
    for svg in pictures(page):
        if svg.get("aria-hidden") != "true":
            assert svg.get("role") == "img"
            assert svg.get("aria-label")
            assert svg[0].tag == "title"
            assert svg[0].text
            assert svg[1].tag == "desc"
            assert svg[1].text
    ids = [attributes["id"] for _, attributes in outline.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    assert not re.search(r"\b(nan|inf|infinity|None)\b", visible(page))
    assert not re.search(r'[ "](nan|-?inf)[ "]', page)


class TestThePage:
    def test_has_every_section_and_well_formed_pictures(self):
        check(PAGE)
        drawn = [svg for svg in pictures(PAGE) if svg.get("role") == "img"]
        # three resources, two distributions, one queue, strips and close-up for all, and three
        # panels per scheduler
        assert len(drawn) == 3 + 2 + 1 + 2 + 3 * 3

    def test_says_what_is_compared(self):
        text = visible(PAGE)
        assert "made-up mix" in text
        for fact in ("cpu-memory", "load-spreading", "pod-by-pod", "120 groups", "6 machines"):
            assert fact in text

    def test_every_picture_has_a_caption_of_its_section(self):
        assert PAGE.count("<figcaption>") == PAGE.count("<section") == len(SECTIONS) + 2

    def test_asks_nothing_of_the_network(self):
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

    def test_is_written_whole(self, tmp_path: Path):
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
        group = Group(self.EVIL, tasks, run_seconds=5.0)
        workload = Workload(self.EVIL, (machine,), (Submission(group, 5.0),))
        runs = tuple(Run(t, self.EVIL, 0.0, 1.0, 2.0, 7.0, self.EVIL) for t in tasks)
        never = tuple(Run(t, self.EVIL, 0.0, None, None, None, None) for t in tasks)
        cycles = (CycleTiming(0.0, 0.001, 1, 1),)
        return [
            Result(self.EVIL, workload, runs, cycles, 7.0),
            Result(self.EVIL + "2", workload, never, cycles, 7.0),
        ]

    def test_are_only_ever_text(self):
        page = render(self.evil())
        check(page)
        outline = Outline(page)
        assert [tag for tag, _ in outline.elements].count("script") == 1
        assert not any(name.startswith("on") for _, a in outline.elements for name in a)
        assert "alert('x')</script>" not in page
        assert "&lt;script&gt;alert(" in page

    def test_can_be_written_whatever_they_hold(self, tmp_path: Path):
        write_report(self.evil(), tmp_path / "evil.html")
        (tmp_path / "evil.html").read_text(encoding="utf-8")

    def test_of_any_length_do_not_fill_the_page(self):
        long = replace(RESULTS[0], scheduler="x" * 100_000)
        assert len(render([long])) < len(PAGE)

    def test_of_the_same_scheduler_twice_are_told_apart(self):
        text = visible(render([RESULTS[0], RESULTS[0]]))
        assert "cpu-memory (2)" in text


def tiny(
    lives: list[tuple[float | None, float | None, float | None]],
    scheduler: str = "toy",
    machines: int = 1,
    ended_at: float = 100.0,
    cycles: tuple[CycleTiming, ...] = (CycleTiming(0.0, 0.002, 1, 1),),
) -> Result:
    """Tasks submitted at 0, each with its bound, start and end, all on the first machine."""
    hosts = tuple(Machine(f"m{i}", resources({"cpu": 8000})) for i in range(machines))
    tasks = [Task(f"t{i}", f"t{i}", SHAPES[0]) for i in range(len(lives))]
    submissions = tuple(Submission(Group(f"g{i}", (t,)), 10.0) for i, t in enumerate(tasks))
    runs = tuple(
        Run(task, f"g{i}", 0.0, *life, None if life[0] is None else "m0")
        for i, (task, life) in enumerate(zip(tasks, lives, strict=True))
    )
    return Result(scheduler, Workload("tiny", hosts, submissions), runs, cycles, ended_at)


RAN, NEVER, STRANDED = (0.0, 0.0, 10.0), (None, None, None), (0.0, None, None)


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
    def test_have_a_page_of_their_own(self, results: list[Result]):
        check(render(results))

    def test_no_result_is_refused(self):
        with pytest.raises(ValueError, match="at least one result"):
            render([])

    def test_different_workloads_are_refused(self):
        with pytest.raises(ValueError, match=r"one workload, not on .*made-up mix.*tiny"):
            render([RESULTS[0], tiny([RAN])])


class TestTheSummary:
    def rows(self, page: str) -> dict[str, list[str]]:
        found = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', page)
        return {
            re.sub("<small>.*", "", name): re.findall(r"<td.*?</td>", cells)
            for name, cells in found
        }

    def test_marks_the_best_value_of_a_row(self):
        fast, slow = tiny([RAN], "fast"), tiny([(20.0, 20.0, 30.0)], "slow")
        mean = self.rows(render([slow, fast]))["Mean wait"]
        assert "best" not in mean[0]
        assert "20.0 s" in mean[0]
        assert "best" in mean[1]

    def test_who_leaves_tasks_out_does_not_win_by_it(self):
        picky = tiny([RAN, NEVER], "picky")
        patient = tiny([RAN, (40.0, 40.0, 50.0)], "patient")
        page = render([picky, patient])
        rows = self.rows(page)
        for name in ("Mean wait", "Longest wait", "Makespan", "Unplaced"):
            assert ["best" in cell for cell in rows[name]] == [False, True], name
        assert "picky left 1 task unplaced" in visible(page)
        assert "do not compete" in visible(page)

    def test_holding_machines_without_working_is_no_merit(self):
        holding = tiny([STRANDED, RAN], "holding")
        working = tiny([RAN, RAN], "working")
        rows = self.rows(render([holding, working]))
        assert not any("best" in cell for cell in rows["Utilisation"])
        assert ["best" in cell for cell in rows["of it at work"]] == [False, True]
        assert ["best" in cell for cell in rows["of it stranded"]] == [False, True]

    def test_equals_do_not_beat_each_other(self):
        page = render([tiny([RAN], "a"), tiny([RAN], "b")])
        assert 'class="best"' not in page
        assert "No scheduler is better than another" in visible(page)

    def test_a_single_scheduler_wins_nothing(self):
        assert 'class="best"' not in render(RESULTS[:1])


class TestTheTimeline:
    def test_shows_a_sample_with_the_longest_waits_and_says_so(self):
        lives = [(float(i % 7), float(i % 7), 20.0) for i in range(400)]
        lives[123] = (90.0, 90.0, 95.0)
        page = render([tiny(lives)])
        assert "g123, 1 task: waited 1 min 30 s, ran 5.00 s" in page
        assert "150 of 400 groups are shown" in visible(page)

    def test_shows_all_groups_when_they_are_few(self):
        assert "All 120 groups are shown" in visible(PAGE)


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.floats(0, 50), st.floats(0, 50), st.floats(0, 9)),
        max_size=8,
    ),
    st.integers(1, 9),
)
def test_means_over_time_are_the_overlaps_one_by_one(
    intervals: list[tuple[int, float, float, float]], bins: int
):
    span = (5.0, 45.0)
    width = (span[1] - span[0]) / bins
    expected = np.zeros((4, bins))
    for row, start, length, weight in intervals:
        for index in range(bins):
            low, high = span[0] + index * width, span[0] + (index + 1) * width
            overlap = max(0.0, min(start + length, high) - max(start, low))
            expected[row, index] += weight * overlap / width
    rows, starts, lengths, weights = (
        np.array(column) for column in (zip(*intervals, strict=True) if intervals else [()] * 4)
    )
    found = held_over_time(
        starts.astype(float),
        (starts + lengths).astype(float),
        weights.astype(float),
        span=span,
        bins=bins,
        rows=rows.astype(np.int64),
        row_count=4,
    )
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (2.5e-7, "0.250 µs"),
        (0.0123, "12.3 ms"),
        (0.9999, "1.00 s"),
        (4.25, "4.25 s"),
        (59.96, "1 min"),
        (185, "3 min 5 s"),
        (3599.7, "1 h"),
        (4321, "1 h 12 min"),
        (86399, "1 d"),
        (183600, "2 d 3 h"),
        (1e9, "11,574 d 2 h"),
    ],
)
def test_durations_read_in_two_units_at_most(seconds: float, text: str):
    assert duration(seconds) == text


@given(st.floats(1e-6, 1e9))
def test_ticks_are_few_and_within_the_scale(seconds: float):
    ticks = time_ticks(seconds)
    assert 1 <= len(ticks) <= 8
    assert all(0 <= at <= seconds * (1 + 1e-6) for at, _ in ticks)
    assert len({text for _, text in ticks}) == len(ticks)


def test_a_large_comparison_stays_small_and_quick():
    mix = made_up(groups=2_000, machines=300)
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
        cycles = tuple(CycleTiming(i * 0.5, draw.lognormvariate(-6, 1), 1, 1) for i in range(8_000))
        results.append(Result(name, mix, tuple(runs), cycles, max(run.end or 0 for run in runs)))
    before = time.perf_counter()
    page = render(results)
    assert time.perf_counter() - before < 4  # about 0.3 s on an idle machine
    assert len(page.encode()) < 1_500_000
