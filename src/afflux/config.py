"""Configuration: which policies with which weights and arguments, and which strategy.

    apiVersion: afflux.dev/v1alpha1
    kind: AffluxConfiguration
    strategy: flow
    policies:
      - name: cpu-memory
        weight: 2
        args: {omega: 1000}

On the command line a scheduler is named POLICY[+POLICY...][@STRATEGY]. Whether there is a policy
or a strategy of that name is found out where it is made, not here.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import msgspec

from afflux.files import read_all
from afflux.kube.complaints import field_complaint, shown
from afflux.kube.yaml_events import Value, documents
from afflux.model.errors import InputError

DEFAULT_POLICY = "cpu-memory"
DEFAULT_STRATEGY = "flow"

# Costs are integers of 64 bits that add up over many tasks: what is larger could overflow them.
LARGEST_NUMBER = 10_000

API_VERSION = "afflux.dev/v1alpha1"
KIND = "AffluxConfiguration"

_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(?P<field>.*)`")


class PolicySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One policy: its name, how much it counts, its arguments."""

    name: str
    weight: int = 1
    args: dict[str, object] = {}


class _File(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"api_version": "apiVersion"}
):
    api_version: str
    kind: str
    policies: tuple[PolicySettings, ...] = (PolicySettings(DEFAULT_POLICY),)
    strategy: str = DEFAULT_STRATEGY


@dataclass(frozen=True, slots=True)
class Settings:
    """What a scheduler is made of; `origin` is where it was asked for, for messages."""

    origin: str
    policies: tuple[PolicySettings, ...] = (PolicySettings(DEFAULT_POLICY),)
    strategy: str = DEFAULT_STRATEGY


def parse_spec(text: str) -> Settings:
    """The settings that POLICY[+POLICY...][@STRATEGY] stands for."""
    origin = f"scheduler {text!r:.80}"
    names, at, strategy = text.partition("@")
    policies = tuple(PolicySettings(name) for name in names.split("+"))
    _refuse_twice(policies, origin)
    return Settings(origin, policies, strategy if at else DEFAULT_STRATEGY)


def read_settings(path: str) -> Settings:
    """The settings in a configuration file."""
    document = _only_document(path)
    try:
        file = msgspec.convert(document, _File)
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: {_complaint(error, document)}") from None
    for field, value, expected in (
        ("apiVersion", file.api_version, API_VERSION),
        ("kind", file.kind, KIND),
    ):
        if value != expected:
            raise InputError(f"{path}: {field}: {shown(value)}, expected {expected}")
    if not file.policies:
        raise InputError(f"{path}: policies: [], expected at least one")
    for number, policy in enumerate(file.policies):
        _check_number(policy.weight, f"{path}: policies[{number}].weight")
        for key, argument in policy.args.items():
            if isinstance(argument, int):
                _check_number(argument, f"{path}: policies[{number}].args.{key}")
    _refuse_twice(file.policies, path)
    return Settings(path, file.policies, file.strategy)


def _only_document(path: str) -> Value:
    try:
        with Path(path).open("rb") as file:
            text = read_all(file, path).decode("utf-8-sig")
    except InputError:
        raise
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8 text; expected YAML") from None
    except (OSError, ValueError) as error:  # ValueError: a name that no file system can hold
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise InputError(f"{path!r:.200}: {why}; expected a file that can be read") from None
    try:
        found = [value for value in documents(text) if value is not None]
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if len(found) != 1:
        raise InputError(f"{path}: {len(found)} documents; expected one {KIND}")
    return found[0]


def _complaint(error: msgspec.ValidationError, value: Value) -> str:
    """Which field has which value, and what was expected."""
    message, _, path = str(error).partition(" - at `$")
    unknown = _UNKNOWN_FIELD.fullmatch(message)
    if unknown is None:
        return field_complaint(error, msgspec.json.encode(value))
    place = path.removesuffix("`").removeprefix(".")
    known = PolicySettings if place else _File
    return (
        f"{place}{'.' if place else ''}{unknown['field']}: unknown field;"
        f" expected one of {', '.join(known.__struct_encode_fields__)}"
    )


def _check_number(number: int, where: str) -> None:
    if not 0 <= number <= LARGEST_NUMBER:
        raise InputError(
            f"{where}: {shown(number)}, expected a whole number from 0 to {LARGEST_NUMBER}"
        )


def _refuse_twice(policies: tuple[PolicySettings, ...], origin: str) -> None:
    names = [policy.name for policy in policies]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{origin}: policy {twice!r:.80} is named twice; expected each once")
