"""Slow second opinions: naive models, exact programs, and the process that solves them.

Nothing here uses columns, classes or books of the scheduler; a test compares, an oracle computes.
"""
