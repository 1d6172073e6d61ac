"""Configuration: which policies with which weights and arguments, and which strategy.

    apiVersion: afflux.dev/v1alpha1
    kind: AffluxConfiguration
    strategy: flow
    policies:
      - name: cpu-memory
        weight: 2
        args: {omega: 1000}

On the command line a scheduler is named POLICY[+POLICY...][@STRATEGY].
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from afflux.kube.yaml_events import documents
from afflux.model.errors import InputError

DEFAULT_POLICY = "cpu-memory"
DEFAULT_STRATEGY = "flow"


class PolicySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One policy: its name, how much it counts, its arguments."""

    name: str
    weight: int = 1
    args: dict[str, object] = {}


class _File(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"api_version": "apiVersion"}
):
    api_version: Literal["afflux.dev/v1alpha1"]
    kind: Literal["AffluxConfiguration"]
    policies: tuple[PolicySettings, ...] = (PolicySettings(DEFAULT_POLICY),)
    strategy: str = DEFAULT_STRATEGY


@dataclass(frozen=True, slots=True)
class Settings:
    """What a scheduler is made of; `origin` is where it was asked for, for messages."""

    origin: str
    policies: tuple[PolicySettings, ...] = (PolicySettings(DEFAULT_POLICY),)
    strategy: str = DEFAULT_STRATEGY


def parse_spec(text: str, origin: str, strategy: str = DEFAULT_STRATEGY) -> Settings:
    """The settings that POLICY[+POLICY...][@STRATEGY] stands for."""
    names, _, wanted = text.partition("@")
    policies = tuple(PolicySettings(name.strip()) for name in names.split("+"))
    return Settings(origin, policies, wanted or strategy)


def read_settings(path: str) -> Settings:
    """The settings in a configuration file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    try:
        values = list(documents(text))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if len(values) != 1:
        raise InputError(f"{path}: {len(values)} documents; expected one AffluxConfiguration")
    try:
        file = msgspec.convert(values[0], _File)
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: {error}") from None
    for number, policy in enumerate(file.policies):
        if policy.weight < 0:
            raise InputError(
                f"{path}: policies[{number}].weight: {policy.weight}; expected an integer >= 0"
            )
    return Settings(path, file.policies, file.strategy)
