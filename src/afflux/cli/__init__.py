"""The command line: afflux run, serve, simulate, place, solve, diskio; queue, group, reservations,
history.

The last four share the files `inspection_...` and are also a plugin of kubectl. `arguments` parses
the command line, each other subcommand has a file, `safe_output` and `file_arguments` are shared.
A subcommand imports its modules when it runs, so that `afflux --help` and argument errors are fast.
Not here: anything that another program could not do through `app`.

Every command that prints an answer has the forms of `output_option` and `data_output`, and every
command ends with a code of `exit_codes`; docs/cli.md has both for users.
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
    ServeOptions,
    SimulateOptions,
    SolveOptions,
    parse,
)
from afflux.cli.diskio_arguments import DiskioOptions
from afflux.cli.exit_codes import ExitCode
from afflux.cli.inspection_arguments import InspectOptions
from afflux.cli.safe_output import print_error
from afflux.model.errors import InputError


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
        print_error(f"{name}: {error}")
        return ExitCode.WRONG_USAGE
    except KeyboardInterrupt:
        print_error(f"{name}: interrupted")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe has closed it, as `head` does: not a failure.
        _discard_stdout()
        return ExitCode.DONE
    except OSError as error:
        print_error(f"{name}: {error.filename or 'standard output'}: {error.strerror or error}")
        _discard_stdout()
        return ExitCode.NO_ANSWER
    return code


def kubectl_main() -> int:
    """`kubectl afflux ...`: kubectl runs the program kubectl-afflux with the arguments."""
    return main(program=PLUGIN)


def _run(options: Options, program: str) -> ExitCode:  # noqa: PLR0911  one for each command
    match options:
        case RunOptions():
            from afflux.cli.run import run as schedule

            return schedule(options)
        case ServeOptions():
            from afflux.cli.serve import run as serve

            return serve(options)
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
            from afflux.cli.inspection_commands import run as inspect

            return inspect(options, program)
        case DiskioOptions():
            from afflux.cli.diskio_commands import run as diskio

            return diskio(options)


def _parsed(arguments: Sequence[str] | None, program: str) -> Options | int:
    """The parsed options; an exit code if the parser has already printed help or an error."""
    try:
        return parse(arguments, program)
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else ExitCode.DONE


def _prepare_streams() -> None:
    """Replaces closed standard streams by /dev/null, so that reading and writing do not fail.

    Otherwise errors for a closed standard error could be written into the results.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    stdout: object = sys.stdout
    if isinstance(stdout, io.TextIOWrapper):
        # Characters that the terminal cannot show are escaped.
        cast("io.TextIOWrapper", stdout).reconfigure(errors="backslashreplace")


def _discard_stdout() -> None:
    """Redirects stdout to /dev/null, so that the interpreter prints no error at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
