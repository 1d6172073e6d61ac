"""The incremental minimum-cost-flow solver against OR-Tools, on three shapes of networks.

`python -m bench.solver` runs a cold solve and a series of churn rounds of every shape, form, load
and size, each solved by both on the identical network. Here are a seeded generator (one file per
shape), the two solvers' sides and the report; the solver itself is in `crates/afflux-flow`.
"""
