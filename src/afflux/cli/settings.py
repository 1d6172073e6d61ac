"""The scheduler that --policy, --strategy and --config ask for."""

import argparse

from afflux.config import DEFAULT_POLICY, DEFAULT_STRATEGY, Settings, parse_spec, read_settings
from afflux.model.errors import InputError


def chosen_settings(options: argparse.Namespace) -> Settings:
    """One scheduler: from the file, or from the names on the command line."""
    if options.config:
        if options.policy or options.strategy:
            raise InputError("--config: the file names policies and strategy; drop the other flags")
        return read_settings(options.config)
    return parse_spec(
        options.policy or DEFAULT_POLICY, "--policy", options.strategy or DEFAULT_STRATEGY
    )
