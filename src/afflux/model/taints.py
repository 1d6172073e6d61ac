"""Taints of machines and tolerations of tasks, as Kubernetes defines them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from afflux.model.selectors import compares

Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]

UNSCHEDULABLE_KEY = "node.kubernetes.io/unschedulable"
NOT_READY_KEY = "node.kubernetes.io/not-ready"
UNREACHABLE_KEY = "node.kubernetes.io/unreachable"


@dataclass(frozen=True, slots=True)
class Taint:
    """A mark on a machine that keeps away tasks which do not tolerate it."""

    key: str
    effect: Effect
    value: str = ""


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration of a task. An empty key (with Exists) matches every key, an empty effect all."""

    key: str = ""
    operator: Literal["Exists", "Equal", "Gt", "Lt"] = "Equal"
    value: str = ""
    effect: Effect | Literal[""] = ""

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        match self.operator:
            case "Exists":
                return True
            case "Equal":
                return bool(self.key) and self.value == taint.value
            case "Gt" | "Lt":
                return compares(taint.value, self.operator, self.value)


def untolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> list[Taint]:
    """The taints that no toleration matches."""
    return [t for t in taints if not any(tol.tolerates(t) for tol in tolerations)]
