"""The HTTP pages of a running process: metrics, health, configuration, and the inspection service.

`scheduler_metrics` has one method for each kind of occurrence that is counted (its cells are in
`metric_families`), `watchdog` detects a stuck loop. `pages` serves /livez, /readyz, /healthz,
/metrics and /configz, over `server_tls` if configured. `inspection_pages` answers queries about
groups for users that `authentication` accepts; `answer_cache` limits the requests of both to
others. Not here: anything that decides, or talks to a cluster or a database.
"""
