"""The arguments of `afflux diskio ACTION`: one class of options for each action."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from afflux.cli.diskio_driver_arguments import (
    AggregatorOptions,
    DriverOptions,
    ProfileOptions,
    add_aggregator,
    add_driver,
    add_profile,
)
from afflux.cli.diskio_options import DiskioOptions
from afflux.cli.output_option import Output, add_output_option
from afflux.model.disks import DEFAULT_BLOCK_BYTES
from afflux.model.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class KeygenOptions(DiskioOptions):
    command: ClassVar[str] = "diskio keygen"
    out: str
    key_id: str | None
    output: Output


@dataclass(frozen=True, slots=True, kw_only=True)
class SignOptions(DiskioOptions):
    command: ClassVar[str] = "diskio sign"
    content: str
    vendor: str
    model: str
    version: str
    key: str
    key_id: str | None
    url: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions(DiskioOptions):
    command: ClassVar[str] = "diskio verify"
    content: str
    entry: str
    trusted_keys: str
    output: Output


@dataclass(frozen=True, slots=True, kw_only=True)
class TryOptions(DiskioOptions):
    command: ClassVar[str] = "diskio try"
    content: str
    rbps: int
    wbps: int
    blocksize: int
    output: Output


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowOptions(DiskioOptions):
    command: ClassVar[str] = "diskio show"
    files: list[str]
    kubeconfig: str | None
    context: str | None
    output: Output


def add_diskio(parser: argparse.ArgumentParser) -> None:
    """Add the actions."""
    parser.description = (
        "Normalisers say how much of a disk a request takes: tables of coefficients, or "
        "WebAssembly modules (docs/disk-io-vendors.md). `show` shows the disks of a cluster "
        "(docs/disk-io.md). The IO driver of a node reports what its disks have left "
        "(docs/disk-io-driver.md)."
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for action, (summary, add_arguments, _) in _ACTIONS.items():
        added = actions.add_parser(action, help=summary, allow_abbrev=False)
        added.description = f"{summary[:1].upper()}{summary[1:]}."
        add_arguments(added)


def diskio_options(typed: dict[str, Any]) -> DiskioOptions:
    """The options of the action that was parsed."""
    _, _, options = _ACTIONS[typed.pop("action")]
    return options(**typed)


def _keygen(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out",
        required=True,
        metavar="DIR",
        help="where to write ID.key, the private key, and ID.pub",
    )
    parser.add_argument("--key-id", metavar="ID", help="default: the begin of the key's digest")
    add_output_option(parser, "the public key in base64")


def _sign(parser: argparse.ArgumentParser) -> None:
    _content(parser)
    parser.add_argument("--vendor", required=True, metavar="NAME", help="as disks name it")
    parser.add_argument("--model", required=True, metavar="NAME", help="as disks name it")
    parser.add_argument(
        "--version",
        required=True,
        metavar="N",
        help="an integer, higher than that of every content before",
    )
    parser.add_argument("--key", required=True, metavar="FILE", help="the private key")
    parser.add_argument("--key-id", metavar="ID", help="default: the name of FILE, without .key")
    parser.add_argument("--url", metavar="URL", help="where the scheduler fetches the content")


def _verify(parser: argparse.ArgumentParser) -> None:
    _content(parser)
    parser.add_argument(
        "--entry", required=True, metavar="ENTRY", help="the output of sign, or a file with it"
    )
    parser.add_argument(
        "--trusted-keys",
        required=True,
        metavar="PATH",
        help="a public key, a JSON object of keys by id, or a directory of keys",
    )
    add_output_option(parser, "the digest of the content")


def _try(parser: argparse.ArgumentParser) -> None:
    _content(parser)
    for name, what in (("--rbps", "reads"), ("--wbps", "writes")):
        parser.add_argument(
            name,
            type=_bytes_per_second,
            default=0,
            metavar="QUANTITY",
            help=f"bytes per second that a pod {what}, such as 20M or 20Mi (default: 0)",
        )
    parser.add_argument(
        "--blocksize",
        type=_block_bytes,
        default=DEFAULT_BLOCK_BYTES,
        metavar="SIZE",
        help="the size of its blocks, such as 4k (default: 32k)",
    )
    add_output_option(parser, "name, kind and digest of the content, and the block size")


def _show(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show what every disk has left, what the reserved pods state and what they were measured "
        "to do, in bytes per second: of a cluster, or of objects in files."
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="a file, or - for standard input")
    parser.add_argument(
        "--kubeconfig", metavar="FILE", help="your credentials (default: $KUBECONFIG)"
    )
    parser.add_argument("--context", metavar="NAME", help="the kubeconfig's context to use")
    add_output_option(parser, "the names of disks and pods")


def _content(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "content", metavar="CONTENT", help="a table (JSON) or a module (.wasm), or - for stdin"
    )


def _bytes_per_second(text: str) -> int:
    from afflux.kube.quantities import nano, to_amount
    from afflux.model.resources import MEMORY

    try:
        return to_amount(MEMORY, nano(text))
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _block_bytes(text: str) -> int:
    from afflux.kube.disks.annotations import MAX_BLOCK_BYTES, MIN_BLOCK_BYTES
    from afflux.normalisers.block_size import parse_block_size

    try:
        size = parse_block_size(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not MIN_BLOCK_BYTES <= size <= MAX_BLOCK_BYTES:
        expected = f"expected bytes such as 4k, from {MIN_BLOCK_BYTES} to {MAX_BLOCK_BYTES}"
        raise argparse.ArgumentTypeError(f"{text!r}, {expected}, as in a pod")
    return size


_Add = Callable[[argparse.ArgumentParser], None]

# Actions with their summaries, what adds their arguments, and their options.
_ACTIONS: dict[str, tuple[str, _Add, type[DiskioOptions]]] = {
    "keygen": ("make a pair of keys to sign normalisers with", _keygen, KeygenOptions),
    "sign": ("print the signed ConfigMap entry of a normaliser", _sign, SignOptions),
    "verify": (
        "check that the scheduler would accept a normaliser; exit code 3 if not",
        _verify,
        VerifyOptions,
    ),
    "try": ("show what a request takes of a disk", _try, TryOptions),
    "show": ("show the disks of a cluster and what is left of them", _show, ShowOptions),
    "driver": ("report what the disks of a node have left", add_driver, DriverOptions),
    "aggregator": (
        "write the reports of the drivers of many nodes",
        add_aggregator,
        AggregatorOptions,
    ),
    "profile": ("measure the bandwidth of a disk by block size", add_profile, ProfileOptions),
}
