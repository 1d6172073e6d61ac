"""The arguments of `afflux queue`, `group`, `reservations` and `history`.

Flags that kubectl has are spelled the same. They follow the command, because that is how kubectl
passes them to its plugins.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from afflux.cli.output_option import Output, add_output_option
from afflux.groups.states import PRESENT_STATES, GroupState

MAX_TIMEOUT_SECONDS = 3600.0
DEFAULT_TIMEOUT_SECONDS = 30.0
# History is long, and people look for its latest lines.
DEFAULT_HISTORY_LINES = 100
MAX_LIMIT = 1_000_000

# Commands and their summaries.
INSPECTIONS = {
    "queue": "the groups that wait, why, and until when",
    "group": "everything about one group",
    "reservations": "the reserved starts of groups, and where",
    "history": "groups that have ended",
}
# What -o wide shows in addition.
_WIDE = {
    "queue": "priority, run time, times in UTC, whole reasons",
    "group": "the reserved machine of every member, times of events in UTC",
    "reservations": "priority, times in UTC, all machines",
    "history": "priority, times in UTC, all machines",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectOptions:
    """The parsed options. `limit` None means all lines; only `group` has `name`."""

    command: str
    service: str | None
    database: str | None
    kubeconfig: str | None
    context: str | None
    certificate_authority: str | None
    tls_server_name: str | None
    request_timeout: float
    namespace: str | None
    output: Output
    no_headers: bool = False
    all_namespaces: bool = False
    queue: str = ""
    state: tuple[GroupState, ...] = ()
    limit: int | None = None
    name: str = ""


def add_inspections(add: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """Add the four commands; `add` makes a parser from a name and a summary."""
    for command, summary in INSPECTIONS.items():
        parser = add(command, summary)
        parser.description = (
            f"Show {summary}. Queries the inspection service of a running afflux or its database;"
            " by default the ledger of an afflux on this machine (docs/inspection.md)."
        )
        if command == "group":
            parser.add_argument("name", metavar="NAME", help="name of the group")
        _add_common(parser, command)
        if command != "group":
            _add_list_options(parser, command)


def _add_common(parser: argparse.ArgumentParser, command: str) -> None:
    parser.add_argument("-n", "--namespace", metavar="NAME", help="default: that of the kubeconfig")
    add_output_option(parser, _WIDE[command])
    parser.add_argument(
        "--service", metavar="URL", help="the inspection service (default: $AFFLUX_SERVICE)"
    )
    parser.add_argument(
        "--database",
        metavar="URL",
        help="the ledger's database or directory of an embedded one (default: $AFFLUX_DATABASE)",
    )
    parser.add_argument(
        "--kubeconfig", metavar="FILE", help="your credentials (default: $KUBECONFIG)"
    )
    parser.add_argument("--context", metavar="NAME", help="the kubeconfig's context to use")
    parser.add_argument(
        "--certificate-authority", metavar="FILE", help="of the service (default: the cluster's)"
    )
    parser.add_argument(
        "--tls-server-name",
        metavar="NAME",
        help="the name in its certificate (default: that of the URL)",
    )
    parser.add_argument(
        "--request-timeout",
        type=_timeout,
        default=DEFAULT_TIMEOUT_SECONDS,
        metavar="TIME",
        help="for all requests together, such as 10s (default: 30s)",
    )


def _add_list_options(parser: argparse.ArgumentParser, command: str) -> None:
    parser.add_argument("-A", "--all-namespaces", action="store_true")
    parser.add_argument("--queue", default="", metavar="NAME", help="only this queue")
    parser.add_argument("--no-headers", action="store_true")
    lines = DEFAULT_HISTORY_LINES if command == "history" else None
    parser.add_argument(
        "--limit",
        type=_limit,
        default=lines,
        metavar="N",
        help=f"at most so many lines (default: {lines or 'all'})",
    )
    if command == "queue":
        parser.add_argument(
            "--state",
            type=_states,
            default=(),
            metavar="STATE[,...]",
            help=f"some of {', '.join(PRESENT_STATES)} "
            "(default: groups with members that wait or are being bound)",
        )


def _timeout(text: str) -> float:
    """As in kubectl: a duration, or a number of seconds."""
    from afflux.config.durations import parse_duration

    try:
        seconds = parse_duration(f"{text}s" if text.isdigit() else text).seconds
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MAX_TIMEOUT_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r:.40}; expected a time such as 10s, at most 1h")
    return seconds


def _limit(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
    if not 0 < number <= MAX_LIMIT:
        raise argparse.ArgumentTypeError(f"{text!r:.40}; expected an integer from 1 to {MAX_LIMIT}")
    return number


def _states(text: str) -> tuple[GroupState, ...]:
    given = text.split(",")
    for state in given:
        if state not in PRESENT_STATES:
            expected = ", ".join(PRESENT_STATES)
            raise argparse.ArgumentTypeError(f"{state!r:.40}; expected some of {expected}")
    return tuple(state for state in PRESENT_STATES if state in given)
