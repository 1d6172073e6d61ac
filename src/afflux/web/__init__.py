"""What a running process shows of itself: figures, health, configuration.

`metrics` is what the doors write into (its cells are in `families`), `watchdog` notices a loop that
is stuck, `serving` answers /livez, /readyz, /healthz, /metrics and /configz. Not here: anything
that decides or that talks to a cluster.
"""
