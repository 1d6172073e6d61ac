"""Whatever the bytes are: an answer, or a typed refusal on one line."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from signed_entries import KEYS, signed, table
from wasm_modules import REQUEST, answering

from afflux.model.disks import VolumeIO
from afflux.normalisers.catalogue import Catalogue, parse_catalogue, parse_entry
from afflux.normalisers.errors import NormaliserRefusedError
from afflux.normalisers.normaliser import MAX_BANDWIDTH, load_normaliser
from afflux.normalisers.registry import NormaliserRegistry
from afflux.normalisers.signatures import (
    parse_key_list,
    parse_private_key,
    parse_public_key,
    private_key_pem,
    public_key_pem,
)

MODULE = answering('{"rbps": "2000", "wbps": "1000", "total": "3000"}')
CATALOGUE = json.dumps([signed(), signed(model="B")]).encode()
KEY_FILES = [public_key_pem(KEYS["k1"]), private_key_pem(b"k" * 32), b'{"k1": "AAAA"}']
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda values: st.lists(values) | st.dictionaries(st.text(), values),
    max_leaves=8,
)


@st.composite
def mutated(draw: Callable[..., Any], seeds: list[bytes]) -> bytes:
    """A seed with some bytes replaced, inserted and cut out."""
    content = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(content)))
        length = draw(st.integers(0, 3))
        content[place : place + length] = draw(st.binary(max_size=4))
    return bytes(content)


@contextmanager
def one_line() -> Iterator[None]:
    """A refusal, if there is one, is one line."""
    message = ""
    try:
        yield
    except NormaliserRefusedError as error:
        message = str(error)
    assert message.isprintable()
    assert len(message) < 1000


def judged(content: bytes) -> None:
    """Loads the content and asks it; a refusal is one line."""
    with one_line():
        taken = load_normaliser(content).estimate(REQUEST).taken
        assert 0 <= max(taken.read, taken.write) <= taken.total <= MAX_BANDWIDTH


@given(st.binary(max_size=400) | mutated([table(2)]))
def test_tables(content: bytes) -> None:
    judged(content)


@given(mutated([MODULE]) | st.binary(max_size=200).map(lambda more: MODULE[:8] + more))
def test_modules(content: bytes) -> None:
    judged(content)


@given(st.text(max_size=100) | VALUES.map(json.dumps))
def test_answers_of_modules(answer: str) -> None:
    with suppress(UnicodeEncodeError):
        judged(answering(answer))


@given(VALUES | st.fixed_dictionaries({}, optional=dict.fromkeys(signed(), VALUES)))
def test_entries(value: object) -> None:
    with suppress(NormaliserRefusedError):
        parse_entry(value)


@given(st.binary(max_size=400) | mutated([CATALOGUE]))
def test_catalogues(content: bytes) -> None:
    catalogue = Catalogue()
    with one_line():
        catalogue = parse_catalogue(content)
    registry = NormaliserRegistry(KEYS)
    registry.set_entries(catalogue)
    for entry in catalogue.entries:
        registry.offer(entry, table(2))
    assert all(used.is_verified for used in registry.in_use().values())
    assert all(problem.message.isprintable() for problem in registry.problems())


@given(st.binary(max_size=200) | mutated(KEY_FILES))
def test_keys(content: bytes) -> None:
    for parse in (parse_public_key, parse_private_key, parse_key_list):
        with suppress(NormaliserRefusedError):
            parse(content)


@pytest.mark.parametrize("depth", [500, 2_000, 20_000])
def test_deeply_nested_texts(depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    for content in (deep, b'{"a":' * depth + b"1" + b"}" * depth):
        for parse in (load_normaliser, parse_key_list):
            with pytest.raises(NormaliserRefusedError):
                parse(content)
        with suppress(NormaliserRefusedError):
            assert parse_catalogue(content).entries == ()
    with pytest.raises(NormaliserRefusedError):
        load_normaliser(b'{"kind": "DiskCoefficients", "name": ' + deep + b"}")


@given(st.integers(0, MAX_BANDWIDTH), st.integers(0, MAX_BANDWIDTH), st.integers(1, 1 << 30))
def test_requests(read: int, write: int, block_bytes: int) -> None:
    for content in (table(2), MODULE):
        taken = load_normaliser(content).estimate(VolumeIO(read, write, block_bytes)).taken
        assert max(taken.read, taken.write) <= taken.total <= MAX_BANDWIDTH
