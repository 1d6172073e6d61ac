"""Constraints between tasks: affinity, anti-affinity and topology spread, as Kubernetes means them.

A topology key is a label of machines; the machines with the same value form one domain. A machine
without the label belongs to no domain of that key.
"""

from dataclasses import dataclass, field

from afflux.model.label_matcher import LabelMatcher, Labels
from afflux.model.selectors import Requirement


@dataclass(frozen=True, slots=True)
class TaskLabels:
    """The namespace and the labels of a task: everything that selectors look at.

    A task that is being deleted is `ending`. Equal ones should be one object: they are compared
    and hashed for every task.
    """

    namespace: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    ending: bool = False
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.namespace, self.labels, self.ending)))

    def __hash__(self) -> int:
        return self._hash


NO_LABELS = TaskLabels()


@dataclass(frozen=True, slots=True)
class TaskSelector:
    """Selects tasks by their namespace and their labels.

    A task is selected if its namespace is one of `namespaces`, or the labels of its namespace
    satisfy all of `namespace_labels` (None selects no namespace, an empty tuple every one), and its
    own labels satisfy all of `labels` (None selects no task, an empty tuple every one). Tasks that
    are being deleted are selected only if the selector `includes_ending` ones. A task whose
    namespace has no name, such as reserved room, is in no namespace that labels select.
    """

    namespaces: tuple[str, ...] = ()
    namespace_labels: tuple[Requirement, ...] | None = None
    labels: tuple[Requirement, ...] | None = ()
    includes_ending: bool = True
    _namespaces: LabelMatcher | None = field(init=False, repr=False, compare=False)
    _tasks: LabelMatcher | None = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        spaces, tasks = self.namespace_labels, self.labels
        object.__setattr__(self, "_namespaces", None if spaces is None else LabelMatcher(spaces))
        object.__setattr__(self, "_tasks", None if tasks is None else LabelMatcher(tasks))
        own = (self.namespaces, spaces, tasks, self.includes_ending)
        object.__setattr__(self, "_hash", hash(own))

    def __hash__(self) -> int:
        return self._hash

    @property
    def parts(self) -> int:
        """How many namespaces, expressions and values it names."""
        requirements = (*(self.namespace_labels or ()), *(self.labels or ()))
        return len(self.namespaces) + sum(1 + len(each.values) for each in requirements)

    @property
    def named_namespaces(self) -> tuple[str, ...] | None:
        """The namespaces in which it may select tasks; None if their labels decide that."""
        return self.namespaces if self.namespace_labels is None else None

    @property
    def looks_at_namespaces(self) -> bool:
        """Whether the labels of namespaces decide which tasks are selected."""
        return self.namespace_labels is not None

    @property
    def required_labels(self) -> list[tuple[str, str]]:
        """Labels that every selected task has."""
        return [
            (each.key, each.values[0])
            for each in self.labels or ()
            if each.operator == "In" and len(each.values) == 1
        ]

    def matches(self, task: TaskLabels, namespace_labels: Labels) -> bool:
        """Whether a task is selected; `namespace_labels` are those of its namespace."""
        admitted = self.admits_namespace(task.namespace, namespace_labels)
        return admitted and self.matches_labels(task)

    def matches_labels(self, task: TaskLabels) -> bool:
        """Whether a task of an admitted namespace is selected."""
        return self.admits_labels(dict(task.labels), ending=task.ending)

    def admits_namespace(self, namespace: str, labels: Labels) -> bool:
        """Whether tasks of a namespace with these labels may be selected."""
        return namespace in self.namespaces or (
            self._namespaces is not None and bool(namespace) and self._namespaces.accepts(labels)
        )

    def admits_labels(self, labels: Labels, *, ending: bool) -> bool:
        """Whether a task of an admitted namespace with these labels is selected."""
        if self._tasks is None or (ending and not self.includes_ending):
            return False
        return self._tasks.accepts(labels)


@dataclass(frozen=True, slots=True)
class AllSelectors:
    """Selects the tasks that every one of these selectors selects."""

    selectors: tuple[TaskSelector, ...]

    @property
    def named_namespaces(self) -> tuple[str, ...] | None:
        """The namespaces in which it may select tasks; None if their labels decide that."""
        named = [each.namespaces for each in self.selectors if not each.looks_at_namespaces]
        return min(named, key=len, default=None)

    @property
    def looks_at_namespaces(self) -> bool:
        """Whether the labels of namespaces decide which tasks are selected."""
        return any(each.looks_at_namespaces for each in self.selectors)

    @property
    def required_labels(self) -> list[tuple[str, str]]:
        """Labels that every selected task has."""
        return [label for each in self.selectors for label in each.required_labels]

    def admits_namespace(self, namespace: str, labels: Labels) -> bool:
        """Whether tasks of a namespace with these labels may be selected."""
        return all(each.admits_namespace(namespace, labels) for each in self.selectors)

    def admits_labels(self, labels: Labels, *, ending: bool) -> bool:
        """Whether a task of an admitted namespace with these labels is selected."""
        return all(each.admits_labels(labels, ending=ending) for each in self.selectors)


AnySelector = TaskSelector | AllSelectors


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """The tasks that a task wants in its own domain of the topology key, or does not want there."""

    selector: TaskSelector
    topology_key: str


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """How evenly the selected tasks are spread over the domains of a topology key.

    The skew of a domain is its number of selected tasks less that of the emptiest domain. A machine
    where it would exceed `max_skew` is refused, or with `required` False costs more. Where fewer
    than `min_domains` domains exist, the emptiest one counts as having no task. Machines count that
    have all topology keys of the task's constraints of this strength (with `needs_all_keys` False,
    as for the system's default constraints, only this key), that match its node affinity (unless
    `honors_affinity` is False) and whose taints it tolerates (if `honors_taints`).
    The selector should not include ending tasks.
    """

    selector: TaskSelector
    topology_key: str
    max_skew: int
    required: bool = True
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False
    needs_all_keys: bool = True


@dataclass(frozen=True, slots=True)
class CarriedTerm:
    """A term of a running task that concerns the tasks that join its domain.

    A required anti-affinity term, whose `weight` is None, repels the tasks that it selects. Other
    terms attract them with a positive weight or, with a negative one, make the domain cost more.
    """

    term: AffinityTerm
    weight: int | None


# With this weight, unless the configuration has another one, the required affinity of a running
# task attracts the tasks that it selects.
DEFAULT_REQUIRED_AFFINITY_WEIGHT = 1


@dataclass(frozen=True, slots=True)
class Relations:
    """What a task requires of the tasks around it, and what it prefers.

    `preferred` has weights: positive ones attract, negative ones repel. With the weight
    `affinity_weight` the required affinity of the running task attracts the tasks that it selects.
    """

    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred: tuple[tuple[int, AffinityTerm], ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    affinity_weight: int = DEFAULT_REQUIRED_AFFINITY_WEIGHT
    carried: tuple[CarriedTerm, ...] = field(init=False, repr=False, compare=False)
    _without_spread: "Relations | None" = field(init=False, repr=False, compare=False)
    # How many terms, expressions and values they name.
    parts: int = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        weight = self.affinity_weight
        parts = (self.affinity, self.anti_affinity, self.preferred, self.spread)
        object.__setattr__(self, "_hash", hash((*parts, weight)))
        without_spread = Relations(*parts[:3], affinity_weight=weight) if self.spread else None
        object.__setattr__(self, "_without_spread", without_spread)
        stated = [*(each.selector for each in self.spread), *(each.selector for each in self.terms)]
        object.__setattr__(self, "parts", sum(4 + each.parts for each in stated))
        repels = [CarriedTerm(term, None) for term in self.anti_affinity]
        attracts = [CarriedTerm(term, weight) for term in self.affinity if weight]
        prefers = [CarriedTerm(term, weight) for weight, term in self.preferred]
        object.__setattr__(self, "carried", (*repels, *attracts, *prefers))

    def __hash__(self) -> int:
        return self._hash

    @property
    def standing(self) -> "Relations":
        """What concerns other tasks when this one runs: everything but its spread constraints."""
        return self if self._without_spread is None else self._without_spread

    @property
    def terms(self) -> tuple[AffinityTerm, ...]:
        """Every term of affinity and anti-affinity, required and preferred."""
        return (*self.affinity, *self.anti_affinity, *(term for _, term in self.preferred))

    @property
    def attracting(self) -> AnySelector | None:
        """Selects the tasks that satisfy the required affinity: those that all terms select. None
        without required affinity."""
        selectors = tuple(dict.fromkeys(each.selector for each in self.affinity))
        if not selectors:
            return None
        return selectors[0] if len(selectors) == 1 else AllSelectors(selectors)

    @property
    def selectors(self) -> tuple[AnySelector, ...]:
        """Every selector that the relations name, some of them more than once."""
        named = (*(term.selector for term in self.terms), *(each.selector for each in self.spread))
        return named if self.attracting is None else (*named, self.attracting)

    @property
    def is_required(self) -> bool:
        """Whether any part is a requirement, not only a preference."""
        return bool(self.affinity or self.anti_affinity) or any(s.required for s in self.spread)


NO_RELATIONS = Relations()
