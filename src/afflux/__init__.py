"""afflux: a scheduler for Kubernetes that places every waiting group of pods in one optimisation.

Read `cycle/loop.py` first: the way of the data. Imports point from the doors to the values:
cli -> app -> config -> kube | ledger | sim -> web -> cycle -> gates -> admit -> plan -> network ->
policies -> queue -> cluster -> model.
"""
