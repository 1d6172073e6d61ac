"""afflux run: the scheduler of a live cluster."""

from afflux import app
from afflux.cli.arguments import RunOptions
from afflux.cli.data_output import print_data
from afflux.cli.exit_codes import ExitCode
from afflux.cli.log_output import log_to_stderr
from afflux.cli.safe_output import print_error
from afflux.config import default_configuration, effective_configuration, read_configuration


def run(options: RunOptions) -> ExitCode:
    """Reads the configuration, connects, schedules until stopped."""
    path = options.config
    configuration = read_configuration(path) if path else default_configuration()
    if options.print_config:
        print_data(effective_configuration(configuration), "yaml")
        return ExitCode.DONE
    log_to_stderr(options.log_format, options.log_level)
    lost = app.run_in_kubernetes(configuration, options.kubeconfig, options.context)
    if lost is not None:
        print_error(f"afflux run: {lost}; exiting, so that a restart begins with a fresh state")
        return ExitCode.NO_ANSWER
    return ExitCode.DONE
