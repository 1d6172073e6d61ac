"""The spread constraints of pods that state none: the system's defaults, or those configured.

They are the arguments of kube-scheduler's plugin PodTopologySpread. Which pods they spread follows
from Services and owners: cluster_relations.py.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from afflux.model.relations import SpreadConstraint, TaskSelector


@dataclass(frozen=True, slots=True)
class DefaultConstraint:
    """A spread constraint without its selector; the fields are those of a SpreadConstraint."""

    topology_key: str
    max_skew: int
    required: bool = False
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False
    needs_all_keys: bool = True

    def over(self, selector: TaskSelector) -> SpreadConstraint:
        """The constraint that spreads the tasks which this selector selects."""
        return SpreadConstraint(selector, **asdict(self))


# Those of kube-scheduler. A node that lacks one of the keys still counts for the other one.
SYSTEM_DEFAULTS = (
    DefaultConstraint("kubernetes.io/hostname", 3, needs_all_keys=False),
    DefaultConstraint("topology.kubernetes.io/zone", 5, needs_all_keys=False),
)


@dataclass(frozen=True, slots=True)
class DefaultConstraints:
    """The default constraints of pods by their scheduler's name; `otherwise` for other names."""

    otherwise: tuple[DefaultConstraint, ...] = SYSTEM_DEFAULTS
    of_scheduler: Mapping[str, tuple[DefaultConstraint, ...]] = field(
        default_factory=dict[str, tuple[DefaultConstraint, ...]]
    )

    def __bool__(self) -> bool:
        """Whether any pod has default constraints; if not, Services and owners do not matter."""
        return bool(self.otherwise) or any(self.of_scheduler.values())

    def of(self, scheduler_name: str) -> tuple[DefaultConstraint, ...]:
        """The default constraints of a pod that names this scheduler."""
        return self.of_scheduler.get(scheduler_name, self.otherwise)
