"""The states of a group and of a member, as the ledger stores them and people see them.

In a module of its own, so that the command line need not import the rest.
"""

from dataclasses import dataclass
from typing import Literal, get_args

# provisional: some of its members are missing. refused: what they declare about it contradicts
# itself. waiting: in the queue. unsatisfiable: in the queue, but too large for the empty cluster.
# starting: decided, and being bound. running: bound. finished: it has left the cluster.
GroupState = Literal[
    "provisional", "refused", "waiting", "unsatisfiable", "starting", "running", "finished"
]
GROUP_STATES: tuple[GroupState, ...] = get_args(GroupState)
# The states of a group that has not left.
PRESENT_STATES = GROUP_STATES[:-1]

# How a member, or a group, ended. succeeded, failed: by itself. deadline: it was stopped at its
# deadline. rejected: its machine did not take it. deleted: all else.
EndReason = Literal["succeeded", "failed", "deadline", "deleted", "rejected"]


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """How and when, in seconds since 1970, a task ended."""

    task_id: str
    how: EndReason
    at_seconds: float
