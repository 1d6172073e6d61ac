"""The client of the Kubernetes API: requests, credentials, lists and watches.

Here belongs what every program that talks to an API server needs: where the server is and who we
are (kubeconfig, in_cluster, connection, credentials, exec_plugin, tls, proxies), how a request is
sent and what can come back (client, pacing, errors), and how a collection is followed for ever
(watching, lines).

Not here: what the objects mean. No pod, node, lease or event is known by name; callers bring their
structs and their paths.
"""
