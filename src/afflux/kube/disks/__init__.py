"""Disk bandwidth in Kubernetes objects: what pods state, and what NodeDiskIOInfo objects report.

`annotations` reads the annotation of a pod, `counted_volumes` says which volumes of a pod are on a
disk of its node, `disk_requests` puts both together with the default charge; `disk_reports` reads
the objects of IO drivers, and `disk_devices` the annotation that says which disk each volume of a
bound pod was given. Everything here is about one object; what follows from their order in time is
in reader/node_disks.py.

Not here: what a request takes of a disk of some model (afflux.normalisers), requests to the API
server.
"""
