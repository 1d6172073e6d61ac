"""The client of the Kubernetes API: requests, credentials, lists and watches.

Here belongs what every program that talks to an API server needs: the address of the server and
the credentials for it (client_config, kubeconfig, kubeconfig_files, in_cluster, credentials,
exec_plugin, tls, http_proxy), how a request is sent and how it can fail (client, transport,
rate_limit, backoff, errors), and how a collection is kept up to date (reflector, line_splitter).

Not here: what the objects mean. Callers pass their own structs and paths.
"""
