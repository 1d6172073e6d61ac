"""The flow network of a round: from the policies' costs to a minimum-cost flow.

`pricing` asks the policies and caches their answers, `routing` builds the network of a round
and reads the flow back, `dimacs` reads networks from files, `certificate` checks the proof of an
optimal flow without the solver. Not here: whether the placements of a flow really fit (plan).
"""
