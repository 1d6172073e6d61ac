"""The option `-o/--output` of every command that prints an answer, and its alias `--json`."""

import argparse
from typing import Literal, TypeGuard, get_args

# Forms for programs; both have the same data.
DataForm = Literal["json", "yaml"]
Output = DataForm | Literal["wide", "table"]
OUTPUTS: tuple[Output, ...] = ("json", "yaml", "wide", "table")


def add_output_option(parser: argparse.ArgumentParser, wide: str) -> None:
    """Adds the option; `wide` is what that form shows in addition, for the help."""
    options = parser.add_mutually_exclusive_group()
    options.add_argument(
        "-o",
        "--output",
        type=_output,
        default="table",
        metavar="|".join(OUTPUTS),
        help=f"default: table; wide adds {wide}",
    )
    options.add_argument(
        "--json",
        action="store_const",
        const="json",
        dest="output",
        default=argparse.SUPPRESS,
        help="the same as -o json",
    )


def is_data(output: Output) -> TypeGuard[DataForm]:
    """Whether the answer is printed for programs."""
    return output in get_args(DataForm)


def _output(text: str) -> str:
    if text not in OUTPUTS:
        expected = ", ".join(OUTPUTS)
        raise argparse.ArgumentTypeError(f"{text!r:.40}; expected one of {expected}")
    return text
