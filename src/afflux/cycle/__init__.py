"""The scheduling cycle: from events to placements.

`loop` has the nine steps. `events` are its inputs, `event_intake` applies them, `depth_rotation`
selects the groups that one cycle examines, `fault_isolation` quarantines groups that make decisions
fail, `reservations` follows reservations from cycle to cycle, `optimiser` is the scheduler,
`decision` what it answers, and
`interfaces` what a scheduler and a ledger have to offer. `inspection_types` are the values that
users see, with the states of `groups.states`.
Not here: any policy or search, nor a clock, a network or a database.
"""
