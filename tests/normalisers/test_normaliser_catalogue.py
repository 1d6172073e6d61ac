"""The list diskVendors: each entry is judged for itself, and before anything is fetched for it."""

import json
from typing import Any

import pytest
from signed_entries import KEYS, entry, signed, table

from afflux.normalisers.catalogue import (
    MAX_ENTRIES,
    Entry,
    parse_catalogue,
    parse_entry,
    verify_content,
    verify_entry,
)
from afflux.normalisers.errors import NormaliserRefusedError, NotAuthenticError


def parsed(*entries: object) -> Any:
    return parse_catalogue(json.dumps(entries).encode())


def test_an_entry_of_the_kubernetes_proposal_is_read() -> None:
    found = parsed({"vendorName": "Intel", "model": "P4510", "url": "https://driver.example/f"})
    assert found.entries == (Entry("Intel", "P4510", "https://driver.example/f"),)
    assert found.problems == ()
    assert found.entries[0].disk_model == "Intel/P4510"


def test_a_signed_entry_is_read() -> None:
    found = parsed(signed())
    assert found.entries[0].version == 1
    assert found.entries[0].signed() is not None


def test_a_wrong_entry_does_not_affect_the_others() -> None:
    found = parsed(signed(model="A"), 7, signed(model="B", version=0), signed(model="C"))
    assert [each.disk_model for each in found.entries] == ["Acme/A", "Acme/C"]
    assert [(each.disk_model, each.message) for each in found.problems] == [
        ("", "entry 1: 7, expected an object"),
        ("Acme/B", "entry 2: version: 0, expected an integer from 1"),
    ]


@pytest.mark.parametrize("second", [signed(version=2), signed(version=0)])
def test_of_several_entries_for_one_model_none_is_used(second: dict[str, Any]) -> None:
    for entries in ([signed(), second], [second, signed()]):
        found = parsed(*entries, signed(model="B"))
        assert [each.disk_model for each in found.entries] == ["Acme/B"]
        assert "2 entries, expected one for each model" in [p.message for p in found.problems]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"more": 1}, '"more": unknown field, expected one of vendorName, model, url, version'),
        ({"model": None}, "model: missing, expected a value"),
        ({"vendorName": ""}, 'vendorName: "", expected 1 to 100 printable ASCII characters'),
        ({"vendorName": "a/b"}, 'vendorName: "a/b", expected 1 to 100'),
        ({"vendorName": 'a"b'}, "expected 1 to 100 printable ASCII characters"),
        ({"vendorName": " a"}, "expected 1 to 100 printable ASCII characters"),
        ({"vendorName": "é"}, "expected 1 to 100 printable ASCII characters"),
        ({"model": "x" * 101}, "expected 1 to 100 printable ASCII characters"),
        ({"url": "file:///etc/passwd"}, 'url: "file:///etc/passwd", expected a URL with https'),
        ({"url": "https://a b"}, "expected a URL with https or http"),
        ({"version": "1"}, 'version: "1", expected an integer from 1'),
        ({"version": True}, "version: true, expected an integer from 1"),
        ({"version": 2**53}, "expected an integer from 1"),
        ({"digest": "sha256:00"}, 'digest: "sha256:00", expected "sha256:" and 64'),
        ({"keyId": "a/b"}, 'keyId: "a/b", expected at most 63 letters'),
        ({"signature": "AAAA"}, 'signature: "AAAA", expected a signature of 64 bytes in base64'),
        ({"digest": None}, "digest: missing, expected in a signed entry"),
        ({"version": None}, "version: missing, expected in a signed entry"),
        ({"keyId": None}, "keyId: missing, expected in a signed entry"),
        ({"signature": None}, "signature: missing, expected in a signed entry"),
    ],
)
def test_a_wrong_entry_is_refused_with_field_value_and_expectation(
    changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(NormaliserRefusedError) as refused:
        parse_entry(signed(**changes))
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "expected JSON"),
        (b"{}", "{}, expected a list of entries"),
        (json.dumps([1] * (MAX_ENTRIES + 1)).encode(), "1001 entries, expected at most 1000"),
        (b" " * 2**21, "2097152 bytes, expected at most 1048576"),
    ],
)
def test_what_is_no_list_is_refused(content: bytes, problem: str) -> None:
    with pytest.raises(NormaliserRefusedError, match=problem):
        parse_catalogue(content)


class TestAuthentic:
    def test_an_entry_is_used_as_a_trusted_key_has_signed_it(self) -> None:
        assert verify_entry(entry(), KEYS)

    @pytest.mark.parametrize(
        ("changes", "problem"),
        [
            ({"model": "Other"}, "signature: not that of k1"),
            ({"version": 2}, "signature: not that of k1"),
            ({"digest": entry(table(3)).digest}, "signature: not that of k1"),
            ({"keyId": "k2"}, "signature: not that of k2"),
            ({"keyId": "k3"}, r'keyId: "k3", expected a trusted key \(there are: k1, k2\)'),
            ({"signature": None, "keyId": None}, "signature: missing, expected that of a trusted"),
        ],
    )
    def test_what_was_changed_after_it_was_signed_is_refused(
        self, changes: dict[str, Any], problem: str
    ) -> None:
        changed = signed() | changes
        made = parse_entry({name: value for name, value in changed.items() if value is not None})
        with pytest.raises(NotAuthenticError, match=problem):
            verify_entry(made, KEYS)

    def test_files_of_a_user_need_no_signature_but_a_wrong_one_is_refused(self) -> None:
        unsigned = Entry("Acme", "NV100")
        assert not verify_entry(unsigned, {}, trust_unsigned=True)
        assert not verify_entry(entry(), {}, trust_unsigned=True)
        assert verify_entry(entry(), KEYS, trust_unsigned=True)
        with pytest.raises(NotAuthenticError, match="signature: not that of k2"):
            verify_entry(entry(keyId="k2"), KEYS, trust_unsigned=True)

    def test_a_content_has_the_digest_of_its_entry(self) -> None:
        verify_content(entry(table(2)), table(2))
        with pytest.raises(NotAuthenticError, match="the content has the digest sha256:"):
            verify_content(entry(table(2)), table(3))
