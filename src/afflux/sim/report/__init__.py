"""A simulation as one HTML page: schedulers side by side on the same workload.

One file per section of the page, each with a function that draws it as inline SVG; `page` puts
them together. The page asks nothing of the network and is complete without its script. Not here:
any figure of its own; what can be measured is in `metrics` and `columns`.
"""

from afflux.sim.report.page import render, write_report

__all__ = ["render", "write_report"]
