"""Solves integer programs, one JSON line in and one out, until its input ends.

HiGHS lives in this process alone: ortools and highspy cannot be loaded into the same one.
"""

import json
import sys

import highspy
import numpy as np


def solve(program: dict) -> dict:
    model = highspy.Highs()
    model.silent()
    model.setOptionValue("threads", 1)
    model.setOptionValue("time_limit", program["seconds"])
    model.setOptionValue("mip_rel_gap", 0.0)
    model.setOptionValue("mip_abs_gap", 0.5)
    for index, (low, high, cost) in enumerate(program["columns"]):
        model.addVar(low, high)
        model.changeColIntegrality(index, highspy.HighsVarType.kInteger)
        model.changeColCost(index, cost)
    for low, high, terms in program["rows"]:
        model.addRow(
            -highspy.kHighsInf if low is None else low,
            highspy.kHighsInf if high is None else high,
            len(terms),
            np.array([index for index, _ in terms], np.int32),
            np.array([value for _, value in terms], np.float64),
        )
    model.run()
    status = model.getModelStatus()
    if status == highspy.HighsModelStatus.kOptimal:
        return {
            "status": "optimal",
            "value": model.getInfo().objective_function_value,
            "solution": list(model.getSolution().col_value),
        }
    if status == highspy.HighsModelStatus.kInfeasible:
        return {"status": "infeasible"}
    return {"status": str(status)}


for line in sys.stdin:
    print(json.dumps(solve(json.loads(line))), flush=True)
