"""Which groups may start now: strategies walk the queue and ask a planner of free capacity.

Not here: where groups are placed (plan), or the order of the queue (queue).
"""
