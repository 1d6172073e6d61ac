import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from inspection_values import Known
from run_afflux import Afflux, Answer
from served_inspection import Service, keep_states_in, served

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


@pytest.fixture
def known() -> Known:
    return Known()


@pytest.fixture
def service(known: Known, tmp_path: Path) -> Iterator[Service]:
    """The inspection service, which answers with `known`."""
    with served(known, tmp_path) as service:
        yield service


@pytest.fixture
def ask(afflux: Afflux, service: Service) -> Callable[..., Answer]:
    """Runs a command with the address of the service and the token `good`, or another one."""

    def call(*arguments: str, who: str = "good") -> Answer:
        kubeconfig = service.kubeconfig({"token": who})
        return afflux(*arguments, "--service", service.url, "--kubeconfig", kubeconfig)

    return call


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AFFLUX_SERVICE", "AFFLUX_DATABASE", "KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    keep_states_in(str(tmp_path), monkeypatch)
