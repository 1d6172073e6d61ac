"""Values without I/O: what tasks ask for, what machines offer, why something waits.

Everything here is plain frozen data with the pure functions that belong to it.
Not here: anything that changes (cluster), decides (plan) or talks to the world (kube, sim).
"""
