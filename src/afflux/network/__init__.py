"""From prices to flow: classes of tasks and machines become a network that the solver can read.

`pricing` asks the policies and keeps their answers, `layout` draws the network and reads the flow
back, `dimacs` reads networks from files, `certificate` proves an answer without the solver.
Not here: whether what a flow proposes really fits (plan).
"""
