"""The arguments of `afflux diskio driver`, `aggregator` and `profile`."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from afflux.cli.diskio_options import DiskioOptions
from afflux.cli.output_option import Output, add_output_option

DEFAULT_DIRECTORY = "/var/lib/kubelet"
DRIVER_PORT = 10270
AGGREGATOR_PORT = 10271
_MAX_SECONDS = 86_400.0
_MAX_BYTES = 1 << 40
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30}


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProcessOptions(DiskioOptions):
    namespace: str | None
    kubeconfig: str | None
    context: str | None
    address: str
    port: int
    cert_file: str
    key_file: str
    log_format: str
    log_level: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverOptions(_ProcessOptions):
    command: ClassVar[str] = "diskio driver"
    node: str
    directories: list[str] | None
    devices: list[str]
    profiles: list[str]
    normalisers: list[tuple[str, str]]
    models: list[tuple[str, str]]
    as_stated: bool
    file_bytes: int
    step_seconds: int
    measure_again: bool
    proc: str
    sys: str
    cgroup_root: str
    cgroup_prefix: str
    interval: float
    sample_interval: float
    window: float
    default_charge: int
    count_other_io: bool
    aggregator: str | None
    aggregator_token: str | None
    aggregator_ca: str | None
    once: bool
    pods: list[str]
    output: Output


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatorOptions(_ProcessOptions):
    command: ClassVar[str] = "diskio aggregator"
    token_file: str | None
    account: str | None
    qps: float
    burst: int
    max_nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOptions(DiskioOptions):
    command: ClassVar[str] = "diskio profile"
    directory: str | None
    raw_device: str | None
    models: list[tuple[str, str]]
    file_bytes: int
    step_seconds: int
    proc: str
    sys: str
    output: Output


def add_driver(parser: argparse.ArgumentParser) -> None:
    """The options of the driver."""
    parser.description = (
        "The IO driver of a node: measures what its disks can do and what its pods do on them, and"
        " reports what the reserved pods leave in the node's NodeDiskIOInfo object, until stopped"
        " (docs/disk-io-driver.md)."
    )
    parser.add_argument("--node", required=True, metavar="NAME", help="the node's name")
    parser.add_argument(
        "--directory",
        action="append",
        dest="directories",
        metavar="DIR",
        help="manage the disk that holds it, and measure there (default: /var/lib/kubelet)",
    )
    _repeated(parser, "--device", "devices", "NAME", "manage this disk; needs a --profile")
    _repeated(parser, "--profile", "profiles", "FILE", "a profile, in place of measuring one")
    _pairs(parser, "--normaliser", "normalisers", "VENDOR/MODEL=FILE", "normalise by this content")
    _add_models(parser)
    parser.add_argument(
        "--as-stated",
        action="store_true",
        help="report no models: requests count as they are stated, without normalisers",
    )
    _add_benchmark(parser)
    parser.add_argument(
        "--measure-again", action="store_true", help="do not use the profile measured before"
    )
    _add_roots(parser)
    parser.add_argument("--cgroup-root", default="/sys/fs/cgroup", metavar="DIR")
    parser.add_argument(
        "--cgroup-prefix", default="", metavar="PATH", help="the kubelet's --cgroup-root"
    )
    _add_seconds(parser, "--interval", 5.0, "between two reports")
    _add_seconds(parser, "--sample-interval", 1.0, "between two readings of counters")
    _add_seconds(parser, "--window", 10.0, "over which rates are the mean")
    parser.add_argument(
        "--default-charge",
        type=_bytes,
        default=5 << 20,
        metavar="BYTES",
        help="what a pod without a request reads and writes per second until it is measured"
        " (default: 5M; 0: nothing)",
    )
    parser.add_argument(
        "--count-other-io",
        action="store_true",
        help="also deduct what disks do besides the pods",
    )
    parser.add_argument("--aggregator", metavar="URL", help="report to an aggregator")
    parser.add_argument(
        "--aggregator-token", metavar="FILE", help="the token for it (default: that of the pod)"
    )
    parser.add_argument("--aggregator-ca", metavar="FILE", help="the authority of its certificate")
    parser.add_argument(
        "--once", action="store_true", help="print one report and exit, without a cluster"
    )
    _repeated(parser, "--pods", "pods", "FILE", "with --once: pods and the node's object")
    add_output_option(parser, "what each pod requests, does and is charged")
    _add_process(parser, DRIVER_PORT)


def add_aggregator(parser: argparse.ArgumentParser) -> None:
    """The options of the aggregator."""
    parser.description = (
        "Takes the reports of the IO drivers of many nodes and writes the newest of each to the API"
        " server, at a limited rate, until stopped (docs/disk-io-driver.md)."
    )
    parser.add_argument(
        "--token-file", metavar="FILE", help="accept drivers with the token in this file"
    )
    parser.add_argument(
        "--account",
        metavar="NAMESPACE:NAME",
        help="accept drivers with a token of this service account for the audience afflux-disk-io",
    )
    parser.add_argument(
        "--qps", type=_rate, default=50.0, metavar="N", help="writes per second (default: 50)"
    )
    parser.add_argument(
        "--burst", type=_count, default=100, metavar="N", help="writes at once (default: 100)"
    )
    parser.add_argument(
        "--max-nodes", type=_count, default=20_000, metavar="N", help="(default: 20000)"
    )
    _add_process(parser, AGGREGATOR_PORT)


def add_profile(parser: argparse.ArgumentParser) -> None:
    """The options of one measurement."""
    parser.description = (
        "Measure the profile of a disk with fio, once. -o json is the file for --profile."
    )
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument(
        "--directory", metavar="DIR", help="measure on a file of its own in this directory"
    )
    target.add_argument(
        "--raw-device",
        metavar="NAME",
        help="measure on this device: destroys what is on it; refused while it is mounted",
    )
    _add_models(parser)
    _add_benchmark(parser)
    _add_roots(parser)
    add_output_option(parser, "the coefficients, and what mixes of block sizes do to them")


# --- Parts


def _add_models(parser: argparse.ArgumentParser) -> None:
    _pairs(parser, "--model", "models", "ID=VENDOR/MODEL", "the model of a disk")


def _add_benchmark(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--profile-size",
        type=_bytes,
        dest="file_bytes",
        default=1 << 30,
        metavar="BYTES",
        help="the size of the measured file (default: 1G)",
    )
    parser.add_argument(
        "--profile-seconds",
        type=_count,
        dest="step_seconds",
        default=5,
        metavar="SECONDS",
        help="of each of the 13 steps of a measurement (default: 5)",
    )


def _add_roots(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--proc", default="/proc", metavar="DIR", help="(default: /proc)")
    parser.add_argument("--sys", default="/sys", metavar="DIR", help="(default: /sys)")


def _add_process(parser: argparse.ArgumentParser, port: int) -> None:
    parser.add_argument(
        "--namespace",
        metavar="NAME",
        help="of the NodeDiskIOInfo objects (default: the pod's own, or the context's)",
    )
    parser.add_argument("--kubeconfig", metavar="FILE")
    parser.add_argument("--context", metavar="NAME", help="the kubeconfig's context to use")
    parser.add_argument("--address", default="", help="where to listen (default: everywhere)")
    parser.add_argument(
        "--port", type=_port, default=port, help=f"for health, metrics and more (default: {port})"
    )
    parser.add_argument("--cert-file", default="", metavar="FILE", help="serve HTTPS with it")
    parser.add_argument("--key-file", default="", metavar="FILE")
    parser.add_argument("--log-format", choices=["text", "json"], default="text")
    parser.add_argument(
        "--log-level", choices=["debug", "info", "warning", "error"], default="info"
    )


def _repeated(
    parser: argparse.ArgumentParser, flag: str, field: str, metavar: str, text: str
) -> None:
    parser.add_argument(flag, action="append", dest=field, default=[], metavar=metavar, help=text)


def _pairs(parser: argparse.ArgumentParser, flag: str, field: str, metavar: str, text: str) -> None:
    parser.add_argument(
        flag,
        action="append",
        dest=field,
        default=[],
        metavar=metavar,
        help=text,
        type=_pair(metavar),
    )


def _add_seconds(parser: argparse.ArgumentParser, flag: str, default: float, text: str) -> None:
    parser.add_argument(
        flag,
        type=_seconds,
        default=default,
        metavar="SECONDS",
        help=f"{text} (default: {default:g})",
    )


# --- Values


def _pair(expected: str) -> Callable[[str], tuple[str, str]]:
    def pair(text: str) -> tuple[str, str]:
        key, equals, value = text.partition("=")
        if not (key and equals and value):
            raise argparse.ArgumentTypeError(f"{text!r:.80}; expected {expected}")
        return key, value

    return pair


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.01 <= number <= _MAX_SECONDS:
        raise argparse.ArgumentTypeError(
            f"{text!r:.40}; expected seconds from 0.01 to {_MAX_SECONDS:g}"
        )
    return number


def _rate(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.1 <= number <= 100_000:
        raise argparse.ArgumentTypeError(f"{text!r:.40}; expected a number from 0.1 to 100000")
    return number


def _count(text: str) -> int:
    return _whole(text, 1, 1_000_000)


def _port(text: str) -> int:
    return _whole(text, 0, 65_535)


def _whole(text: str, least: int, most: int) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    if not least <= number <= most:
        raise argparse.ArgumentTypeError(
            f"{text!r:.40}; expected a whole number from {least} to {most}"
        )
    return number


def _bytes(text: str) -> int:
    lower = text.lower().removesuffix("i")
    digits = lower.rstrip("kmg")
    unit = _UNITS.get(lower[len(digits) :])
    if unit is not None and digits.isascii() and digits.isdigit() and len(digits) < 14:
        amount = int(digits) << unit
        if amount <= _MAX_BYTES:
            return amount
    raise argparse.ArgumentTypeError(f"{text!r:.40}; expected bytes such as 512M or 1G")
