"""Planning a round: from a flow to placements that fit exactly, whole groups only.

`round` runs the steps: preselect, route by flow, accept what fits, route the rest, repack; its
result is a `plan`.
`waiting_demand` counts what waits, `book` is the exact account of free capacity during a round,
`preselection` chooses which tasks go first when not all fit, `repack` improves the packing by
search, `check` verifies the finished plan independently of how it was made, `explain` says why a
task waits.

Constraints between tasks: `domain_rules` are what classes require of the tasks around them,
`soft_terms` what they prefer; `domain_caps` and `rising_costs` guide the flow by them, `settle`
routes classes again that depend on each other, `related_tasks` places tasks that require each other
and judges the end of the round. `binding_order` says which placement has to be bound before which,
`standing_violations` which running tasks do not meet their requirements any more.
"""
