"""Which list of reserved pods a report answers: never one with a pod that is not known."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from afflux.diskio.acknowledgement import Acknowledgement


def test_a_list_is_answered_once_all_its_pods_are_bound() -> None:
    answer = Acknowledgement(60.0)
    assert answer.generation is None
    assert answer.observe("o", 1, [], set(), 0.0)
    assert (answer.generation, answer.pods) == (1, ())
    assert not answer.observe("o", 2, ["a"], set(), 1.0)
    assert (answer.generation, answer.awaited(1.0)) == (1, ["a"])
    assert answer.observe("o", 2, ["a"], {"a"}, 2.0)
    assert (answer.generation, answer.pods) == (2, ("a",))
    assert not answer.observe("o", 2, ["a"], {"a"}, 3.0)


def test_a_pod_that_never_comes_is_given_up() -> None:
    answer = Acknowledgement(60.0)
    assert not answer.observe("o", 1, ["gone"], set(), 0.0)
    assert not answer.observe("o", 1, ["gone"], set(), 59.0)
    assert answer.given_up(59.0) == []
    assert answer.observe("o", 1, ["gone"], set(), 60.0)
    assert (answer.pods, answer.given_up(60.0)) == (("gone",), ["gone"])


def test_each_pod_is_waited_for_from_when_it_was_reserved() -> None:
    answer = Acknowledgement(60.0)
    answer.observe("o", 1, ["a"], set(), 0.0)
    answer.observe("o", 2, ["a", "b"], set(), 30.0)
    assert answer.awaited(60.0) == ["b"]
    assert not answer.observe("o", 2, ["a", "b"], set(), 60.0)
    assert answer.observe("o", 2, ["a", "b"], set(), 90.0)


def test_another_object_of_the_same_name_begins_again() -> None:
    answer = Acknowledgement(60.0)
    answer.observe("o", 7, [], set(), 0.0)
    assert not answer.observe("p", 1, ["a"], set(), 1.0)
    assert (answer.generation, answer.pods) == (None, ())
    assert answer.observe("p", 1, ["a"], {"a"}, 1.0)
    assert answer.generation == 1


def test_an_older_version_of_the_object_changes_nothing() -> None:
    answer = Acknowledgement(60.0)
    answer.observe("o", 7, ["a"], {"a"}, 0.0)
    assert not answer.observe("o", 6, [], {"a"}, 1.0)
    assert (answer.generation, answer.pods) == (7, ("a",))


class Reservations(RuleBasedStateMachine):
    """A scheduler that reserves and gives up, and pods that are bound, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = Acknowledgement(60.0)
        self.now = 0.0
        self.generation = 1
        self.listed: list[str] = []
        self.known: set[str] = set()
        self.lists: dict[int, tuple[str, ...]] = {1: ()}
        self.reserved_at: dict[str, float] = {}
        self.next = 0

    @rule()
    def reserve(self) -> None:
        self.next += 1
        self.listed.append(f"p{self.next}")
        self.reserved_at[f"p{self.next}"] = self.now
        self._write()

    @precondition(lambda self: self.listed)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        self.listed.remove(data.draw(st.sampled_from(self.listed)))
        self._write()

    @precondition(lambda self: self.listed)
    @rule(data=st.data())
    def bind(self, data: st.DataObject) -> None:
        self.known.add(data.draw(st.sampled_from(self.listed)))

    @rule(seconds=st.floats(0, 40))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def look(self) -> None:
        before = self.answer.generation or 0
        self.answer.observe("o", self.generation, self.listed, self.known, self.now)
        assert (self.answer.generation or 0) >= before

    @invariant()
    def what_is_answered_was_listed_and_is_known(self) -> None:
        if self.answer.generation is not None:
            assert self.answer.pods == self.lists[self.answer.generation]
        for pod in self.answer.pods:
            assert pod in self.known or self.now - self.reserved_at[pod] >= 60.0

    @rule()
    def everything_bound_is_answered(self) -> None:
        self.known |= set(self.listed)
        self.answer.observe("o", self.generation, self.listed, self.known, self.now)
        assert self.answer.generation == self.generation

    def _write(self) -> None:
        self.generation += 1
        self.lists[self.generation] = tuple(self.listed)


TestReservations = Reservations.TestCase
