"""The command line: afflux run, simulate, place, solve; queue, group, reservations, history.

The last four, which are one file, are a plugin of kubectl too. `arguments` says what can be typed,
each subcommand has a file, `terminal` and `files` are what they share. What a subcommand needs is
imported when it runs, so that `afflux --help` and a wrong argument answer at once. Not here:
anything that another program could not do through `app`.

Exit codes: 0 done, 1 the answer could not be had or written or leadership was lost, 2 input that
cannot be used, 3 a problem without a solution or no such group, 130 interrupted.
"""

import io
import os
import sys
from collections.abc import Sequence
from typing import cast

from afflux.cli.arguments import (
    PLUGIN,
    PROGRAM,
    Options,
    PlaceOptions,
    RunOptions,
    SimulateOptions,
    SolveOptions,
    parse,
)
from afflux.cli.inspect_arguments import InspectOptions
from afflux.cli.terminal import complain
from afflux.model.errors import InputError

NOT_WRITTEN = 1
BAD_INPUT = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None, program: str = PROGRAM) -> int:
    """Run one command; returns the exit code."""
    _prepare_streams()
    name = program
    try:
        options = _parsed(arguments, program)
        if isinstance(options, int):
            code = options
        else:
            name = f"{program} {options.command}"
            code = _run(options, program)
        sys.stdout.flush()
    except InputError as error:
        complain(f"{name}: {error}")
        return BAD_INPUT
    except KeyboardInterrupt:
        complain(f"{name}: interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever reads our output has had enough, as `head` has: that is no failure.
        _abandon_stdout()
        return 0
    except OSError as error:
        complain(f"{name}: {error.filename or 'standard output'}: {error.strerror or error}")
        _abandon_stdout()
        return NOT_WRITTEN
    return code


def kubectl_main() -> int:
    """`kubectl afflux ...`: kubectl finds the program kubectl-afflux and hands it the rest."""
    return main(program=PLUGIN)


def _run(options: Options, program: str) -> int:
    match options:
        case RunOptions():
            from afflux.cli.run import run as schedule

            return schedule(options)
        case SimulateOptions():
            from afflux.cli.simulate import run as simulate

            return simulate(options)
        case PlaceOptions():
            from afflux.cli.place import run as place

            return place(options)
        case SolveOptions():
            from afflux.cli.solve import run as solve

            return solve(options)
        case InspectOptions():
            from afflux.cli.inspect import run as inspect

            return inspect(options, program)


def _parsed(arguments: Sequence[str] | None, program: str) -> Options | int:
    """What is to be done; an exit code if the parser has said all there is to say."""
    try:
        return parse(arguments, program)
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 0


def _prepare_streams() -> None:
    """A stream that the caller closed is empty, and what goes there is lost; nothing fails.

    Without this, what is meant for a closed standard error would be printed among the results.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    stdout: object = sys.stdout
    if isinstance(stdout, io.TextIOWrapper):
        # A terminal that cannot show a letter still gets the rest of the table.
        cast("io.TextIOWrapper", stdout).reconfigure(errors="backslashreplace")


def _abandon_stdout() -> None:
    """Let the interpreter not complain at exit about what could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
