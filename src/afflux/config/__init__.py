"""Configuration: profiles, policies, queues, and the settings of the process.

The format is similar to a KubeSchedulerConfiguration. Every field has a default:

    apiVersion: afflux.dev/v1alpha1
    kind: AffluxConfiguration
    strategy: flow
    policies:
      - name: cpu-memory
        weight: 2
        args: {omega: 1000}
    profiles:
      - schedulerName: afflux
      - schedulerName: spreading
        policies:
          - name: load-spreading
    leaderElection:
      leaseDuration: 15s

The top-level `policies` apply to every profile without policies of its own, and to `place` and
`simulate`. On the command line a scheduler is named POLICY[+POLICY...][@STRATEGY]. The names of
policies, strategies and quorum rules are checked when these are loaded, not here.

`schema` and `durations` define the values, `validation` checks them, `configuration` reads them
from a file, `unknown_fields` explains misspelt fields. Not here: the parts that app.py constructs
from these values.
"""

from afflux.config.configuration import (
    Configuration,
    Profile,
    SchedulerSettings,
    default_configuration,
    effective_configuration,
    parse_scheduler_spec,
    read_configuration,
    read_settings,
)
from afflux.config.durations import Duration
from afflux.config.schema import (
    API_VERSION,
    DEFAULT_POLICY,
    DEFAULT_STRATEGY,
    KIND,
    Binding,
    Cleanup,
    ClientConnection,
    DefaultConstraintFields,
    DiskIO,
    LeaderElection,
    Ledger,
    PodAffinity,
    PolicySettings,
    Serving,
    TopologySpread,
    Volumes,
)
from afflux.config.validation import MAX_NUMBER

__all__ = [
    "API_VERSION",
    "DEFAULT_POLICY",
    "DEFAULT_STRATEGY",
    "KIND",
    "MAX_NUMBER",
    "Binding",
    "Cleanup",
    "ClientConnection",
    "Configuration",
    "DefaultConstraintFields",
    "DiskIO",
    "Duration",
    "LeaderElection",
    "Ledger",
    "PodAffinity",
    "PolicySettings",
    "Profile",
    "SchedulerSettings",
    "Serving",
    "TopologySpread",
    "Volumes",
    "default_configuration",
    "effective_configuration",
    "parse_scheduler_spec",
    "read_configuration",
    "read_settings",
]
