"""What has to be known of running pods before they may be evicted, and their disruption budgets.

While nothing may be evicted, nothing is kept and no pod has eviction terms.
"""

from collections.abc import Iterable, Sequence

from afflux.cycle.events import BudgetSet
from afflux.kube import objects
from afflux.kube.disruption_budgets import budget_selects, disruptions_allowed
from afflux.kube.group_claims import PodGroups, claimed_group, leaves_as_a_whole
from afflux.kube.pods import created_seconds, namespace, started_seconds
from afflux.kube.reader.object_store import Key, ObjectStore
from afflux.kube.reader.work_queue import WorkQueue
from afflux.model.eviction_terms import EvictionTerms

# What the API server fills in.
DEFAULT_GRACE_SECONDS = 30.0


class EvictablePods:
    """The disruption budgets of a cluster, by namespace and name."""

    def __init__(self, changes: WorkQueue[Key]) -> None:
        self.budgets = ObjectStore[objects.PodDisruptionBudget]("disruption budget", changes)
        self._by_namespace: dict[str, dict[str, objects.PodDisruptionBudget]] = {}
        self._allowed: dict[str, int] = {}
        self._changed: set[str] = set()

    def set_budgets(self, names: Iterable[str]) -> set[str]:
        """These budgets have changed. Returns the namespaces in which other pods than before may
        count towards budgets."""
        concerned: set[str] = set()
        for name in names:
            space = name.partition("/")[0]
            known = self._by_namespace.setdefault(space, {})
            before, now = known.pop(name, None), self.budgets.get(name)
            if now is not None:
                known[name] = now
            if not known:
                del self._by_namespace[space]
            if (before and before.spec.selector) != (now and now.spec.selector):
                concerned.add(space)
            self._changed.add(name)
        return concerned

    def terms(self, pod: objects.Pod, pod_groups: PodGroups) -> EvictionTerms | None:
        """The terms of a pod on a node; None for one that is being deleted already."""
        metadata, spec = pod.metadata, pod.spec
        if metadata.deletion_timestamp:
            return None
        started, grace = started_seconds(pod), spec.termination_grace_period_seconds
        whole = leaves_as_a_whole(pod, pod_groups)
        name = f"{namespace(pod)}/{metadata.name}"
        owners = metadata.owner_references or ()
        budgets = self._by_namespace.get(namespace(pod), {})
        return EvictionTerms(
            group=(claimed_group(pod) or name) if whole else name,
            priority=spec.priority or 0,
            controller=next((each.uid or "" for each in owners if each.controller), ""),
            started_seconds=created_seconds(pod) if started is None else started,
            grace_seconds=DEFAULT_GRACE_SECONDS if grace is None else float(max(0, grace)),
            budgets=tuple(n for n, each in budgets.items() if budget_selects(each, pod)),
            whole_group=whole,
        )

    def take_allowed(self, pods: Sequence[objects.Pod]) -> list[BudgetSet]:
        """What budgets allow, if that has changed. `pods` are all pods: they are looked at only for
        budgets without a status."""
        changed, self._changed = self._changed, set()
        found: list[BudgetSet] = []
        for known in self._by_namespace.values():
            for name, budget in known.items():
                status = budget.status
                if status is None or status.disruptions_allowed is None:
                    selected = [pod for pod in pods if budget_selects(budget, pod)]
                elif name in changed:
                    selected = []
                else:
                    continue
                allowed = disruptions_allowed(budget, selected)
                if self._allowed.get(name) != allowed:
                    self._allowed[name] = allowed
                    found.append(BudgetSet(name, allowed))
        gone = [name for name in changed if self.budgets.get(name) is None]
        found += [
            BudgetSet(name, None) for name in gone if self._allowed.pop(name, None) is not None
        ]
        return found
