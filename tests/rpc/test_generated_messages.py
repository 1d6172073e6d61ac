"""The generated files are those of the message files, which is what `make proto` writes."""

import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
MESSAGES = sorted(SOURCE.glob("afflux/rpc/proto/*/*.proto"))


@pytest.mark.slow
def test_generated_files_are_up_to_date(tmp_path: Path):
    names = [str(each.relative_to(SOURCE)) for each in MESSAGES]
    out = (f"--python_out={tmp_path}", f"--pyi_out={tmp_path}")
    subprocess.run(
        (sys.executable, "-m", "grpc_tools.protoc", f"-I{SOURCE}", *out, *names), check=True
    )
    made = {each.relative_to(tmp_path) for each in tmp_path.rglob("*_pb2.py*")}
    kept = {each.relative_to(SOURCE) for each in SOURCE.glob("afflux/rpc/proto/*/*_pb2.py*")}
    assert made == kept
    for each in made:
        assert (tmp_path / each).read_text() == (SOURCE / each).read_text(), f"{each}: make proto"
