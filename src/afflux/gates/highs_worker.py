"""HiGHS as a process: a program on standard input, what it found as JSON on standard output.

    python -m afflux.gates.highs DEADLINE GAP_PPM

The deadline is one of the monotonic clock. HiGHS has a process to itself because it cannot be
loaded beside OR-Tools, because it cannot be stopped from outside at any moment otherwise, and
because a crash must not be ours. The process ends with the one that asks, and soon after its time,
whatever happens.
"""

import ctypes
import json
import math
import resource
import signal
import sys
import time

import highspy
import numpy as np

from afflux.gates.program import Program

# The rest of the time is for HiGHS to notice that its time is up, and for the answer.
SHARE_OF_TIME = 0.9

_PR_SET_PDEATHSIG = 1


def solve(program: Program, deadline: float, gap_ppm: int) -> dict[str, object]:
    """Which gates to open, and a lower bound; None for what HiGHS does not know in time."""
    gates = int(program.gates[0])
    columns = len(program.cost)
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = columns, len(program.balance)
    model.offset_ = float(program.offset[0])
    model.col_cost_ = program.cost
    model.col_lower_, model.col_upper_ = program.lower, program.upper
    model.row_lower_ = model.row_upper_ = program.balance
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = program.start
    model.a_matrix_.index_ = program.row
    model.a_matrix_.value_ = program.entry
    flow = [highspy.HighsVarType.kContinuous] * (columns - gates)
    model.integrality_ = [highspy.HighsVarType.kInteger] * gates + flow
    highs = highspy.Highs()
    highs.silent()
    options = {
        "time_limit": SHARE_OF_TIME * max(deadline - time.monotonic(), 0.0),
        "threads": 1,
        "mip_rel_gap": gap_ppm / 1e6,
        # Costs are integers: a bound less than one below a choice proves it.
        "mip_abs_gap": 0.5,
    }
    for name, value in options.items():
        highs.setOptionValue(name, value)
    if highs.passModel(model) == highspy.HighsStatus.kError:
        raise ValueError("HiGHS refuses the program")
    known = highspy.HighsSolution()
    known.col_value = program.known.tolist()
    highs.setSolution(known)
    highs.run()
    found = highs.getInfo()
    is_open = None
    if found.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
        values = np.array(highs.getSolution().col_value[:gates])
        is_open = (values > 0.5).tolist()
    bound = found.mip_dual_bound
    return {
        "status": highs.modelStatusToString(highs.getModelStatus()),
        "open": is_open,
        "bound": bound if math.isfinite(bound) else None,
    }


def _limit(deadline: float) -> None:
    """Let nothing of this process be left behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    seconds = math.ceil(max(deadline - time.monotonic(), 0.0)) + 5
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Answer one program."""
    deadline, gap_ppm = float(sys.argv[1]), int(sys.argv[2])
    _limit(deadline)
    asked = Program.from_bytes(sys.stdin.buffer.read())
    print(json.dumps(solve(asked, deadline, gap_ppm)))


if __name__ == "__main__":
    main()
