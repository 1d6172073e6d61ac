"""HiGHS as a process: an integer program on standard input, the answer as JSON on standard output.

    python -m afflux.gates.highs_worker DEADLINE GAP_PPM

The deadline is a time of the monotonic clock. HiGHS has a process of its own because it cannot be
loaded beside OR-Tools, because only a process can be stopped at any moment, and because a crash of
HiGHS must not end the scheduler. The process ends with its parent, and soon after its deadline.
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

from afflux.gates.integer_program import IntegerProgram

# The share of the time that HiGHS may use; the rest is for stopping and for the answer.
TIME_LIMIT_SHARE = 0.9

_PR_SET_PDEATHSIG = 1


def solve(program: IntegerProgram, deadline: float, gap_ppm: int) -> dict[str, object]:
    """The gates to open, and a lower bound; None for what HiGHS does not find in time."""
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
        "time_limit": TIME_LIMIT_SHARE * max(deadline - time.monotonic(), 0.0),
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
    """End with the parent, limit the CPU time, write no core file."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    seconds = math.ceil(max(deadline - time.monotonic(), 0.0)) + 5
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    deadline, gap_ppm = float(sys.argv[1]), int(sys.argv[2])
    _limit(deadline)
    asked = IntegerProgram.from_bytes(sys.stdin.buffer.read())
    print(json.dumps(solve(asked, deadline, gap_ppm)))


if __name__ == "__main__":
    main()
