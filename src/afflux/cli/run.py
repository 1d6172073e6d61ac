"""afflux run: the scheduler of a live cluster."""

import json
import logging
import sys
import time

import yaml

from afflux import app
from afflux.cli.arguments import RunOptions
from afflux.cli.terminal import complain
from afflux.config import default_configuration, effective, read_configuration

LOST = 1


def run(options: RunOptions) -> int:
    """Read the configuration, connect, schedule until stopped."""
    configuration = (
        read_configuration(options.config) if options.config else default_configuration()
    )
    if options.print_config:
        print(yaml.safe_dump(effective(configuration), sort_keys=False), end="")
        return 0
    _log_to_stderr(options.log_format, options.log_level)
    lost = app.run_in_kubernetes(configuration, options.kubeconfig, options.context)
    if lost is not None:
        complain(f"afflux run: {lost}; ending, so that a new start begins from a clean slate")
        return LOST
    return 0


def _log_to_stderr(form: str, level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Text())
    logging.basicConfig(level=level.upper(), handlers=[handler])


def _when(record: logging.LogRecord) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{whole}.{int(record.msecs):03d}Z"


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        room = record.name.removeprefix("afflux.")
        line = f"{_when(record)} {record.levelname.lower():7} {room}: {record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "ts": _when(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)
