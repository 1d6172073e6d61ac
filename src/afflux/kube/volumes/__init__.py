"""Volumes: where the claims of a pod let it run, and which volumes they get there.

Pure functions of the storage objects of a cluster. `storage` is the entry; the other files, in the
order of the data: volume_sources and claims (what a pod asks for), volume, local_volumes and
storage_cache (which volumes there are, and which claim may have them), node_sets (nodes described
by labels), volume_needs (what the claims of a pod mean for its placement), attachments (attached
volumes per node), volume_choice (what to write once a pod has a node), gang_volumes,
bipartite_matching and avoided_volumes (the same for the pods of a gang).

Not here: requests to the API server, waiting for a provisioner, decisions about placement.
"""
