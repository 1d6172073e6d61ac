"""What a running process shows of itself: figures, health, configuration.

`metrics` is the registry into which the doors write, `serving` answers /livez, /readyz, /healthz,
/metrics and /configz. Not here: anything that decides or that talks to a cluster.
"""
