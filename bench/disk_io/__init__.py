"""Benchmarks of disk-IO-aware scheduling.

`simulation`: what tasks lose to each other on disks, with the policy `disk-io` and without.
`statuses`: what the statuses of IO drivers cost reader and cycle.
"""
