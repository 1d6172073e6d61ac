"""Benchmarks of disk-IO-aware scheduling.

`simulation`: what tasks lose to each other on disks, with the policy `disk-io` and without.
"""
