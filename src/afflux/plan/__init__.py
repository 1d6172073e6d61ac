"""Planning a round: from a flow to placements that fit exactly, whole groups only.

`round` runs the steps: preselect, route by flow, accept what fits, route the rest, repack.
`waiting_demand` counts what waits, `book` is the exact account of free capacity during a round,
`preselection` chooses which tasks go first when not all fit, `gangs` places a whole group,
`repack` improves the packing by search, `check` verifies the finished plan independently of how it
was made, `explain` says why a task waits.
"""
