"""afflux diskio driver, aggregator and profile: the processes of docs/disk-io-driver.md."""

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import msgspec

from afflux.cli.data_output import print_data
from afflux.cli.diskio_driver_arguments import (
    DEFAULT_DIRECTORY,
    AggregatorOptions,
    DriverOptions,
    ProfileOptions,
)
from afflux.cli.exit_codes import ExitCode
from afflux.cli.file_arguments import read_source
from afflux.cli.log_output import log_to_stderr
from afflux.cli.output_option import is_data
from afflux.cli.text_table import format_table
from afflux.diskio import aggregator, driver_process
from afflux.diskio.block_devices import BlockDevices
from afflux.diskio.counter_source import CounterSource
from afflux.diskio.device_profile import DeviceProfile, encode_profile
from afflux.diskio.driver_identity import AUDIENCE, DriverIdentity, ReviewedToken, SharedToken
from afflux.diskio.driver_setup import (
    DiskOptions,
    measure_once,
    prepare_disks,
    prepare_normalisers,
)
from afflux.diskio.node_driver import DriverSettings, NodeDriver
from afflux.diskio.node_reports import ReportWriter
from afflux.diskio.normaliser_pages import NormaliserPages
from afflux.diskio.pod_requests import reserved_pod
from afflux.diskio.report_sinks import AggregatorSink, DirectSink
from afflux.diskio.single_report import DriverParts, mix_errors, single_report
from afflux.diskio.until_stopped import connection, run_until_stopped
from afflux.kube.api.client import Api
from afflux.kube.api.client_config import ClientConfig
from afflux.kube.api.credentials import TokenFile
from afflux.kube.api.http_proxy import proxy_for
from afflux.kube.live.access_review import AccessReviews
from afflux.kube.object_files import read as read_objects
from afflux.model.disks import DiskRequest, VolumeIO
from afflux.model.errors import InputError

# Watches do not count.
_CONNECTIONS = 4
_REVIEW_CONNECTIONS = 8


def run(options: DriverOptions | AggregatorOptions | ProfileOptions) -> ExitCode:
    """Runs one of the three."""
    match options:
        case DriverOptions():
            return _run_driver(options)
        case AggregatorOptions():
            return _run_aggregator(options)
        case ProfileOptions():
            return _run_profile(options)


def _run_driver(options: DriverOptions) -> ExitCode:
    """Reports until stopped, or once."""
    disks = DiskOptions(
        _directories(options),
        options.devices,
        options.profiles,
        dict(options.normalisers),
        dict(options.models),
        options.file_bytes,
        options.step_seconds,
        options.measure_again,
        options.as_stated,
    )
    charge = options.default_charge
    default = DiskRequest((VolumeIO(charge, charge),), is_stated=False) if charge else None
    parts = DriverParts(
        DriverSettings(
            options.node,
            options.window,
            default_request=default,
            counts_other_io=options.count_other_io,
        ),
        disks,
        BlockDevices(Path(options.proc), Path(options.sys)),
        CounterSource(Path(options.proc), Path(options.cgroup_root), options.cgroup_prefix),
    )
    log_to_stderr(options.log_format, "warning" if options.once else options.log_level)
    if options.once:
        return _print_once(options, parts)
    if options.pods:
        raise InputError("--pods: is for --once; expected neither or both")
    return _run(_drive(options, parts, connection(options.kubeconfig, options.context)))


def _run_aggregator(options: AggregatorOptions) -> ExitCode:
    """Takes and writes reports until stopped."""
    if (options.token_file is None) == (options.account is None):
        raise InputError("--token-file, --account: expected one of them")
    log_to_stderr(options.log_format, options.log_level)
    return _run(_aggregate(options, connection(options.kubeconfig, options.context)))


def _run_profile(options: ProfileOptions) -> ExitCode:
    """Measures once and prints the profile."""
    log_to_stderr("text", "info")
    disks = DiskOptions(
        models=dict(options.models),
        file_bytes=options.file_bytes,
        step_seconds=options.step_seconds,
    )
    devices = BlockDevices(Path(options.proc), Path(options.sys))
    measuring = measure_once(
        devices, disks, directory=options.directory or "", raw_device=options.raw_device or ""
    )
    profile = asyncio.run(measuring)
    if is_data(options.output):
        print_data(msgspec.json.decode(encode_profile(profile)), options.output)
    else:
        _print_profile(profile, is_wide=options.output == "wide")
    return ExitCode.DONE


def _run(work: Coroutine[None, None, None]) -> ExitCode:
    asyncio.run(run_until_stopped(work))
    return ExitCode.DONE


# --- Driver


async def _drive(options: DriverOptions, parts: DriverParts, config: ClientConfig) -> None:
    prepared = await prepare_disks(parts.devices, parts.disks)
    driver = NodeDriver(parts.settings, prepared.disks, prepared.normalise, reserved_pod)
    namespace = options.namespace or config.namespace
    target = _aggregator_config(options, config)
    process_options = driver_process.ProcessOptions(
        options.node,
        namespace,
        options.interval,
        options.sample_interval,
        options.address,
        options.port,
        options.cert_file,
        options.key_file,
    )
    async with Api(config, connections=_CONNECTIONS) as api, Api(target or config) as other:
        sink = (
            AggregatorSink(other)
            if target is not None
            else DirectSink(ReportWriter(api, namespace))
        )
        await driver_process.run_driver(
            api,
            driver,
            parts.source,
            sink,
            process_options,
            routes=[NormaliserPages(prepared.contents)],
            configuration=_shown(options),
        )


def _aggregator_config(options: DriverOptions, config: ClientConfig) -> ClientConfig | None:
    """The client configuration for the aggregator; without --aggregator None."""
    if options.aggregator is None:
        return None
    parts = urlsplit(options.aggregator)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query:
        raise InputError(f"--aggregator: {options.aggregator!r:.200}, expected http(s)://host:port")
    if options.aggregator_token is None:
        # The pod's own token is good for the API server too: it must not go elsewhere.
        raise InputError(f"--aggregator-token: missing, expected a token for {AUDIENCE}")
    return ClientConfig(
        server=options.aggregator.rstrip("/"),
        origin="--aggregator",
        ca=Path(options.aggregator_ca) if options.aggregator_ca else config.ca,
        credentials=TokenFile(Path(options.aggregator_token)),
        proxy_url=proxy_for(options.aggregator),
    )


def _directories(options: DriverOptions) -> list[str]:
    if options.directories is not None:
        return options.directories
    # Profiles alone say which disks a report without a machine is about.
    is_elsewhere = options.once and options.profiles
    return [] if options.devices or is_elsewhere else [DEFAULT_DIRECTORY]


def _print_once(options: DriverOptions, parts: DriverParts) -> ExitCode:
    loaded = read_objects([read_source(path) for path in options.pods])
    reporting = single_report(parts, loaded, asyncio.sleep)
    answer = asyncio.run(reporting)
    if is_data(options.output):
        print_data(answer, options.output)
        return ExitCode.DONE
    found = cast("dict[str, dict[str, object]]", answer["devices"])
    rows = [
        [device, str(each["model"] or "-"), *_amounts(each["capacity"]), *_amounts(each["left"])]
        for device, each in found.items()
    ]
    figures = [f"{what} {figure}" for what in ("CAPACITY", "LEFT") for figure in _FIGURES]
    print(format_table(["DEVICE", "MODEL", *figures], rows))
    if options.output == "wide":
        charges = cast("list[dict[str, object]]", answer["pods"])
        lines = [
            [str(each["uid"]), str(each["device"])]
            + [amount for what in _CHARGES for amount in _amounts(each[what])]
            for each in charges
        ]
        names = [f"{what.upper()} {figure}" for what in _CHARGES for figure in _FIGURES]
        print("\n" + format_table(["POD", "DEVICE", *names], lines))
    return ExitCode.DONE


_FIGURES = ("READ", "WRITE", "TOTAL")
_CHARGES = ("requested", "measured", "charged")


def _amounts(figures: object) -> list[str]:
    found = cast("dict[str, int]", figures)
    return [str(found[name]) for name in ("read", "write", "total")]


# --- Aggregator


async def _aggregate(options: AggregatorOptions, config: ClientConfig) -> None:
    namespace = options.namespace or config.namespace
    async with (
        Api(config, qps=options.qps, burst=options.burst) as api,
        # Reviews must not wait behind writes.
        Api(config, connections=_REVIEW_CONNECTIONS) as reviews,
    ):
        identity: DriverIdentity
        if options.account is not None:
            reviewer = AccessReviews(reviews, (AUDIENCE,))
            account = f"system:serviceaccount:{options.account}"
            identity = ReviewedToken(reviewer, account, time.monotonic)
        else:
            identity = SharedToken(Path(options.token_file or ""))
        made = aggregator.Aggregator(ReportWriter(api, namespace), identity, options.max_nodes)
        where = aggregator.AggregatorOptions(
            options.address, options.port, options.cert_file, options.key_file
        )
        await aggregator.run_aggregator(made, where, _shown(options))


def _shown(options: DriverOptions | AggregatorOptions) -> dict[str, object]:
    """The options, for /configz: none of them is secret, and files are named only."""
    return cast("dict[str, object]", msgspec.to_builtins(options))


# --- Profile


def _print_profile(profile: DeviceProfile, *, is_wide: bool) -> None:
    sizes = sorted({*profile.read, *profile.write})
    rows = [
        [str(size), str(profile.read.get(size, "-")), str(profile.write.get(size, "-"))]
        for size in sizes
    ]
    print(format_table(["BLOCK", "READ", "WRITE"], rows))
    print(f"\nhalf reads, half writes: {profile.total} bytes per second")
    if not profile.is_direct:
        print("measured through the page cache: the disk is slower than this")
    if is_wide:
        named = profile if profile.model else replace(profile, model="unknown/unknown")
        _, normalise = prepare_normalisers([named], DiskOptions())
        found = named.coefficients()
        tables = [cast("dict[str, float]", found[name]) for name in ("read", "write")]
        lines = [
            [str(size), *(str(table.get(str(size), "-")) for table in tables)] for size in sizes
        ]
        print("\n" + format_table(["BLOCK", "READ FACTOR", "WRITE FACTOR"], lines))
        for direction, error in mix_errors(named.model, named, normalise).items():
            print(
                f"mixed {direction}s cost {error['atLeast']:.2f} to {error['atMost']:.2f} times"
                " what their mean block size says"
            )
