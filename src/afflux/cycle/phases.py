"""The states of a group as people see them; apart, so that a command line knows them at once."""

from typing import Literal, get_args

Phase = Literal[
    "provisional", "refused", "waiting", "unsatisfiable", "starting", "running", "finished"
]
PHASES: tuple[Phase, ...] = get_args(Phase)
# All of a group that is there.
PRESENT = PHASES[:-1]
# Those whom the queue shows if nobody says otherwise.
NOT_RUNNING = PHASES[:-2]
