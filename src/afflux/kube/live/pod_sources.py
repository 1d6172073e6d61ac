"""What kind of pods a controller makes, read from its specification, and whether it confirms what
a pod claims.

A controller of Kubernetes has one pod template, in `spec.template`, and a selector of its pods. A
custom controller may have several templates, at any place in `spec`: everything there that has a
specification with containers counts. Pure.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

import msgspec

from afflux.kube import objects
from afflux.kube.input_errors import shown
from afflux.kube.label_selectors import selects
from afflux.kube.pod_claims import TERM_NAMES, PodClaims, PodTerms, TemplateSpec, pod_terms

# Templates of real custom controllers are at most half as deep.
MAX_TEMPLATE_DEPTH = 16


@dataclass(frozen=True, slots=True)
class PodSource:
    """The terms of the pod templates of a controller. `selector` is None if the kind has none that
    is known; `is_suspended`: the controller makes no pods at present."""

    templates: tuple[PodTerms, ...] = ()
    selector: objects.LabelSelector | None = None
    is_suspended: bool = False

    def objection(self, name: str, claims: PodClaims) -> str | None:
        """Why the controller of this name does not confirm these claims; None if it does."""
        if not self.templates:
            return f"{name} has no pod template"
        if claims.terms not in self.templates:
            return f"the pod template of {name} does not have {self._difference(claims.terms)}"
        if self.selector is not None and not selects(self.selector, claims.labels):
            return f"the selector of {name} does not select it"
        return f"{name} is suspended" if self.is_suspended else None

    def _difference(self, terms: PodTerms) -> str:
        """The first of these terms that no template has, or that the first template has not."""
        for index, (name, value) in enumerate(zip(TERM_NAMES, terms, strict=True)):
            if all(template[index] != value for template in self.templates):
                return f"{name}: {_written(value)}"
        return "these terms together"


class _Template(objects.Fields, frozen=True, gc=False):
    metadata: objects.Metadata = objects.Metadata()
    spec: TemplateSpec = TemplateSpec()


class _Spec(objects.Fields, frozen=True, gc=False):
    template: _Template | None = None
    # A LabelSelector, or the labels themselves in a ReplicationController.
    selector: msgspec.Raw = msgspec.Raw(b"null")
    suspend: bool | None = None


def built_in_source(spec: msgspec.Raw, *, has_plain_selector: bool) -> PodSource:
    """The pods of a controller of Kubernetes; msgspec.MsgspecError if it is malformed."""
    found = msgspec.json.decode(spec, type=_Spec)
    if has_plain_selector:
        labels = msgspec.json.decode(found.selector, type=objects.Labels | None)
        selector = objects.LabelSelector(match_labels=labels or {})
    else:
        selector = msgspec.json.decode(found.selector, type=objects.LabelSelector | None)
    templates = () if found.template is None else (_terms(found.template),)
    return PodSource(templates, selector, bool(found.suspend))


def custom_source(spec: msgspec.Raw) -> PodSource:
    """The pods of a custom controller."""
    found: object = msgspec.json.decode(spec)
    if not isinstance(found, dict):
        return PodSource()
    fields = cast("dict[str, object]", found)
    templates = tuple(_templates(fields, MAX_TEMPLATE_DEPTH))
    return PodSource(templates, is_suspended=fields.get("suspend") is True)


def _templates(value: object, depth: int) -> Iterator[PodTerms]:
    if depth == 0:
        return
    if isinstance(value, list):
        for each in cast("list[object]", value):
            yield from _templates(each, depth - 1)
    elif isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        if _has_containers(fields.get("spec")):
            with suppress(msgspec.ValidationError):
                yield _terms(msgspec.convert(fields, _Template))
        for each in fields.values():
            yield from _templates(each, depth - 1)


def _has_containers(spec: object) -> bool:
    return isinstance(spec, Mapping) and bool(cast("Mapping[str, object]", spec).get("containers"))


def _terms(template: _Template) -> PodTerms:
    return pod_terms(template.metadata.labels or {}, template.spec)


def _written(value: str | int | None) -> str:
    return "none" if value is None else shown(value)
