"""Regions: sets of nodes described by their labels, as volumes and storage classes describe them.

None is every node; otherwise a node belongs to a region if it matches one of the terms, so that no
terms are no node. Terms are kept few and in one order: thousands of disks that are each on one
node make a single term, and equal regions are equal values.
"""

from collections.abc import Iterable, Mapping

from afflux.kube import objects
from afflux.kube.node_affinity import (
    UnusableError,
    label_requirement,
    requirement_key,
    selector_term,
    sorted_terms,
)
from afflux.model.selectors import Requirement, Term

Region = tuple[Term, ...] | None

EVERYWHERE: Region = None
NOWHERE: Region = ()

_ZONE = "topology.kubernetes.io/zone"
_REGION = "topology.kubernetes.io/region"
_BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
_BETA_REGION = "failure-domain.beta.kubernetes.io/region"
_TOPOLOGY_LABELS = (_BETA_ZONE, _BETA_REGION, _ZONE, _REGION)
_SUCCESSORS = {_BETA_ZONE: _ZONE, _BETA_REGION: _REGION}
_BETWEEN_ZONES = "__"
_OWN_NAME = "metadata.name"
HOSTNAME = "kubernetes.io/hostname"


def contains(region: Region, name: str, labels: Mapping[str, str]) -> bool:
    """Whether a node of this name with these labels belongs to the region."""
    return region is None or any(term.matches(name, labels) for term in region)


def only(node: str) -> Region:
    """The region of a single node."""
    return (Term(names=(Requirement(_OWN_NAME, "In", (node,)),)),)


def sole_host(region: Region) -> str | None:
    """The hostname of the one machine that a region is; None if it may be several."""
    if region is None or len(region) != 1:
        return None
    for each in region[0].labels:
        if each.key == HOSTNAME and each.operator == "In" and len(each.values) == 1:
            return each.values[0]
    return None


def union(regions: Iterable[Region]) -> Region:
    """The nodes of any of the regions."""
    found = list(dict.fromkeys(region for region in regions if region != NOWHERE))
    if len(found) == 1:
        return found[0]
    terms: list[Term] = []
    for region in found:
        if region is None:
            return None
        terms += region
    return _compact(terms)


def intersection(one: Region, other: Region) -> Region:
    """The nodes of both regions."""
    if one is None or other is None:
        return other if one is None else one
    return _compact([both for a in one for b in other if (both := _together(a, b)) is not None])


def node_affinity_region(stated: objects.VolumeNodeAffinity | None) -> Region:
    """Where a volume can be reached from.

    Only labels count: kube-scheduler does not tell the volume the node's name, so that a term
    which asks for one matches no node. What cannot be understood matches none either.
    """
    if stated is None or stated.required is None:
        return EVERYWHERE
    terms: list[Term] = []
    for number, written in enumerate(stated.required.node_selector_terms or ()):
        try:
            term = selector_term(written, f"nodeSelectorTerms[{number}]")
        except UnusableError:
            continue
        if term is None or not all(requirement.accepts("") for requirement in term.names):
            continue
        if not term.labels:
            return EVERYWHERE
        terms.append(Term(term.labels))
    return _compact(terms)


def selected_region(selector: objects.LabelSelector | None) -> Region:
    """The nodes that a label selector matches: none without one, all with an empty one."""
    if selector is None:
        return NOWHERE
    labels = {
        Requirement(key, "In", (value,)) for key, value in (selector.match_labels or {}).items()
    }
    try:
        labels.update(label_requirement(e, e.key) for e in selector.match_expressions or ())
    except UnusableError:
        return NOWHERE
    return (Term(_ordered(labels)),) if labels else EVERYWHERE


def topology_region(stated: Iterable[objects.TopologyTerm] | None) -> Region:
    """Where a storage class may make volumes; anywhere if it does not say."""
    if not stated:
        return EVERYWHERE
    return _compact(
        [
            Term(
                _ordered(
                    {
                        Requirement(each.key, "In", tuple(sorted(set(each.values or ()))))
                        for each in term.match_label_expressions
                    }
                )
            )
            for term in stated
            if term.match_label_expressions
        ]
    )


def zone_regions(labels: Mapping[str, str]) -> list[Region]:
    """Where the zone labels of a volume allow it to be used: in each of these regions.

    A node without any such label is in a cluster of one zone. An old label of the volume is met by
    the new one of a node that has no old one.
    """
    unlabelled = Term(tuple(Requirement(key, "DoesNotExist") for key in sorted(_TOPOLOGY_LABELS)))
    regions: list[Region] = []
    for key in _TOPOLOGY_LABELS:
        zones = [zone.strip() for zone in labels.get(key, "").split(_BETWEEN_ZONES)]
        if not all(zones):
            continue
        allowed = tuple(sorted(set(zones)))
        terms = [unlabelled, Term((Requirement(key, "In", allowed),))]
        if (successor := _SUCCESSORS.get(key)) is not None:
            instead = (Requirement(key, "DoesNotExist"), Requirement(successor, "In", allowed))
            terms.append(Term(_ordered(instead)))
        regions.append(_compact(terms))
    return regions


def _compact(terms: Iterable[Term]) -> tuple[Term, ...]:
    """The same nodes by fewer terms: those that only list values of one label become one."""
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
    kept.update(
        Term((Requirement(key, "In", tuple(sorted(values))),)) for key, values in labels.items()
    )
    if names:
        kept.add(Term(names=(Requirement(_OWN_NAME, "In", tuple(sorted(names))),)))
    return sorted_terms(kept)


def _together(one: Term, other: Term) -> Term | None:
    """A term for both; None if no node can match it."""
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
    rest.update(Requirement(key, "In", tuple(sorted(v))) for key, v in listed.items())
    return _ordered(rest)


def _ordered(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    return tuple(sorted(requirements, key=requirement_key))
