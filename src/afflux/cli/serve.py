"""afflux serve: the scheduler as a gRPC service that knows no cluster manager."""

from afflux import app
from afflux.cli.arguments import ServeOptions
from afflux.cli.chosen_settings import chosen_settings
from afflux.cli.exit_codes import ExitCode
from afflux.cli.log_output import log_to_stderr
from afflux.cli.safe_output import print_error
from afflux.config import default_configuration, read_configuration


def run(options: ServeOptions) -> ExitCode:
    """Reads the configuration, listens, schedules until stopped."""
    settings = chosen_settings(options)
    path = options.config
    configuration = read_configuration(path) if path else default_configuration()
    log_to_stderr(options.log_format, options.log_level)
    deposed = app.serve(
        configuration,
        settings,
        app.ServiceAddress(
            listen=options.listen,
            insecure=options.insecure,
            cert_file=options.tls_cert_file,
            key_file=options.tls_key_file,
            client_ca_file=options.client_ca_file,
            token_file=options.token_file,
            state_file=options.state,
        ),
    )
    if deposed is not None:
        print_error(f"afflux serve: {deposed}; exiting")
        return ExitCode.NO_ANSWER
    return ExitCode.DONE
