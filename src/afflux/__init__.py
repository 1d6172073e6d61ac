"""afflux: a scheduler for Kubernetes that places every waiting group of pods in one optimisation.

Read `cycle/loop.py` first: it shows how data flows. Imports follow the layers downwards:
cli -> app -> config -> kube | ledger | sim -> web -> cycle -> gates -> admit -> plan -> network ->
policies -> queue -> cluster -> model.
"""
