"""Sets of nodes described by labels, as volumes and storage classes describe them.

None is the set of all nodes. Otherwise a node belongs to the set if it matches one of the terms, so
that an empty tuple is the empty set. Terms are merged and sorted: thousands of volumes on one node
each make a single term, and equal sets are equal values.
"""

from collections.abc import Iterable, Mapping

from afflux.kube import objects
from afflux.kube.node_constraints import (
    ConstraintError,
    label_requirement,
    requirement_key,
    selector_term,
    sorted_terms,
)
from afflux.model.selectors import Requirement, Term

NodeSet = tuple[Term, ...] | None

EVERYWHERE: NodeSet = None
NOWHERE: NodeSet = ()

_ZONE = "topology.kubernetes.io/zone"
_REGION = "topology.kubernetes.io/region"
_BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
_BETA_REGION = "failure-domain.beta.kubernetes.io/region"
_TOPOLOGY_LABELS = (_BETA_ZONE, _BETA_REGION, _ZONE, _REGION)
_SUCCESSORS = {_BETA_ZONE: _ZONE, _BETA_REGION: _REGION}
_BETWEEN_ZONES = "__"
_OWN_NAME = "metadata.name"
HOSTNAME = "kubernetes.io/hostname"


def contains(node_set: NodeSet, name: str, labels: Mapping[str, str]) -> bool:
    return node_set is None or any(term.matches(name, labels) for term in node_set)


def only(node: str) -> NodeSet:
    return (Term(names=(Requirement(_OWN_NAME, "In", (node,)),)),)


def sole_host(node_set: NodeSet) -> str | None:
    """The hostname if the set is one host, else None."""
    if node_set is None or len(node_set) != 1:
        return None
    for each in node_set[0].labels:
        if each.key == HOSTNAME and each.operator == "In" and len(each.values) == 1:
            return each.values[0]
    return None


def union(node_sets: Iterable[NodeSet]) -> NodeSet:
    found = list(dict.fromkeys(node_set for node_set in node_sets if node_set != NOWHERE))
    if len(found) == 1:
        return found[0]
    terms: list[Term] = []
    for node_set in found:
        if node_set is None:
            return None
        terms += node_set
    return _compact(terms)


def intersection(one: NodeSet, other: NodeSet) -> NodeSet:
    if one is None or other is None:
        return other if one is None else one
    return _compact([both for a in one for b in other if (both := _conjunction(a, b)) is not None])


def affinity_node_set(stated: objects.VolumeNodeAffinity | None) -> NodeSet:
    """The nodes that can reach a volume. As in kube-scheduler, only labels count: a term that asks
    for the name of a node matches no node. Neither does an invalid term."""
    if stated is None or stated.required is None:
        return EVERYWHERE
    terms: list[Term] = []
    for number, written in enumerate(stated.required.node_selector_terms or ()):
        try:
            term = selector_term(written, f"nodeSelectorTerms[{number}]")
        except ConstraintError:
            continue
        if term is None or not all(requirement.accepts("") for requirement in term.names):
            continue
        if not term.labels:
            return EVERYWHERE
        terms.append(Term(term.labels))
    return _compact(terms)


def selector_node_set(selector: objects.LabelSelector | None) -> NodeSet:
    """The nodes that a label selector matches: none without one, all with an empty one."""
    if selector is None:
        return NOWHERE
    stated = selector.match_labels or {}
    labels = {Requirement(key, "In", (value,)) for key, value in stated.items()}
    try:
        labels.update(label_requirement(e, e.key) for e in selector.match_expressions or ())
    except ConstraintError:
        return NOWHERE
    return (Term(_ordered(labels)),) if labels else EVERYWHERE


def topology_node_set(stated: Iterable[objects.TopologyTerm] | None) -> NodeSet:
    """The nodes for which a storage class may provision volumes; all if it does not say."""
    if not stated:
        return EVERYWHERE
    terms: list[Term] = []
    for term in stated:
        if term.match_label_expressions:
            listed = {_in(each.key, each.values or ()) for each in term.match_label_expressions}
            terms.append(Term(_ordered(listed)))
    return _compact(terms)


def zone_node_sets(labels: Mapping[str, str]) -> list[NodeSet]:
    """The node sets in which the zone labels of a volume allow its use; all of them apply.

    Nodes without any of these labels belong to each set. A beta label of the volume also matches
    the stable label of a node without the beta label.
    """
    unlabelled = Term(tuple(Requirement(key, "DoesNotExist") for key in sorted(_TOPOLOGY_LABELS)))
    node_sets: list[NodeSet] = []
    for key in _TOPOLOGY_LABELS:
        zones = [zone.strip() for zone in labels.get(key, "").split(_BETWEEN_ZONES)]
        if not all(zones):
            continue
        allowed = tuple(sorted(set(zones)))
        terms = [unlabelled, Term((Requirement(key, "In", allowed),))]
        if (successor := _SUCCESSORS.get(key)) is not None:
            instead = (Requirement(key, "DoesNotExist"), Requirement(successor, "In", allowed))
            terms.append(Term(_ordered(instead)))
        node_sets.append(_compact(terms))
    return node_sets


def _compact(terms: Iterable[Term]) -> tuple[Term, ...]:
    """The same nodes with fewer terms: terms that list values of one label are merged."""
    kept: set[Term] = set()
    labels: dict[str, set[str]] = {}
    names: set[str] = set()
    for term in terms:
        (first, *others) = (*term.labels, *term.names)
        if others or first.operator != "In":
            kept.add(term)
        elif term.labels:
            labels.setdefault(first.key, set()).update(first.values)
        else:
            names.update(first.values)
    kept.update(Term((_in(key, values),)) for key, values in labels.items())
    if names:
        kept.add(Term(names=(_in(_OWN_NAME, names),)))
    return sorted_terms(kept)


def _conjunction(one: Term, other: Term) -> Term | None:
    """A term that is the conjunction of both; None if no node can match it."""
    labels = _merged({*one.labels, *other.labels})
    names = _merged({*one.names, *other.names})
    return None if labels is None or names is None else Term(labels, names)


def _merged(requirements: set[Requirement]) -> tuple[Requirement, ...] | None:
    listed: dict[str, set[str]] = {}
    rest: set[Requirement] = set()
    for requirement in requirements:
        if requirement.operator == "In":
            values = listed.setdefault(requirement.key, set(requirement.values))
            values.intersection_update(requirement.values)
        else:
            rest.add(requirement)
    if not all(listed.values()):
        return None
    rest.update(_in(key, values) for key, values in listed.items())
    return _ordered(rest)


def _in(key: str, values: Iterable[str]) -> Requirement:
    return Requirement(key, "In", tuple(sorted(set(values))))


def _ordered(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    return tuple(sorted(requirements, key=requirement_key))
