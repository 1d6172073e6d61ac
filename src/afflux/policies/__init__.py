"""Policies: where a class of tasks may run, and what it costs there.

One file per policy; `cluster.task_room` counts resources for all of them. A policy reads columns
over machines and answers with columns; it does not loop over machines, read a clock or do I/O.
`policy` is the contract, `registry` finds policies by name. Not here: how answers become a network
(network) or a plan (plan).
"""
