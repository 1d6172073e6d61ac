"""Values without I/O: what a task asks for, what a machine offers, what a group is, why something waits.

Everything here is plain frozen data with the pure functions that belong to it.
Not here: anything that changes (cluster), decides (plan) or talks to the world (kube, sim).
"""
