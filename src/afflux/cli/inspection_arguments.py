"""What can be typed after `afflux queue`, `group`, `reservations` and `history`.

The flags that kubectl has are spelled as kubectl spells them. They stand behind the command: so
kubectl hands them to its plugins.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from afflux.cycle.phases import NOT_RUNNING, PRESENT, Phase

OUTPUTS = ("table", "wide", "json", "yaml")
LONGEST_TIMEOUT_SECONDS = 3600.0
TIMEOUT_SECONDS = 30.0
# History is long, and the latest of it is what people look for.
HISTORY_LINES = 100
MOST_TYPED = 1_000_000

# Command, and what it is for.
INSPECTIONS = {
    "queue": "who waits, why, and until when",
    "group": "everything about one group",
    "reservations": "which starts are promised, and where",
    "history": "groups that have ended",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectOptions:
    """One of the four. `limit` None is all lines; `name` is of `group` alone."""

    command: str
    service: str | None
    database: str | None
    kubeconfig: str | None
    context: str | None
    certificate_authority: str | None
    tls_server_name: str | None
    request_timeout: float
    namespace: str | None
    output: str
    no_headers: bool = False
    all_namespaces: bool = False
    queue: str = ""
    state: tuple[Phase, ...] = NOT_RUNNING
    limit: int | None = None
    name: str = ""


def add_inspections(add: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """The four commands; `add` makes a parser for a name and what it is for."""
    for command, summary in INSPECTIONS.items():
        parser = add(command, summary)
        parser.description = (
            f"Show {summary}: from the inspection service of a running afflux, or from its"
            " database, else from that of an afflux on this machine (docs/inspection.md)."
        )
        if command == "group":
            parser.add_argument("name", metavar="NAME", help="its name")
        _common(parser)
        if command != "group":
            _lists(parser, command)


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--namespace", metavar="NAME", help="else the kubeconfig's")
    parser.add_argument("-o", "--output", choices=OUTPUTS, default="table")
    parser.add_argument(
        "--service", metavar="URL", help="of the inspection service (else $AFFLUX_SERVICE)"
    )
    parser.add_argument(
        "--database",
        metavar="URL",
        help="the ledger itself, or the directory of an embedded one (else $AFFLUX_DATABASE)",
    )
    parser.add_argument("--kubeconfig", metavar="FILE", help="who you are (else $KUBECONFIG)")
    parser.add_argument("--context", metavar="NAME", help="the kubeconfig's context to use")
    parser.add_argument(
        "--certificate-authority", metavar="FILE", help="of the service (else the cluster's)"
    )
    parser.add_argument(
        "--tls-server-name", metavar="NAME", help="in its certificate, if not that of the URL"
    )
    parser.add_argument(
        "--request-timeout",
        type=_timeout,
        default=TIMEOUT_SECONDS,
        metavar="TIME",
        help="for everything, such as 10s (30s)",
    )


def _lists(parser: argparse.ArgumentParser, command: str) -> None:
    parser.add_argument("-A", "--all-namespaces", action="store_true")
    parser.add_argument("--queue", default="", metavar="NAME", help="of one queue only")
    parser.add_argument("--no-headers", action="store_true")
    lines = HISTORY_LINES if command == "history" else None
    parser.add_argument(
        "--limit",
        type=_limit,
        default=lines,
        metavar="N",
        help=f"so many lines at most ({lines or 'all'})",
    )
    if command == "queue":
        parser.add_argument(
            "--state",
            type=_states,
            default=NOT_RUNNING,
            metavar="STATE[,...]",
            help=f"some of {', '.join(PRESENT)} (all but running)",
        )


def _timeout(text: str) -> float:
    """kubectl's way: a duration, or a number of seconds."""
    from afflux.config.durations import parse_duration

    try:
        seconds = parse_duration(f"{text}s" if text.isdigit() else text).seconds
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= LONGEST_TIMEOUT_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r:.40}; expected a time such as 10s, at most 1h")
    return seconds


def _limit(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
    if not 0 < number <= MOST_TYPED:
        raise argparse.ArgumentTypeError(
            f"{text!r:.40}; expected an integer from 1 to {MOST_TYPED}"
        )
    return number


def _states(text: str) -> tuple[Phase, ...]:
    written = text.split(",")
    for state in written:
        if state not in PRESENT:
            expected = ", ".join(PRESENT)
            raise argparse.ArgumentTypeError(f"{state!r:.40}; expected some of {expected}")
    return tuple(state for state in PRESENT if state in written)
