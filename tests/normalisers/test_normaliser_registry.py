"""The registry verifies before it looks, keeps the last good normaliser, and says what is wrong."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from signed_entries import KEYS, entry, listed, signed, table
from wasm_modules import LOOPING

from afflux.model.disks import Bandwidth, VolumeIO
from afflux.normalisers.catalogue import Catalogue, Entry, EntryProblem, parse_entry
from afflux.normalisers.normaliser import load_normaliser
from afflux.normalisers.registry import MAX_CACHED_REQUESTS, NormaliserRegistry
from afflux.normalisers.signatures import content_digest

MODEL = "Acme/NV100"
REQUEST = VolumeIO(1000, 500, 4096)
TWICE = Bandwidth(2000, 1000, 3000)
THREE_TIMES = Bandwidth(3000, 1500, 4500)


def registry(*offered: tuple[Entry, bytes], **options: Any) -> NormaliserRegistry:
    """A registry in which these entries are listed and in use."""
    made = NormaliserRegistry(KEYS, **options)
    made.set_entries(listed(*(each for each, _ in offered)))
    for each, content in offered:
        assert made.offer(each, content), made.problems()
    return made


def messages(made: NormaliserRegistry) -> list[tuple[str, str]]:
    return [(problem.kind, problem.message) for problem in made.problems()]


def offer(made: NormaliserRegistry, new: Entry, content: bytes) -> bool:
    made.set_entries(listed(new))
    return made.offer(new, content)


class TestAnswers:
    def test_a_model_is_normalised_once_its_content_was_offered(self) -> None:
        made = NormaliserRegistry(KEYS)
        first = entry(table(2))
        assert made.normalise(MODEL, REQUEST) is None
        made.set_entries(listed(first))
        assert made.wanted() == (first,)
        assert made.normalise(MODEL, REQUEST) is None
        assert made.offer(first, table(2))
        assert made.normalise(MODEL, REQUEST) == TWICE
        assert made.wanted() == ()
        assert made.problems() == ()

    def test_a_disk_of_unknown_model_takes_what_is_stated(self) -> None:
        assert NormaliserRegistry({}).normalise("", REQUEST) == Bandwidth(1000, 500, 1500)

    def test_a_request_that_fails_fits_nowhere_and_is_a_problem(self) -> None:
        made = registry((entry(LOOPING), LOOPING))
        assert [made.normalise(MODEL, REQUEST) for _ in range(2)] == [None, None]
        ((kind, message),) = messages(made)
        assert kind == "request"
        assert message.startswith("1000 rbps, 500 wbps, blocks of 4096: estimate_request: it used")
        assert offer(made, entry(table(2), 2), table(2))
        assert made.normalise(MODEL, REQUEST) == TWICE
        assert made.problems() == ()

    def test_answers_are_remembered_up_to_a_bound(self) -> None:
        made = registry((entry(table(2)), table(2)))
        for read in range(2 * MAX_CACHED_REQUESTS):
            found = made.normalise(MODEL, VolumeIO(read, 0, 4096))
            assert found == Bandwidth(2 * read, 0, 2 * read)
        estimate: Any = made.in_use()[MODEL].estimate
        assert estimate.cache_info().currsize == MAX_CACHED_REQUESTS


class TestRefusals:
    """The last good normaliser stays in use while a newer one is refused."""

    @pytest.mark.parametrize(
        ("new", "problem"),
        [
            (
                parse_entry(signed(table(3), version=3) | {"version": 4}),
                "signature: not that of k1",
            ),
            (
                parse_entry(signed(table(3), 3, model="Other") | {"model": "NV100"}),
                "signature: not",
            ),
            (entry(table(3), 3, keyId="k3"), 'keyId: "k3", expected a trusted key'),
            (Entry("Acme", "NV100"), "signature: missing"),
            (entry(table(3), 1), "version: 1, expected at least 2, which was accepted before"),
            (entry(table(3), 2), "version: 2 has another content, expected the digest sha256:"),
        ],
    )
    def test_an_entry_is_refused_before_anything_is_fetched(self, new: Entry, problem: str) -> None:
        made = registry((entry(table(2), 2), table(2)))
        made.set_entries(listed(new))
        assert made.wanted() == ()
        assert not made.offer(new, table(3))
        assert made.normalise(MODEL, REQUEST) == TWICE
        ((kind, message),) = messages(made)
        assert kind == "refused"
        assert problem in message
        made.set_entries(listed(entry(table(2), 2)))
        assert made.problems() == ()

    def test_another_content_is_refused_and_can_be_fetched_again(self) -> None:
        made = registry((entry(table(2)), table(2)))
        new = entry(table(3), 2)
        assert not offer(made, new, b"not found")
        assert made.normalise(MODEL, REQUEST) == TWICE
        assert "the content has the digest" in messages(made)[0][1]
        assert made.wanted() == (new,)
        assert made.offer(new, table(3))
        assert made.normalise(MODEL, REQUEST) == THREE_TIMES
        assert made.problems() == ()

    def test_a_content_of_no_use_is_not_fetched_again(self) -> None:
        made = registry((entry(table(2)), table(2)))
        new = entry(b"{}", 2)
        assert not offer(made, new, b"{}")
        assert made.wanted() == ()
        assert messages(made) == [("refused", "{}, expected an object")]
        made.set_entries(listed(new))
        assert (made.wanted(), len(made.problems())) == ((), 1)
        assert offer(made, entry(table(3), 2), table(3)), (
            "it was never accepted, so not its version"
        )

    def test_a_content_that_cannot_be_had_is_a_problem_until_it_can(self) -> None:
        made = registry((entry(table(2)), table(2)))
        new = entry(table(3), 2)
        made.set_entries(listed(new))
        made.unavailable(new, "connection refused")
        assert messages(made) == [("unavailable", "connection refused")]
        assert made.wanted() == (new,)
        assert made.offer(new, table(3))
        assert made.problems() == ()

    def test_only_what_is_listed_is_taken(self) -> None:
        made = registry((entry(table(2)), table(2)))
        assert not made.offer(entry(table(3), 2), table(3))
        assert not made.offer(entry(table(3), model="Other"), table(3))
        assert set(made.in_use()) == {MODEL}

    def test_a_rollback_is_refused_also_after_the_entry_was_removed(self) -> None:
        made = registry((entry(table(2), 2), table(2)))
        assert made.set_entries(listed()) == {MODEL}
        assert not offer(made, entry(table(3), 1), table(3))
        assert made.normalise(MODEL, REQUEST) is None
        assert offer(made, entry(table(2), 2), table(2))


class TestRemovals:
    def test_an_entry_takes_its_normaliser_with_it(self) -> None:
        other = entry(table(3), model="Other")
        made = registry((entry(table(2)), table(2)), (other, table(3)))
        assert made.set_entries(listed(other)) == {MODEL}
        assert made.normalise(MODEL, REQUEST) is None
        assert made.normalise("Acme/Other", REQUEST) == THREE_TIMES

    @pytest.mark.parametrize("about", [MODEL, ""])
    def test_a_wrong_entry_that_may_be_about_the_model_keeps_it(self, about: str) -> None:
        made = registry((entry(table(2)), table(2)))
        wrong = Catalogue(problems=(EntryProblem(about, "wrong"),))
        assert made.set_entries(wrong) == frozenset()
        assert made.normalise(MODEL, REQUEST) == TWICE
        assert messages(made) == [("entry", "wrong")]

    def test_a_list_that_cannot_be_read_changes_nothing(self) -> None:
        made = registry((entry(table(2)), table(2)))
        made.unreadable("expected JSON")
        assert made.normalise(MODEL, REQUEST) == TWICE
        assert messages(made) == [("entry", "expected JSON")]
        made.set_entries(listed(entry(table(2))))
        assert made.problems() == ()

    def test_a_key_takes_what_it_has_signed_with_it(self) -> None:
        other = entry(table(3), 9, model="Other", key="k2")
        made = registry((entry(table(2)), table(2)), (other, table(3)))
        assert made.set_trusted_keys({"k1": KEYS["k1"]}) == {"Acme/Other"}
        assert made.normalise("Acme/Other", REQUEST) is None
        assert "keyId" in messages(made)[0][1]
        lower = entry(table(3), 1, model="Other")
        made.set_entries(listed(entry(table(2)), lower))
        assert made.offer(lower, table(3)), "versions of a key that is not trusted do not count"

    def test_a_key_is_rotated_without_fetching_anything_again(self) -> None:
        made = registry((entry(table(2)), table(2)))
        again = entry(table(2), 2, key="k2", url="https://elsewhere.example/")
        assert made.set_entries(listed(again)) == frozenset()
        assert (made.wanted(), made.problems()) == ((), ())
        assert made.set_trusted_keys({"k2": KEYS["k2"]}) == frozenset()
        assert made.normalise(MODEL, REQUEST) == TWICE
        assert made.in_use()[MODEL].entry == again


class TestFilesOfAUser:
    def test_files_need_no_signature_and_are_marked(self) -> None:
        unsigned = Entry("Acme", "NV100")
        made = registry((unsigned, table(2)), trust_unsigned=True)
        assert made.normalise(MODEL, REQUEST) == TWICE
        assert not made.in_use()[MODEL].is_verified

    def test_their_digest_is_held_against_the_content(self) -> None:
        made = NormaliserRegistry({}, trust_unsigned=True)
        assert not offer(made, entry(table(2)), table(3))
        assert offer(made, entry(table(2)), table(2))


# --- Histories

CONTENTS = [table(2), table(3), b"no normaliser"]
MODELS = ["NV100", "Other"]
ENTRIES = st.builds(
    entry,
    st.sampled_from(CONTENTS),
    st.integers(1, 3),
    model=st.sampled_from(MODELS),
    key=st.sampled_from(["k1", "k2"]),
    keyId=st.sampled_from(["k1", "k2"]),
)
STEPS = st.one_of(
    st.lists(ENTRIES, max_size=2, unique_by=lambda each: each.model),
    st.sets(st.sampled_from(["k1", "k2"])),
    st.sampled_from(CONTENTS),
)


@given(st.lists(STEPS, max_size=25))
def test_in_every_history_only_what_is_listed_signed_and_not_older_is_used(
    steps: list[Any],
) -> None:
    made = NormaliserRegistry(KEYS)
    trusted, names = KEYS, dict[str, Entry]()
    seen: dict[str, Entry] = {}
    for step in steps:
        if isinstance(step, set):
            trusted = {name: KEYS[name] for name in step}
            made.set_trusted_keys(trusted)
            seen = {model: each for model, each in seen.items() if each.key_id in trusted}
        elif isinstance(step, list):
            names = {each.disk_model: each for each in step}
            made.set_entries(listed(*step))
        else:
            for each in (*made.wanted(), *names.values()):
                made.offer(each, step)
        for model, used in made.in_use().items():
            assert model in names
            assert used.entry.key_id in trusted
            assert (
                parse_entry(
                    signed(
                        next(c for c in CONTENTS if content_digest(c) == used.entry.digest),
                        used.entry.version or 0,
                        model=used.entry.model,
                        key=used.entry.key_id or "",
                    )
                )
                == used.entry
            ), "as it was signed"
            before = seen.get(model, used.entry)
            assert (used.entry.version or 0) >= (before.version or 0)
            if used.entry.version == before.version:
                assert used.entry.digest == before.digest
            seen[model] = used.entry
            content = next(c for c in CONTENTS if content_digest(c) == used.entry.digest)
            expected = load_normaliser(content).estimate(REQUEST).taken
            assert made.normalise(model, REQUEST) == expected
        wanted, problems = made.wanted(), {problem.disk_model for problem in made.problems()}
        for model, each in names.items():
            used = made.in_use().get(model)
            assert (used is not None and used.entry == each) or each in wanted or model in problems
