"""Eviction terms: what has to be known of a running task before it may be evicted."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EvictionTerms:
    """A running task without terms is never evicted.

    `group` is the key of its group; with `whole_group` its tasks are evicted together or not at
    all. `controller` names what made the task and replaces it, empty if there is nothing.
    `started_seconds` is when it started; `grace_seconds` how long it may take to end. `budgets`
    are the names of the disruption budgets that it counts towards.
    """

    group: str
    priority: int = 0
    controller: str = ""
    started_seconds: float = 0.0
    grace_seconds: float = 0.0
    budgets: tuple[str, ...] = ()
    whole_group: bool = False
