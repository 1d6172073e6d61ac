"""Why constraints between tasks refuse a waiting task: by machine, and which tasks it misses."""

from collections.abc import Mapping

import numpy as np

from afflux.cluster.machines import BoolColumn
from afflux.cluster.state import State
from afflux.cluster.task_class import TaskClass
from afflux.model import reason
from afflux.model.relations import AnySelector, TaskSelector
from afflux.model.selectors import Requirement
from afflux.plan.domain_rules import DomainRules

# The longest text of a selector in a sentence.
MAX_SELECTOR_CHARACTERS = 200


def refusals_by_relations(state: State, of: TaskClass) -> list[tuple[str, BoolColumn]]:
    """Reasons, each with the machines that it refuses; one reason for a machine.

    They come in kube-scheduler's order: spread, the task's affinity, its anti-affinity, and the
    anti-affinity of running tasks. Of several constraints of one kind the first that refuses
    counts.
    """
    rules = DomainRules(state, [of])
    if not rules:
        return []
    refused = rules.account().rule_refusals(0)
    left = np.ones(len(state), bool)
    found: list[tuple[str, BoolColumn]] = []
    for index, rule in enumerate(rules.classes[0].rules):
        against = refused[:, index] & left
        left &= ~against
        if rule.reason == reason.SPREAD:
            has_key = rules.domains_of(rule.counters[0]) >= 0
            found.append((reason.SPREAD_KEY, against & ~has_key))
            against = against & has_key
        found.append((rule.reason, against))
    return found


def missing_company(state: State, of: TaskClass, waiting: Mapping[int, int]) -> str:
    """A sentence for a task whose required affinity no running task satisfies, else nothing.

    `waiting` has the number of waiting tasks that each selector selects.
    """
    relations = of.shape.relations
    if (attracting := relations.attracting) is None:
        return ""
    number = state.relations.selector_id(attracting)
    if number in of.selected_by or state.relations.selected.on_rows(number):
        return ""
    keys = " and ".join(dict.fromkeys(term.topology_key for term in relations.affinity))
    waits = waiting.get(number, 0)
    others = f"{waits} wait{'s' if waits == 1 else ''}" if waits else "none waits"
    return (
        f" It requires a pod that matches {_selector_text(attracting)} in the same {keys}: "
        f"none runs, {others}."
    )


def _selector_text(selector: AnySelector) -> str:
    """The labels that a selector asks for, as kubectl writes them."""
    selectors = (selector,) if isinstance(selector, TaskSelector) else selector.selectors
    asked = dict.fromkeys(each for one in selectors for each in one.labels or ())
    if any(each.labels is None for each in selectors):
        return "nothing"
    text = ",".join(map(_requirement_text, asked)) or "any labels"
    if len(text) > MAX_SELECTOR_CHARACTERS:
        return f"{text[: MAX_SELECTOR_CHARACTERS - 3]}..."
    return text


def _requirement_text(requirement: Requirement) -> str:
    key, values = requirement.key, requirement.values
    match requirement.operator:
        case "Exists":
            return key
        case "DoesNotExist":
            return f"!{key}"
        case "In" | "NotIn" if len(values) == 1:
            return f"{key}{'=' if requirement.operator == 'In' else '!='}{values[0]}"
        case "In" | "NotIn":
            word = "in" if requirement.operator == "In" else "notin"
            return f"{key} {word} ({','.join(values)})"
        case "Gt" | "Lt":
            return f"{key}{'>' if requirement.operator == 'Gt' else '<'}{values[0]}"
