import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from run_afflux import Afflux, Answer

from afflux.cli import main


@pytest.fixture
def afflux(capsys: pytest.CaptureFixture[str]) -> Afflux:
    """Runs `afflux` with these arguments in this process."""

    def call(*arguments: str | Path) -> Answer:
        code = main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return Answer(code, printed.out, printed.err)

    return call


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | bytes], None]:
    """Sets the content of standard input."""

    def type_in(content: str | bytes) -> None:
        raw = content.encode() if isinstance(content, str) else content
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8"))

    return type_in
