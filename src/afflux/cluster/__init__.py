"""The cluster state: machines, the tasks on them, and columns over both that policies read.

`State` changes with events about machines and tasks and with assumed placements. Everything else
reads it through `Machines`, a view of any subset of rows, and through `relation_index`: which
constraints between tasks are in use, and where the tasks run that they select. What is only tried
happens in an overlay of the state. Not here: queues,
prices, decisions, I/O.
"""
