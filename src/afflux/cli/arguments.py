"""Parses the command line: the arguments of every subcommand as typed values."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NoReturn

from afflux.cli.diskio_arguments import DiskioOptions, add_diskio, diskio_options
from afflux.cli.exit_codes import ExitCode
from afflux.cli.inspection_arguments import INSPECTIONS, InspectOptions, add_inspections
from afflux.cli.output_option import Output, add_output_option
from afflux.cli.safe_output import printable

PROGRAM = "afflux"
# The name for `kubectl afflux`, which has only the inspection commands.
PLUGIN = "kubectl afflux"

MAX_INTERVAL_SECONDS = 1e12
MAX_MACHINES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateOptions:
    command: ClassVar = "simulate"
    workload: list[str]
    machines: int | None
    policy: str | None
    strategy: str | None
    compare: list[str] | None
    config: str | None
    interval: float
    output: Output
    starts: str | None
    report: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceOptions:
    command: ClassVar = "place"
    files: list[str]
    policy: str | None
    strategy: str | None
    config: str | None
    output: Output
    explain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    command: ClassVar = "run"
    config: str | None
    kubeconfig: str | None
    context: str | None
    print_config: bool
    log_format: str
    log_level: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    command: ClassVar = "serve"
    listen: str
    insecure: bool
    tls_cert_file: str
    tls_key_file: str
    client_ca_file: str
    token_file: str
    state: str
    policy: str | None
    strategy: str | None
    config: str | None
    log_format: str
    log_level: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveOptions:
    command: ClassVar = "solve"
    file: str
    output: Output


Options = (
    RunOptions
    | ServeOptions
    | SimulateOptions
    | PlaceOptions
    | SolveOptions
    | InspectOptions
    | DiskioOptions
)

_COMMANDS = {
    kind.command: kind
    for kind in (RunOptions, ServeOptions, SimulateOptions, PlaceOptions, SolveOptions)
}


def parse(arguments: Sequence[str] | None, program: str = PROGRAM) -> Options:
    """The parsed options; SystemExit after help or an error message has been printed."""
    parser = _parser(program)
    typed = vars(parser.parse_args(arguments))
    command = typed.pop("command")
    if command is None:
        parser.print_help()
        parser.exit()
    if command in INSPECTIONS:
        return InspectOptions(command=command, **typed)
    if command == "diskio":
        return diskio_options(typed)
    return _COMMANDS[command](**typed)


class _Parser(argparse.ArgumentParser):
    """Prints errors in one line, as the rest of afflux does."""

    def error(self, message: str) -> NoReturn:
        line = printable(f"{self.prog}: {message} (see {self.prog} --help)")
        self.exit(ExitCode.WRONG_USAGE, f"{line}\n")


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"afflux {version('afflux')}")
        parser.exit()


def _parser(program: str) -> _Parser:
    parser = _Parser(
        prog=program,
        description="Place every waiting group of pods in one optimisation."
        if program == PROGRAM
        else "Show the groups of pods that afflux schedules.",
    )
    parser.add_argument(
        "--version", action=_Version, nargs=0, dest=argparse.SUPPRESS, help="print the version"
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)

    def add(name: str, summary: str) -> argparse.ArgumentParser:
        # No abbreviations: a script that uses one would break when the next option is added.
        return commands.add_parser(name, help=summary, allow_abbrev=False)

    if program == PROGRAM:
        _run(add("run", "schedule the pods of a cluster"))
        _serve(add("serve", "schedule tasks that clients submit over gRPC"))
        _simulate(add("simulate", "replay a workload under one or more schedulers"))
        _place(add("place", "place the pending pods of a cluster, as a dry run"))
        _solve(add("solve", "solve a minimum-cost-flow problem in DIMACS format"))
        add_diskio(add("diskio", "normalisers of disks: sign, verify and try them"))
    add_inspections(add)
    return parser


def _run(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Schedule the pods of a cluster whose schedulerName is one of the configured profiles "
        "(afflux by default), until stopped. In a pod, its service account is used; elsewhere a "
        "kubeconfig."
    )
    parser.add_argument("--config", metavar="FILE", help="a configuration file")
    parser.add_argument(
        "--kubeconfig", metavar="FILE", help="the kubeconfig of the cluster (default: $KUBECONFIG)"
    )
    parser.add_argument("--context", metavar="NAME", help="the kubeconfig's context to use")
    parser.add_argument(
        "--print-config", action="store_true", help="print the effective configuration and exit"
    )
    _logging(parser)


def _serve(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Schedule tasks that any cluster manager submits over gRPC, in the protocol of Firmament, "
        "until stopped (docs/service.md)."
    )
    parser.add_argument(
        "--listen", metavar="HOST:PORT", default="127.0.0.1:9090", help="default: 127.0.0.1:9090"
    )
    parser.add_argument(
        "--insecure", action="store_true", help="plaintext although HOST is not on loopback"
    )
    parser.add_argument("--tls-cert-file", metavar="FILE", default="", help="for TLS, in PEM form")
    parser.add_argument("--tls-key-file", metavar="FILE", default="", help="its private key")
    parser.add_argument(
        "--client-ca-file", metavar="FILE", default="", help="clients need a certificate of it"
    )
    parser.add_argument(
        "--token-file", metavar="FILE", default="", help="clients need a token of it, one a line"
    )
    parser.add_argument(
        "--state", metavar="FILE", default="", help="keep machines and tasks here over restarts"
    )
    _scheduler(parser)
    _logging(parser)


def _logging(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--log-format", choices=["text", "json"], default="text")
    parser.add_argument(
        "--log-level", choices=["debug", "info", "warning", "error"], default="info"
    )


def _simulate(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Replay a workload on a virtual clock. WORKLOAD is an SWF log, an openb node list and pod "
        "list, or synthetic:NAME[,key=value...] (docs/workloads.md). A scheduler is named "
        "POLICY[+POLICY...][@STRATEGY], or pod-by-pod for a scheduler like kube-scheduler."
    )
    parser.add_argument("workload", nargs="+", metavar="WORKLOAD")
    parser.add_argument("--machines", type=_positive, metavar="N", help="use only N machines")
    _scheduler(parser)
    parser.add_argument(
        "--compare", nargs="+", metavar="SCHEDULER", help="compare several schedulers"
    )
    parser.add_argument(
        "--interval",
        type=_seconds,
        default=0.0,
        metavar="SECONDS",
        help="schedule only at multiples of this time (default: at every event)",
    )
    add_output_option(parser, "further metrics")
    parser.add_argument(
        "--starts", metavar="FILE", help="one CSV line per task; one file per compared scheduler"
    )
    parser.add_argument("--report", metavar="FILE", help="a self-contained HTML page with plots")


def _place(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Read Kubernetes objects (JSON or YAML, Lists, several documents), run one cycle over the "
        "pending pods, print where they would go. Nothing is sent anywhere. Try: kubectl get "
        "nodes,pods,namespaces,pvc,pv,storageclasses,csinodes,csidrivers,csistoragecapacities "
        "-A -o json | afflux place - --explain"
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="a file, or - for standard input")
    _scheduler(parser)
    add_output_option(parser, "the CPU and memory that pods request")
    parser.add_argument(
        "--explain", action="store_true", help="the verdict of every node on every pending pod"
    )


def _solve(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Solve a minimum-cost-flow problem in DIMACS format, lower bounds included; exit code 3 "
        "without a solution."
    )
    parser.add_argument("file", metavar="FILE", help="a file, or - for standard input")
    add_output_option(parser, "the flow of every arc and the price of every node")


def _scheduler(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--policy", metavar="NAME", help="policies, joined by + (cpu-memory)")
    parser.add_argument(
        "--strategy",
        metavar="NAME",
        help="which groups may start: flow (default), fcfs, easy, hybrid, conservative-compress,"
        " conservative-rebuild (docs/strategies.md)",
    )
    parser.add_argument("--config", metavar="FILE", help="policies and strategy from a file")


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if not 0 < number <= MAX_MACHINES:
        expected = f"an integer from 1 to {MAX_MACHINES}"
        raise argparse.ArgumentTypeError(f"{text!r:.40}; expected {expected}")
    return number


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < MAX_INTERVAL_SECONDS:
        expected = f"seconds from 0 to {MAX_INTERVAL_SECONDS:g}"
        raise argparse.ArgumentTypeError(f"{text!r:.40}; expected {expected}")
    return number
