"""The scheduler of a live cluster.

In the order of the data: `following` (which collections are watched), `shelves` and `queueing`
(the newest object of every name, and the keys of those that changed), `mirror` with `gathering` and
`disks` (what a change means to the cycle), `scheduling` (the loop), `preparing` and `binding`
(decisions are carried out), `reporting` with `recording`, `conditions` and `delivering` (users hear
of it), `leasing` and `running` (one leader, one process).

Not here: HTTP (kube.api), what objects mean (kube, kube.volumes), any decision about where a task
goes.
"""
