"""The classes of the groups of a pass, and which of them need a search."""

from collections import Counter
from collections.abc import Iterable

from afflux.cluster.relation_index import RelationIndex, relations_of
from afflux.cluster.task_class import Counted, TaskClass
from afflux.model.waiting_group import WaitingGroup

# The classes of a group, each with its number of members.
ClassCounts = tuple[tuple[TaskClass, int], ...]


class GroupClasses:
    """The classes of groups, kept for one pass. `groups` are those that the pass may ask about:
    their constraints are in use from now on."""

    def __init__(self, relations: RelationIndex, groups: Iterable[WaitingGroup] = ()) -> None:
        relations.use(relations_of(groups))
        self._relations = relations
        self._counts: dict[str, ClassCounts] = {}
        self._has_rules: dict[TaskClass, bool] = {}
        self._subjects: dict[TaskClass, frozenset[Counted]] = {}
        self.class_of = relations.class_of

    def of(self, group: WaitingGroup) -> ClassCounts:
        """The classes of a group."""
        if not self._relations:
            return tuple((TaskClass(shape), count) for shape, count in group.shapes)
        counts = self._counts.get(group.key)
        if counts is None:
            counts = tuple(Counter(map(self.class_of, group.tasks)).items())
            self._counts[group.key] = counts
        return counts

    def has_rules(self, group: WaitingGroup) -> bool:
        """Whether constraints between tasks, its own or those of others, may refuse the group a
        machine: such a group cannot be counted."""
        return bool(self._relations) and any(map(self.may_be_refused, self.classes(group)))

    def is_related(self, group: WaitingGroup) -> bool:
        """Whether constraints between tasks concern the group in any way."""
        return bool(self._relations) and any(
            each.selected_by or each.shape.relations.is_required for each in self.classes(group)
        )

    def concerns(self, group: WaitingGroup, others: Iterable[WaitingGroup]) -> bool:
        """Whether a rule of the other groups counts tasks of this one."""
        if not self._relations:
            return False
        counted = {each for of in self.classes(group) for each in of.counted_as}
        looked_at = (self._looks_at(of) for other in others for of in self.classes(other))
        return any(not counted.isdisjoint(each) for each in looked_at)

    def _looks_at(self, of: TaskClass) -> frozenset[Counted]:
        """What the rules of a class count."""
        found = self._subjects.get(of)
        if found is None:
            relations, number = of.shape.relations, self._relations.selector_id
            terms = (*relations.affinity, *relations.anti_affinity)
            named = [term.selector for term in terms]
            named += [each.selector for each in relations.spread if each.required]
            named += [] if relations.attracting is None else [relations.attracting]
            repelling = self._relations.terms_selecting(of.selected_by)
            subjects = {*map(number, named), *(each for each in repelling if each.weight is None)}
            found = self._subjects[of] = frozenset(subjects)
        return found

    def classes(self, group: WaitingGroup) -> Iterable[TaskClass]:
        """The classes of a group, without their numbers."""
        return (each for each, _ in self.of(group))

    def may_be_refused(self, of: TaskClass) -> bool:
        """Whether the class has a constraint, or required anti-affinity of others selects it."""
        found = self._has_rules.get(of)
        if found is None:
            repelled = (
                each.weight is None for each in self._relations.terms_selecting(of.selected_by)
            )
            found = of.shape.relations.is_required or any(repelled)
            self._has_rules[of] = found
        return found
