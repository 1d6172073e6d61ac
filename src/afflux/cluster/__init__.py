"""The mirror of the world: machines, what runs on them, and columns over both for policies to read.

`State` changes by keyed events and by assumed placements; everything else reads it through
`Machines`, a view of any subset of rows. Not here: queues, prices, decisions, I/O.
"""
