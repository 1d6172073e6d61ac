"""Who may start now: strategies walk the queue; the optimiser then decides where.

Not here: where anything goes (plan), or the queue itself (queue).
"""
