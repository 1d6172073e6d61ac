"""What a running process shows of itself and of its groups: figures, health, configuration, queue.

`metrics` is what the doors write into (its cells are in `families`), `watchdog` notices a loop that
is stuck, `serving` answers /livez, /readyz, /healthz, /metrics and /configz, `handshaking` is the
TLS below. `inspecting` answers what people ask about groups, if `authenticating` lets them in;
`remembering` keeps both from asking others too often. Not here: anything that decides or that talks
to a cluster or a database.
"""
