"""afflux run: the scheduler of a live cluster."""

import json
import logging
import sys
import time

from afflux import app
from afflux.cli.arguments import RunOptions
from afflux.cli.data_output import print_data
from afflux.cli.exit_codes import ExitCode
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


def log_to_stderr(form: str, level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if form == "json" else _TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler])


def _timestamp(record: logging.LogRecord) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{whole}.{int(record.msecs):03d}Z"


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        room = record.name.removeprefix("afflux.")
        line = f"{_timestamp(record)} {record.levelname.lower():7} {room}: {record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "ts": _timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)
