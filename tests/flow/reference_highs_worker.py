"""Minimum costs by HiGHS: problems as one pickle in, a list of costs or None as JSON out.

HiGHS lives in a process of its own, because it cannot be loaded beside OR-Tools.
"""

import json
import pickle
import sys

import highspy
import numpy as np


def least_cost(columns: tuple[np.ndarray, ...]) -> int | None:
    supply, tail, head, lower, capacity, cost = columns
    # A loop does not change the balance of its node; HiGHS refuses two entries in one row.
    loop = tail == head
    fixed = int((cost * np.where(cost < 0, capacity, lower))[loop].sum())
    tail, head, lower, capacity, cost = (
        column[~loop] for column in (tail, head, lower, capacity, cost)
    )
    arcs = len(tail)
    if not arcs:
        return None if supply.any() else fixed
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = arcs, len(supply)
    model.col_cost_ = cost.astype(float)
    model.col_lower_, model.col_upper_ = lower.astype(float), capacity.astype(float)
    model.row_lower_ = model.row_upper_ = supply.astype(float)
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = np.arange(0, 2 * arcs + 1, 2)
    model.a_matrix_.index_ = np.stack([tail, head], 1).ravel()
    model.a_matrix_.value_ = np.tile([1.0, -1.0], arcs)
    highs = highspy.Highs()
    highs.silent()
    highs.setOptionValue("threads", 1)
    highs.passModel(model)
    highs.run()
    status = highs.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        return None
    if status != highspy.HighsModelStatus.kOptimal:
        raise RuntimeError(str(status))
    flow = np.rint(highs.getSolution().col_value).astype(np.int64)
    return fixed + sum(c * f for c, f in zip(cost.tolist(), flow.tolist(), strict=True))


if __name__ == "__main__":
    # The pickle comes from the test that started this process.
    problems = pickle.load(sys.stdin.buffer)  # noqa: S301
    print(json.dumps([least_cost(columns) for columns in problems]))
