"""The exit codes of every command: the table in docs/cli.md."""

from enum import IntEnum


class ExitCode(IntEnum):
    DONE = 0
    # The answer could not be had or not be written; `run`: leadership was lost.
    NO_ANSWER = 1
    # Arguments, files or configuration that cannot be used.
    WRONG_USAGE = 2
    # The question was answered, and the answer is no: there is no such group, no solution.
    NO = 3
    # As shells report a command that Ctrl-C ended.
    INTERRUPTED = 130
