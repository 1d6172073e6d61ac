"""Evictions: which running tasks end so that waiting tasks of a higher priority get their places.

`preemption` goes through the waiting groups level by level and is the entry. `candidates` reads
which running tasks could be evicted, `sites` what the search knows of a machine, `victim_sets`
finds the cheapest victims of one machine, `exact_choice` the best choice for a few machines
together, `wide_choice` a good one for many, `related_preemptors` places tasks with constraints
between tasks, and `budgets` counts victims beyond disruption budgets.
Not here: how an eviction is carried out, and what becomes of the tasks that wait meanwhile.
"""
