"""Which promises were kept, and how they are counted."""

from dataclasses import replace

from test_backfilling import simulated

from afflux.sim.keeping import broken_promises, moved_promises
from afflux.sim.metrics import measure
from afflux.sim.result import Promised, Result


def promising(*promised: Promised) -> Result:
    """g0 starts at 0, g1 at 9, g2 never; the simulation ends at 20."""
    return replace(simulated((0.0, 0.0), (1.0, 9.0), (2.0, None)), promised=promised)


def test_a_promise_is_kept_by_starting_then_or_before():
    assert broken_promises(promising(Promised("g1", 1.0, 9.0, 9.0))) == {}
    assert broken_promises(promising(Promised("g1", 1.0, 12.0, 10.0))) == {}


def test_who_starts_later_than_it_was_first_promised_was_let_down_and_by_what_is_said():
    result = promising(Promised("g1", 1.0, 8.0, 6.0, "higher priority"))
    assert broken_promises(result) == {"g1": "higher priority"}
    assert measure(result)["promises"] == {
        "made": 1,
        "broken": 1,
        "broken_by": {"higher priority": 1},
        "moved": 1,
    }


def test_a_promise_that_was_put_off_for_a_time_and_kept_all_the_same_has_only_moved():
    result = promising(Promised("g1", 1.0, 12.0, 5.0, "strategy"))
    assert broken_promises(result) == {}
    assert moved_promises(result) == ["g1"]
    promises = measure(result)["promises"]
    assert promises == {"made": 1, "broken": 0, "broken_by": {}, "moved": 1}


def test_who_never_starts_was_let_down_once_the_promised_time_is_over():
    assert broken_promises(promising(Promised("g2", 2.0, 15.0, 15.0, "machine lost"))) == {
        "g2": "machine lost"
    }
    assert broken_promises(promising(Promised("g2", 2.0, 30.0, 30.0))) == {}


def test_nothing_promised_nothing_broken():
    figures = measure(promising())["promises"]
    assert figures == {"made": 0, "broken": 0, "broken_by": {}, "moved": 0}
