"""Policies: short classes that say where a class of tasks may go and what it costs there.

One file per policy; `fit` counts resources for all of them. A policy reads columns over machines
and answers with columns; it never loops over machines, keeps no clock and does no I/O. `policy` is
the contract, `registry` finds policies by name. Not here: how answers become a network (network)
or a plan (plan).
"""
