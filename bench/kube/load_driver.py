"""Controls the load generator, a separate process that takes one command per line."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

Progress = Callable[[int, int], None]
"""Called with the number of pods that have appeared and the number bound."""


class LoadError(Exception):
    """The load generator could not carry out a command."""


class LoadDriver:
    """`load drive` on one API server."""

    def __init__(self, program: Path, kubeconfig: Path, plan: Path, log: Path) -> None:
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [str(program), f"--kubeconfig={kubeconfig}", f"--plan={plan}", "drive"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                start_new_session=True,
            )
        self._log = log
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        self._stdin: IO[str] = stdin
        self._stdout: IO[str] = stdout

    def __enter__(self) -> Self:
        self._answer(None)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._stdin.close()
        self._stdout.close()

    @property
    def pid(self) -> int:
        """The process id of the load generator."""
        return self._process.pid

    def tell(self, *words: str, progress: Progress | None = None) -> dict[str, Any]:
        """Sends a command and returns its answer. `testbed/load/main.go` lists the commands."""
        print(*words, file=self._stdin, flush=True)
        return self._answer(progress)

    def _answer(self, progress: Progress | None) -> dict[str, Any]:
        for line in self._stdout:
            answer = json.loads(line)
            if "progress" in answer:
                if progress is not None:
                    progress(answer["appeared"], answer["bound"])
                continue
            if "error" in answer:
                raise LoadError(answer["error"])
            return answer
        raise LoadError(f"the load generator ended: {self._log.read_text()[-2000:]}")
