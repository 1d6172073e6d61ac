"""The command line: afflux simulate, place, solve.

Each subcommand has a file; what it needs is imported when it runs, so that `afflux --help` and a
wrong argument answer at once. Exit codes: 0 done, 2 input that cannot be used, 3 a problem without
a solution, 130 interrupted.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from afflux.model.errors import InputError

BAD_INPUT = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    if chosen.command is None:
        parser.print_help()
        return 0
    try:
        code = _command(chosen.command)(chosen)
        sys.stdout.flush()
    except InputError as error:
        print(f"afflux {chosen.command}: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print(f"afflux {chosen.command}: interrupted; nothing was written", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has had enough; let the interpreter not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _command(name: str):  # noqa: ANN202
    match name:
        case "simulate":
            from afflux.cli.simulate import run
        case "place":
            from afflux.cli.place import run
        case _:
            from afflux.cli.solve import run
    return run


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="afflux",
        description="Place every waiting group of pods in one optimisation.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _simulate(
        commands.add_parser("simulate", help="replay a workload under one or more schedulers")
    )
    _place(commands.add_parser("place", help="place the pending pods of a cluster, as a dry run"))
    _solve(commands.add_parser("solve", help="solve a minimum-cost-flow problem in DIMACS format"))
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"afflux {version('afflux')}")
        parser.exit()


def _simulate(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Replay a workload on a virtual clock. WORKLOAD is an SWF log, an openb node list and pod "
        "list, or synthetic:NAME[,key=value...] (docs/workloads.md). A scheduler is named "
        "POLICY[+POLICY...][@STRATEGY], or pod-by-pod for a scheduler like kube-scheduler."
    )
    parser.add_argument("workload", nargs="+", metavar="WORKLOAD")
    parser.add_argument("--machines", type=_positive, metavar="N", help="use only N machines")
    parser.add_argument("--policy", metavar="NAME", help="policies, joined by + (cpu-memory)")
    parser.add_argument("--strategy", metavar="NAME", help="who may start: flow (default) or fcfs")
    parser.add_argument("--compare", nargs="+", metavar="SCHEDULER", help="several, side by side")
    parser.add_argument("--config", metavar="FILE", help="policies and strategy from a file")
    parser.add_argument(
        "--interval",
        type=_seconds,
        default=0.0,
        metavar="SECONDS",
        help="schedule at multiples of this time only (default: whenever something happens)",
    )
    parser.add_argument("--json", action="store_true", help="metrics as JSON on standard output")
    parser.add_argument("--starts", metavar="FILE", help="one CSV line per task")
    parser.add_argument("--report", metavar="FILE", help="a self-contained HTML page with plots")


def _place(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Read Kubernetes objects (JSON or YAML, Lists, several documents), run one cycle over the "
        "pending pods, print where they would go. Nothing is sent anywhere. Try: kubectl get "
        "nodes,pods -A -o json | afflux place - --explain"
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="a file, or - for standard input")
    parser.add_argument("--policy", metavar="NAME", help="policies, joined by + (cpu-memory)")
    parser.add_argument("--strategy", metavar="NAME", help="who may start: flow (default) or fcfs")
    parser.add_argument("--config", metavar="FILE", help="policies and strategy from a file")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    parser.add_argument(
        "--explain", action="store_true", help="the verdict of every node on every pending pod"
    )


def _solve(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Solve a minimum-cost-flow problem in DIMACS format, lower bounds included; exit code 3 if "
        "it has no solution."
    )
    parser.add_argument("file", metavar="FILE", help="a file, or - for standard input")
    parser.add_argument("--json", action="store_true", help="cost, flows and prices as JSON")


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if not 0 < number <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r}; expected an integer from 1 to 1000000")
    return number


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e12:
        raise argparse.ArgumentTypeError(f"{text!r}; expected a number of seconds >= 0")
    return number
