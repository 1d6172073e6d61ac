"""A signature binds vendor, model, version and digest of a normaliser to a key."""

import base64
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st
from signed_entries import KEYS, PRIVATE

from afflux.kube.trusted_key_files import read_trusted_keys
from afflux.model.errors import InputError
from afflux.normalisers.errors import NormaliserRefusedError
from afflux.normalisers.signatures import (
    Signed,
    content_digest,
    default_key_id,
    is_key_id,
    is_signed_by,
    parse_key_list,
    parse_private_key,
    parse_public_key,
    private_key_pem,
    public_key,
    public_key_pem,
    sign,
)

SIGNED = Signed("Acme", "NV100", 3, content_digest(b"content"))
PUBLIC = KEYS["k1"]
BASE64 = base64.b64encode(PUBLIC)
EC = ec.generate_private_key(ec.SECP256R1())


def test_the_signed_bytes_are_canonical_json() -> None:
    assert SIGNED.to_bytes() == (
        b'{"digest":"sha256:ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73",'
        b'"model":"NV100","vendor":"Acme","version":3}'
    )


def test_the_key_of_rfc_8032_signs_as_everywhere() -> None:
    seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    public = public_key(parse_private_key(private_key_pem(seed)))
    assert public.hex() == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"


@given(st.sampled_from(["vendor", "model", "version", "digest", "key", "signature"]))
def test_a_signature_covers_all_four_and_names_one_key(what: str) -> None:
    signature = sign(PRIVATE["k1"], SIGNED)
    assert is_signed_by(PUBLIC, SIGNED, signature)
    match what:
        case "key":
            assert not is_signed_by(KEYS["k2"], SIGNED, signature)
        case "signature":
            raw = bytearray(base64.b64decode(signature))
            raw[0] ^= 1
            assert not is_signed_by(PUBLIC, SIGNED, base64.b64encode(raw).decode())
        case _:
            values = {"vendor": "Acm", "model": "NV10", "version": 4, "digest": content_digest(b"")}
            fields = {name: getattr(SIGNED, name) for name in values}
            other = Signed(**(fields | {what: values[what]}))
            assert not is_signed_by(PUBLIC, other, signature)


@given(st.text() | st.binary().map(lambda raw: base64.b64encode(raw).decode()))
def test_other_texts_are_no_signatures(text: str) -> None:
    assert not is_signed_by(PUBLIC, SIGNED, text)


@pytest.mark.parametrize("content", [BASE64, BASE64 + b"\n", public_key_pem(PUBLIC)])
def test_public_keys_are_pem_or_base64(content: bytes) -> None:
    assert parse_public_key(content) == PUBLIC


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "no 32 bytes in base64"),
        (BASE64[:-4], "no 32 bytes in base64"),
        (b"\xff", "no 32 bytes in base64"),
        (private_key_pem(b"k" * 32), "a private key, expected an ed25519 public key"),
        (public_key_pem(PUBLIC).replace(b"MCow", b"MCox"), "no public key"),
        (
            EC.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            ),
            "a key of another algorithm",
        ),
    ],
)
def test_what_is_no_public_key_is_refused(content: bytes, problem: str) -> None:
    with pytest.raises(NormaliserRefusedError, match=problem):
        parse_public_key(content)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "no private key"),
        (public_key_pem(PUBLIC), "no private key"),
        (
            PRIVATE["k1"].private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.BestAvailableEncryption(b"secret"),
            ),
            "the key has a password",
        ),
        (
            EC.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
            "a key of another algorithm",
        ),
    ],
)
def test_what_is_no_private_key_is_refused(content: bytes, problem: str) -> None:
    with pytest.raises(NormaliserRefusedError, match=problem):
        parse_private_key(content)


def test_the_default_id_of_a_key_is_an_id() -> None:
    assert is_key_id(default_key_id(PUBLIC))
    assert not any(map(is_key_id, ("", ".a", "a/b", "ä", "a" * 64, "a\n")))


class TestTrustedKeys:
    def test_a_directory_has_a_key_in_each_file(self, tmp_path: Path) -> None:
        # As the kubelet mounts a Secret: names are links into a directory with a dot.
        (tmp_path / "..data").mkdir()
        (tmp_path / "..data" / "k1").write_bytes(BASE64)
        (tmp_path / "k1").symlink_to(tmp_path / "..data" / "k1")
        (tmp_path / "k2.pub").write_bytes(public_key_pem(KEYS["k2"]))
        assert read_trusted_keys(str(tmp_path)) == KEYS

    def test_a_file_is_one_key_or_an_object_of_keys(self, tmp_path: Path) -> None:
        one, several = tmp_path / "k1.pem", tmp_path / "keys.json"
        one.write_bytes(BASE64)
        several.write_text(f'{{"k1": "{BASE64.decode()}"}}')
        assert read_trusted_keys(str(one)) == {"k1": PUBLIC} == read_trusted_keys(str(several))

    @pytest.mark.parametrize(
        ("files", "problem"),
        [
            ({"k1": b"x"}, "k1: no 32 bytes in base64, expected"),
            ({"k1.pem": BASE64, "k1.pub": BASE64}, "k1.pub: the second key named k1, expected one"),
            ({"-": BASE64}, "no id of a key, expected a name"),
            ({"k.key": private_key_pem(b"k" * 32)}, "k.key: a private key, expected"),
        ],
    )
    def test_a_wrong_file_is_named(
        self, tmp_path: Path, files: dict[str, bytes], problem: str
    ) -> None:
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError) as refused:
            read_trusted_keys(str(tmp_path))
        assert problem in str(refused.value)

    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="none': No such file or directory"):
            read_trusted_keys(str(tmp_path / "none"))

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            (b"{}", "{}, expected an object of keys by key id"),
            (b'{"a/b": ""}', '"a/b", expected a key id'),
            (b'{"k": 1}', "k: 1, expected a public key as a string"),
            (b'{"k": "\\ud800"}', "k: no 32 bytes in base64"),
            (b'{"k": "", "k": ""}', '"k": given twice'),
        ],
    )
    def test_a_wrong_object_is_refused(self, content: bytes, problem: str) -> None:
        with pytest.raises(NormaliserRefusedError) as refused:
            parse_key_list(content)
        assert problem in str(refused.value)
