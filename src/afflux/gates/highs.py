"""HiGHS as a process: a program on standard input, what it found as JSON on standard output.

    python -m afflux.gates.highs SECONDS GAP_PPM

It has a process to itself because it cannot be loaded beside OR-Tools, because it cannot be stopped
from outside at any moment otherwise, and because a crash must not be ours.
"""

import json
import math
import sys

import highspy
import numpy as np

from afflux.gates.program import Program


def solve(program: Program, seconds: float, gap_ppm: int) -> dict[str, object]:
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
        "time_limit": seconds,
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


if __name__ == "__main__":
    asked = Program.from_bytes(sys.stdin.buffer.read())
    print(json.dumps(solve(asked, float(sys.argv[1]), int(sys.argv[2]))))
