"""afflux diskio: each action imports what it needs when it runs."""

from afflux.cli.diskio_arguments import (
    KeygenOptions,
    ShowOptions,
    SignOptions,
    TryOptions,
    VerifyOptions,
)
from afflux.cli.diskio_driver_arguments import AggregatorOptions, DriverOptions, ProfileOptions
from afflux.cli.diskio_options import DiskioOptions
from afflux.cli.exit_codes import ExitCode


def run(options: DiskioOptions) -> ExitCode:
    """Runs one action."""
    match options:
        case KeygenOptions():
            from afflux.cli.normaliser_signing import keygen

            return keygen(options)
        case SignOptions():
            from afflux.cli.normaliser_signing import sign_content

            return sign_content(options)
        case VerifyOptions():
            from afflux.cli.normaliser_signing import verify

            return verify(options)
        case TryOptions():
            from afflux.cli.normaliser_trial import try_request

            return try_request(options)
        case ShowOptions():
            from afflux.cli.disk_tables import show

            return show(options)
        case DriverOptions() | AggregatorOptions() | ProfileOptions():
            from afflux.cli.diskio_driver import run as run_driver

            return run_driver(options)
        case _:
            raise AssertionError(f"{options.command} is not listed here")
