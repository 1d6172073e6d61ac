"""From keygen to try: what a vendor does with a normaliser."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from run_afflux import Afflux

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "normaliser"
TABLE, MODULE = EXAMPLES / "coefficients.json", EXAMPLES / "normaliser.wasm"


@pytest.fixture
def folder(afflux: Afflux, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the pair of keys `acme`."""
    monkeypatch.chdir(tmp_path)
    assert afflux("diskio", "keygen", "--out", "keys", "--key-id", "acme").code == 0
    return tmp_path


def signed(afflux: Afflux, content: Path, version: int = 1, *more: str) -> str:
    answer = afflux(
        *("diskio", "sign", content, "--vendor", "Acme", "--model", "NV100"),
        *("--version", str(version), "--key", "keys/acme.key", *more),
    )
    assert answer.code == 0, answer.err
    return answer.out


class TestKeys:
    def test_the_private_key_is_for_its_owner_only(self, folder: Path) -> None:
        assert stat.S_IMODE((folder / "keys" / "acme.key").stat().st_mode) == 0o600

    def test_keys_are_never_overwritten(self, afflux: Afflux, folder: Path) -> None:
        private, public = folder / "keys" / "acme.key", folder / "keys" / "acme.pub"
        before = private.read_bytes()
        again = afflux("diskio", "keygen", "--out", "keys", "--key-id", "acme")
        assert "acme.key': File exists; expected a new file" in again.complaint
        assert private.read_bytes() == before
        private.unlink()
        again = afflux("diskio", "keygen", "--out", "keys", "--key-id", "acme")
        assert "acme.pub': File exists; expected a new file" in again.complaint
        assert not private.exists()
        assert public.exists()

    def test_a_key_without_an_id_is_named_by_its_digest(self, afflux: Afflux, folder: Path) -> None:
        made = afflux("diskio", "keygen", "--out", "more", "-o", "json").json
        assert len(made["keyId"]) == 16
        assert {each.name for each in (folder / "more").iterdir()} == {
            f"{made['keyId']}.key",
            f"{made['keyId']}.pub",
        }

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_a_folder_that_cannot_be_written_is_named(self, afflux: Afflux, folder: Path) -> None:
        (folder / "keys").chmod(0o500)
        made = afflux("diskio", "keygen", "--out", "keys", "--key-id", "b")
        assert "Permission denied" in made.complaint

    @pytest.mark.parametrize("key_id", ["a/b", "", "../x"])
    def test_an_id_is_the_name_of_a_file(self, afflux: Afflux, folder: Path, key_id: str) -> None:
        made = afflux("diskio", "keygen", "--out", "keys", f"--key-id={key_id}")
        assert "--key-id: " in made.complaint


class TestSigning:
    @pytest.mark.parametrize("content", [TABLE, MODULE])
    def test_what_was_signed_is_verified(self, afflux: Afflux, folder: Path, content: Path) -> None:
        entry = signed(afflux, content, 3, "--url", "https://disks.example/nv100")
        (folder / "entry.json").write_text(entry)
        for given in (entry, "entry.json"):
            found = afflux(
                *("diskio", "verify", content, "--entry", given),
                *("--trusted-keys", "keys/acme.pub", "-o", "json"),
            ).json
            assert (found["diskModel"], found["contentVersion"]) == ("Acme/NV100", 3)
            assert (found["keyId"], found["name"]) == ("acme", "Acme NV100")

    @pytest.mark.parametrize("change", ["model", "version", "digest", "keyId", "signature"])
    def test_a_changed_entry_is_not_what_was_signed(
        self, afflux: Afflux, folder: Path, change: str
    ) -> None:
        entry = json.loads(signed(afflux, TABLE))
        other = json.loads(signed(afflux, MODULE, 2)) | {"model": "NV200", "keyId": "other"}
        verified = afflux(
            *("diskio", "verify", TABLE, "--entry", json.dumps(entry | {change: other[change]})),
            *("--trusted-keys", "keys/acme.pub"),
        )
        assert (verified.code, verified.out) == (3, "")
        assert verified.err.startswith(f"afflux diskio verify: {TABLE}: ")

    def test_signed_nonsense_is_of_no_use(self, afflux: Afflux, folder: Path) -> None:
        from afflux.normalisers.signatures import Signed, content_digest, parse_private_key, sign

        (folder / "content").write_text("{}")
        digest = content_digest(b"{}")
        key = parse_private_key((folder / "keys" / "acme.key").read_bytes())
        entry = json.loads(signed(afflux, TABLE)) | {
            "digest": digest,
            "signature": sign(key, Signed("Acme", "NV100", 1, digest)),
        }
        verified = afflux(
            *("diskio", "verify", "content", "--entry", json.dumps(entry)),
            *("--trusted-keys", "keys/acme.pub"),
        )
        assert verified.code == 3
        assert "content: signed, but of no use: {}, expected an object" in verified.err

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            (["--version", "0"], "version: 0, expected an integer from 1"),
            (["--version", "1.5"], "--version: '1.5', expected an integer from 1"),
            (["--vendor", "a/b"], 'vendorName: "a/b", expected 1 to 100'),
            (["--url", "ftp://x"], 'url: "ftp://x", expected a URL with https or http'),
            (["--key", "keys/acme.pub"], "keys/acme.pub: no private key, expected"),
            (["--key", "none"], "'none': No such file or directory"),
            (["--key-id", "a b"], "--key-id: 'a b', expected at most 63"),
        ],
    )
    def test_wrong_arguments_are_named(
        self, afflux: Afflux, folder: Path, arguments: list[str], problem: str
    ) -> None:
        known = ["--vendor", "Acme", "--model", "NV100", "--version", "1", "--key", "keys/acme.key"]
        assert problem in afflux("diskio", "sign", TABLE, *known, *arguments).complaint

    def test_nothing_is_signed_that_the_scheduler_would_refuse(
        self, afflux: Afflux, folder: Path
    ) -> None:
        (folder / "empty").touch()
        known = ["--vendor", "Acme", "--model", "NV100", "--version", "1", "--key", "keys/acme.key"]
        assert "empty: " in afflux("diskio", "sign", "empty", *known).complaint


class TestTrials:
    def test_a_table_says_what_a_request_takes(self, afflux: Afflux) -> None:
        tried = afflux(
            "diskio", "try", TABLE, "--rbps", "20M", "--wbps", "30M", "--blocksize", "4k"
        )
        assert tried.out.splitlines() == [
            "BYTES/S       READ      WRITE      TOTAL",
            "stated    20000000   30000000   50000000",
            "taken    100000000  183000000  283000000",
        ]

    def test_a_module_also_says_its_fuel(self, afflux: Afflux) -> None:
        asked = ("--rbps", "20Mi", "--blocksize", "4Ki")
        assert "\nfuel: " in afflux("diskio", "try", MODULE, *asked).out
        found = afflux("diskio", "try", MODULE, *asked, "-o", "json").json
        assert found["request"] == {"read": 20 * 2**20, "write": 0, "blockSize": 4096}
        assert found["taken"]["read"] == 90 * 2**20
        assert found["fuel"] > 0

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            (["--rbps", "20Q"], "argument --rbps: '20Q', expected a quantity such as"),
            (["--wbps", "-1"], "argument --wbps: "),
            (["--blocksize", "4q"], "argument --blocksize: '4q', expected a block size such as 4k"),
            (
                ["--blocksize", "3"],
                "argument --blocksize: '3', expected bytes such as 4k, from 512",
            ),
            (["--blocksize", "4k"], "no request, expected --rbps or --wbps of more than 0"),
            (["--rbps", "2P"], f"{MODULE}: estimate_request: "),
        ],
    )
    def test_a_request_that_cannot_be_normalised_is_refused(
        self, afflux: Afflux, arguments: list[str], problem: str
    ) -> None:
        assert problem in afflux("diskio", "try", MODULE, *arguments).complaint


def test_an_action_is_needed(afflux: Afflux) -> None:
    assert "required: ACTION (see afflux diskio --help)" in afflux("diskio").complaint


def test_other_commands_do_not_load_what_normalisers_need() -> None:
    program = (
        "import sys; from afflux.cli import main; main(['diskio', '--help']);"
        " print({'wasmtime', 'cryptography', 'afflux.normalisers'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    assert done.stdout.endswith("\nset()\n")
