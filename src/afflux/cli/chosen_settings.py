"""The scheduler that --policy, --strategy and --config ask for."""

from afflux.cli.arguments import PlaceOptions, ServeOptions, SimulateOptions
from afflux.config import (
    DEFAULT_POLICY,
    DEFAULT_STRATEGY,
    SchedulerSettings,
    parse_scheduler_spec,
    read_settings,
)
from afflux.model.errors import InputError


def chosen_settings(options: SimulateOptions | PlaceOptions | ServeOptions) -> SchedulerSettings:
    """The settings of one scheduler, from the file or from the names on the command line."""
    if options.config is None:
        policy = DEFAULT_POLICY if options.policy is None else options.policy
        strategy = DEFAULT_STRATEGY if options.strategy is None else options.strategy
        if "@" not in policy:
            return parse_scheduler_spec(f"{policy}@{strategy}")
        if options.strategy is not None:
            raise InputError(f"--strategy: {strategy!r:.80}, but --policy names one too; drop one")
        return parse_scheduler_spec(policy)
    for flag, value in (("--policy", options.policy), ("--strategy", options.strategy)):
        if value is not None:
            raise InputError(f"{flag}: {value!r:.80}, but the file of --config decides; drop one")
    return read_settings(options.config)
