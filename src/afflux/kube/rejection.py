"""Why a pod is not bound to the node of its placement."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a placement is not bound. The pod can be decided again at once if there is no reason, or
    with `decide_again`; otherwise it waits for a while."""

    reason: str = ""
    decide_again: bool = False


DECIDE_AGAIN = Rejection()
