"""Configuration: who is served under which names, by which policies, and how the process runs.

It reads like a KubeSchedulerConfiguration. What is left out has a default:

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

`policies` at the top serves every profile that names none of its own; it is also what `place` and
`simulate` use. On the command line a scheduler is named POLICY[+POLICY...][@STRATEGY]. Whether
there is a policy or a strategy of that name is found out where it is made, not here.

`durations` and `fields` are the values, `checking` what they may be, `reading` the way from a file
to them. Not here: anything that acts on them; app.py makes the parts.
"""

from afflux.config.checking import LARGEST_NUMBER
from afflux.config.durations import Duration
from afflux.config.fields import (
    API_VERSION,
    DEFAULT_POLICY,
    DEFAULT_STRATEGY,
    KIND,
    Binding,
    Cleanup,
    ClientConnection,
    LeaderElection,
    Ledger,
    PolicySettings,
    Serving,
    Volumes,
)
from afflux.config.reading import (
    Configuration,
    Profile,
    Settings,
    default_configuration,
    effective,
    parse_spec,
    read_configuration,
    read_settings,
)

__all__ = [
    "API_VERSION",
    "DEFAULT_POLICY",
    "DEFAULT_STRATEGY",
    "KIND",
    "LARGEST_NUMBER",
    "Binding",
    "Cleanup",
    "ClientConnection",
    "Configuration",
    "Duration",
    "LeaderElection",
    "Ledger",
    "PolicySettings",
    "Profile",
    "Serving",
    "Settings",
    "Volumes",
    "default_configuration",
    "effective",
    "parse_spec",
    "read_configuration",
    "read_settings",
]
