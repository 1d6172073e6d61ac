"""Slow reference implementations: naive models, integer programs and their solver process.

Nothing here uses columns, classes or books of the scheduler; a test compares, an oracle computes.
"""
