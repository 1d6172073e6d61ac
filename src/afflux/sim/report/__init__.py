"""The HTML report of a simulation: schedulers side by side on the same workload.

Each section of the page has its own file with a function that draws it as inline SVG; `page`
combines them. The page loads nothing from the network and is complete without its script. Not here:
metrics, which are computed in `sim/metrics.py` and `sim/result_columns.py`.
"""

from afflux.sim.report.page import render, write_report

__all__ = ["render", "write_report"]
