"""What disks have left: the table that is kept up to date, against a recount from what happened."""

from random import Random

import numpy as np
import pytest

from afflux.cluster.state import State
from afflux.model.disks import DiskReport, DiskRequest
from afflux.model.errors import InputError
from afflux.model.task import Shape, Task
from oracles.builders import machine
from oracles.disks import (
    Prices,
    charge_of,
    default_charge,
    disk,
    random_disks,
    random_request,
    report,
    stated,
)


def on_disks(name: str, request: DiskRequest | None) -> Task:
    return Task(name, name, Shape((("pods", 1),), disks=request))


def left(state: State, name: str = "m") -> dict[str, tuple[int, ...]]:
    """What the disks of a machine that take requests have left, by id."""
    columns = state.view().disks
    row = state.rows[name]
    known = state.disks.report(name)
    there = np.flatnonzero(columns.model[row] >= 0).tolist()
    assert known is not None or not there
    return {known.disks[i].id: tuple(columns.left[row, i].tolist()) for i in there if known}


def test_a_placed_task_counts_until_its_report_acknowledges_it():
    state = State([machine("m")])
    state.set_disks(report("m", disk("a", 10, 10, 20)))
    state.place(on_disks("t", stated((3, 1))), "m")
    assert left(state) == {"a": (7, 9, 16)}
    state.set_disks(report("m", disk("a", 7, 9, 16), of=["t"]))
    assert left(state) == {"a": (7, 9, 16)}


def test_an_acknowledged_task_that_has_ended_gives_back_what_it_took_until_it_is_forgotten():
    state = State([machine("m")])
    state.set_disks(report("m", disk("a", 10, 10, 20)))
    state.place(on_disks("t", stated((3, 1))), "m")
    state.set_disks(report("m", disk("a", 6, 9, 15), of=["t"]))
    state.remove("t")
    assert left(state) == {"a": (9, 10, 19)}
    state.set_disks(report("m", disk("a", 5, 9, 14), of=["t"]))
    assert left(state) == {"a": (8, 10, 18)}
    state.set_disks(report("m", disk("a", 10, 10, 20)))
    assert left(state) == {"a": (10, 10, 20)}


def test_a_task_that_ended_before_it_was_acknowledged_gives_back_as_well():
    state = State([machine("m")])
    state.set_disks(report("m", disk("a", 10, 10, 20)))
    state.place(on_disks("t", stated((3, 1))), "m")
    state.remove("t")
    assert left(state) == {"a": (10, 10, 20)}
    state.set_disks(report("m", disk("a", 7, 9, 16), of=["t"]))
    assert left(state) == {"a": (10, 10, 20)}


def test_acknowledged_tasks_that_were_never_seen_give_nothing_back():
    state = State([machine("m")])
    state.set_disks(report("m", disk("a", 5, 5), of=["unknown"]))
    assert left(state) == {"a": (5, 5, 10)}


def test_a_report_may_come_before_its_machine_and_stays_when_it_leaves():
    state = State()
    state.set_disks(report("m", disk("a", 10, 10)))
    state.set_machine(machine("m"))
    assert left(state) == {"a": (10, 10, 20)}
    state.place(on_disks("t", stated((4, 0))), "m")
    state.remove_machine("m")
    state.set_machine(machine("other"))
    assert left(state, "other") == {}
    state.set_machine(machine("m"))
    assert left(state) == {"a": (10, 10, 20)}


def test_tasks_that_run_before_the_first_report_count_with_it():
    state = State([machine("m")])
    state.place(on_disks("t", stated((4, 0))), "m")
    assert left(state) == {}
    assert state.disks.disks_of("t") == ()
    state.set_disks(report("m", disk("a", 10, 10)))
    assert left(state) == {"a": (6, 10, 16)}
    assert state.disks.disks_of("t") == ("a",)


def test_the_disks_that_a_pod_names_count_and_unknown_ones_are_chosen():
    state = State([machine("m")])
    state.set_disks(report("m", disk("small", 5, 5), disk("large", 10, 10)))
    state.place(on_disks("named", stated((4, 0))), "m", disks=("large",))
    state.place(on_disks("elsewhere", stated((4, 0))), "m", disks=("gone",))
    state.place(on_disks("emptiest", default_charge(1, 1)), "m")
    assert state.disks.disks_of("named") == ("large",)
    assert state.disks.disks_of("elsewhere") == ("small",)
    assert state.disks.disks_of("emptiest") == ("large",)
    assert left(state) == {"small": (1, 5, 6), "large": (5, 9, 14)}


def test_a_chosen_disk_is_kept_when_the_report_lists_disks_in_another_order():
    state = State([machine("m")])
    state.set_disks(report("m", disk("a", 10, 10), disk("b", 10, 10)))
    state.place(on_disks("t", stated((3, 0))), "m", devices=(1,))
    state.set_disks(report("m", disk("b", 10, 10), disk("c", 9, 9), disk("a", 10, 10)))
    assert state.disks.disks_of("t") == ("b",)
    assert left(state) == {"b": (7, 10, 17), "c": (9, 9, 18), "a": (10, 10, 20)}


def test_a_machine_whose_report_is_refused_shows_no_disks_but_counts_on():
    state = State([machine("m")])
    state.set_disks(report("m", disk("a", 10, 10), refused="silent"))
    state.place(on_disks("t", default_charge(1, 1)), "m", devices=())
    assert left(state) == {}
    state.set_disks(report("m", disk("a", 10, 10)))
    assert left(state) == {"a": (9, 9, 18)}


def test_a_report_that_changes_nothing_changes_no_version():
    state = State([machine("m"), machine("other")])
    state.set_disks(report("m", disk("a", 10, 10)))
    state.place(on_disks("t", stated((3, 1))), "m")
    version, described = state.version, state.machines_version
    state.set_disks(report("m", disk("a", 10, 10)))
    state.set_disks(report("m", disk("a", 7, 9, 16), of=["t"]))
    state.set_disks(report("unknown", disk("a", 10, 10)))
    assert state.version == version
    assert not any(vars_of(state.set_disks(report("m", disk("a", 7, 9, 16), of=["t"]))))
    state.set_disks(report("m", disk("a", 7, 8, 16), of=["t"]))
    assert state.version == version + 1
    assert state.changed[state.rows["m"]] == state.version
    assert state.changed[state.rows["other"]] < version
    assert state.machines_version == described


def vars_of(change: object) -> list[bool]:
    return [getattr(change, name) for name in ("more", "less")]


@pytest.mark.parametrize(
    ("now", "more", "less"),
    [
        (report("m", disk("a", 11, 10, 20)), True, False),
        (report("m", disk("a", 10, 9, 20)), False, True),
        (report("m", disk("a", 11, 9, 20)), True, True),
        (report("m", disk("a", 10, 10, 20), disk("b", 1, 1)), True, False),
        (report("m"), True, True),
        (report("m", disk("a", 10, 10, 20), refused="silent"), True, True),
        (report("m", disk("a", 10, 10, 20, "acme/fast")), True, True),
    ],
)
def test_a_report_says_whether_there_is_more_bandwidth_or_less(
    now: DiskReport, more: bool, less: bool
):
    state = State([machine("m")])
    state.set_disks(report("m", disk("a", 10, 10, 20)))
    assert vars_of(state.set_disks(now)) == [more, less]


def test_another_normaliser_prices_what_runs_again_and_only_machines_with_its_models():
    state = State([machine("m"), machine("other")])
    state.set_normalisers(frozenset({"acme/slow", "acme/fast"}), Prices())
    state.set_disks(report("m", disk("a", 100, 100, model="acme/slow")))
    state.set_disks(report("other", disk("a", 100, 100, model="acme/fast")))
    state.place(on_disks("t", stated((10, 0))), "m")
    assert left(state) == {"a": (80, 100, 180)}
    before = state.version
    change = state.set_normalisers(frozenset({"acme/slow"}), Prices(3))
    assert vars_of(change) == [True, True]
    assert left(state) == {"a": (40, 100, 140)}
    assert state.changed[state.rows["m"]] > before >= state.changed[state.rows["other"]]
    assert vars_of(state.set_normalisers(frozenset({"acme/none"}), Prices(3))) == [False, False]


def test_a_normaliser_is_asked_once_for_each_model_and_volume():
    asked: list[tuple[str, object]] = []

    def counting(model: str, volume: object):
        asked.append((model, volume))
        return Prices()(model, volume)

    state = State([machine("m")])
    state.set_normalisers(frozenset({"acme/fast"}), counting)
    state.set_disks(report("m", disk("a", 9, 9, model="acme/fast"), disk("b", 9, 9)))
    for number in range(5):
        state.place(on_disks(f"t{number}", stated((1, 0))), "m", disks=("a",))
        state.disks.taken(stated((1, 0)))
    assert len(asked) == 1


def test_two_disks_of_one_id_are_refused():
    with pytest.raises(InputError, match=r"disks of m: .*expected different ids"):
        State([machine("m")]).set_disks(report("m", disk("a", 1, 1), disk("a", 1, 1)))


def test_disks_without_any_tasks_have_what_is_left_and_what_the_known_tasks_take():
    state = State([machine("m")])
    state.set_disks(report("m", disk("a", 10, 10)))
    state.place(on_disks("t", stated((3, 0))), "m")
    state.place(on_disks("ended", stated((2, 0))), "m")
    state.set_disks(report("m", disk("a", 4, 10, 14), of=["t", "ended", "unknown"]))
    state.remove("ended")
    capacity = state.disks.capacity(len(state))
    assert capacity.left[state.rows["m"], 0].tolist() == [9, 10, 19]


class History:
    """Random events; what has happened is kept, and everything counted from that."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.state = State()
        self.prices = Prices()
        self.reports: dict[str, DiskReport] = {}
        self.placed: dict[str, tuple[str, DiskRequest | None]] = {}
        # By machine and task that has ended: what it asked for, and its disks.
        self.ended: dict[str, dict[str, tuple[DiskRequest, tuple[str, ...]]]] = {}
        self.state.set_normalisers(frozenset(), self.prices)

    def step(self) -> None:
        rng, state = self.rng, self.state
        name = f"m{rng.randrange(3)}"
        action = rng.choice(("report",) * 4 + ("place",) * 6 + ("end",) * 4 + ("other",))
        if action == "report":
            self._report(name)
        elif action == "place" and name in state.rows:
            task = f"t{rng.randrange(8)}"
            self._end(task)
            request = random_request(rng) if rng.random() < 0.9 else None
            given = tuple(f"nvme{rng.randrange(4)}" for _ in request.volumes) if request else ()
            given = given if rng.random() < 0.5 else ()
            state.place(on_disks(task, request), name, disks=given)
            self.placed[task] = (name, request)
            if request is not None:
                self.ended.get(name, {}).pop(task, None)
        elif action == "end" and self.placed:
            self._end(rng.choice(list(self.placed)))
        elif action == "other":
            self._change_machines(name)

    def _report(self, name: str) -> None:
        rng = self.rng
        tasks = [f"t{number}" for number in range(8)]
        acknowledged = frozenset(rng.sample(tasks, rng.randint(0, 6)))
        if (known := self.reports.get(name)) is not None and rng.random() < 0.1:
            self.state.remove_disks(known.machine)
            del self.reports[name]
            self.ended.pop(name, None)
            return
        refused = "silent" if rng.random() < 0.1 else ""
        disks = random_disks(rng) if known is None or rng.random() < 0.6 else known.disks
        now = DiskReport(name, disks, acknowledged, refused)
        if known == now:
            return
        self.state.set_disks(now)
        self.reports[name] = now
        ended = self.ended.get(name, {})
        self.ended[name] = {i: each for i, each in ended.items() if i in acknowledged}

    def _end(self, task: str) -> None:
        if task not in self.placed:
            return
        name, request = self.placed.pop(task)
        disks = self.state.disks.disks_of(task)
        self.state.remove(task)
        if request is not None and name in self.reports:
            self.ended.setdefault(name, {})[task] = (request, disks)

    def _change_machines(self, name: str) -> None:
        state = self.state
        if self.rng.random() < 0.3:
            self.prices = Prices(self.rng.randint(1, 3))
            state.set_normalisers(frozenset({"acme/slow", "acme/fast"}), self.prices)
        elif name not in state.rows:
            state.set_machine(machine(name))
        else:
            state.remove_machine(name)
            self.placed = {i: each for i, each in self.placed.items() if each[0] != name}
            self.ended.pop(name, None)

    def expected(self, name: str) -> dict[str, tuple[int, ...]]:
        known = self.reports.get(name)
        if known is None or known.refused:
            return {}
        by_id = {each.id: each for each in known.disks}
        found = {i: [d.left.read, d.left.write, d.left.total] for i, d in by_id.items()}
        counted = [
            (request, self.state.disks.disks_of(task), -1)
            for task, (where, request) in self.placed.items()
            if where == name and request is not None and task not in known.acknowledged
        ]
        ended = self.ended.get(name, {})
        counted += [(*ended[i], 1) for i in ended if i in known.acknowledged]
        for request, disks, times in counted:
            for volume, i in zip(request.volumes, disks, strict=False):
                if i in by_id:
                    for kind, amount in enumerate(charge_of(self.prices, by_id[i], volume)):
                        found[i][kind] += times * amount
        return {i: tuple(amounts) for i, amounts in found.items()}


@pytest.mark.parametrize("seed", range(60))
def test_the_table_equals_a_recount_after_any_history(seed: int):
    history = History(Random(f"disk table {seed}"))
    for name in ("m0", "m1"):
        history.state.set_machine(machine(name))
    for _ in range(120):
        version, before = history.state.version, _all_left(history.state)
        history.step()
        state = history.state
        for name in state.rows:
            assert left(state, name) == history.expected(name)
        for task, (name, request) in history.placed.items():
            known = history.reports.get(name)
            if request is not None and known is not None and known.disks:
                disks = state.disks.disks_of(task)
                assert len(disks) == len(request.volumes)
                assert set(disks) <= {each.id for each in known.disks}
        if state.version == version:
            assert _all_left(state) == before


def _all_left(state: State) -> dict[str, dict[str, tuple[int, ...]]]:
    return {name: left(state, name) for name in state.rows}


@pytest.mark.parametrize("seed", range(20))
def test_a_state_that_learns_everything_anew_has_the_same_left(seed: int):
    history = History(Random(f"anew {seed}"))
    for name in ("m0", "m1", "m2"):
        history.state.set_machine(machine(name))
    for _ in range(80):
        history.step()
    anew = State()
    anew.set_normalisers(frozenset({"acme/slow", "acme/fast"}), history.prices)
    for name in history.state.rows:
        anew.set_machine(machine(name))
    for task, (name, request) in history.placed.items():
        disks = history.state.disks.disks_of(task)
        anew.place(on_disks(task, request), name, disks=disks)
    for name, known in history.reports.items():
        anew.set_disks(known)
        # What ended is not known any more, which only makes disks look fuller.
        if name in anew.rows:
            more = history.expected(name)
            assert all(
                mine <= theirs
                for i, amounts in left(anew, name).items()
                for mine, theirs in zip(amounts, more[i], strict=True)
            )
            if not any(i in known.acknowledged for i in history.ended.get(name, {})):
                assert left(anew, name) == more
