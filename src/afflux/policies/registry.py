"""Policies by name, from entry points `afflux.policies` of this and other packages."""

import inspect
from collections.abc import Mapping
from importlib.metadata import entry_points

from afflux.model.errors import InputError
from afflux.policies.cordon import Cordon
from afflux.policies.image_locality import ImageLocality
from afflux.policies.node_affinity import NodeAffinity
from afflux.policies.policy import Policy
from afflux.policies.taints import Taints
from afflux.policies.volume_reachability import VolumeReachability

GROUP = "afflux.policies"


def constraints() -> tuple[Policy, ...]:
    """The policies that are always on: constraints in kube-scheduler's order, image locality."""
    return (Cordon(), Taints(), NodeAffinity(), VolumeReachability(), ImageLocality())


def policy_names() -> list[str]:
    """Every policy that can be named in the configuration."""
    return sorted(point.name for point in entry_points(group=GROUP))


def make_policy(name: str, arguments: Mapping[str, object], where: str) -> Policy:
    """The policy of this name with these arguments; errors begin with `where`."""
    found = [point for point in entry_points(group=GROUP) if point.name == name]
    if not found:
        known = ", ".join(policy_names())
        raise InputError(f"{where}: unknown policy {name!r}; expected one of {known}")
    try:
        factory = found[0].load()
    except Exception as error:
        raise InputError(f"{where}: policy {name} cannot be loaded: {error}") from error
    if not (inspect.isclass(factory) and issubclass(factory, Policy)):
        raise InputError(f"{where}: policy {name} is {factory!r}; expected a class of policies")
    parameters = inspect.signature(factory).parameters
    for key, value in arguments.items():
        if key not in parameters:
            expected = ", ".join(parameters) or "no arguments"
            raise InputError(f"{where}: policy {name} has no argument {key!r}; expected {expected}")
        default = parameters[key].default
        if isinstance(default, int) and (type(value) is not int or value < 0):
            raise InputError(
                f"{where}: policy {name}, argument {key}: {value!r}; expected an integer >= 0"
            )
    try:
        return factory(**arguments)
    except InputError as error:
        raise InputError(f"{where}: policy {name}, argument {error}") from error
