"""Volumes: where the claims of a pod let it run, and which volumes they get there.

Pure: the storage objects of a cluster go in, values of the model come out. `storage` is the way
in; the rest is in the order of the data: contents and claims (what a pod asks for), volume, stock
and supply (what there is, how much of it on each machine, and who may have it), regions (nodes by
their labels), needs (what a pod's claims mean for placing it), attaching (how many volumes a node
holds), choosing (what to write when a pod has its node), together and concessions (the same for
pods that start together).

Not here: talking to the API server, waiting for a provisioner, any decision about where a pod goes.
"""
