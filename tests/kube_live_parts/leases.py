"""A lease for tests of who leads."""

from typing import Any

from small_api import SmallApi

from afflux.kube.live.leasing import Lease
from afflux.web.metrics import Metrics

SHORT = {"lease_seconds": 1.0, "renew_seconds": 0.6}


def lease(server: SmallApi, identity: str | None, **options: Any) -> Lease:
    settings: dict[str, Any] = {
        "namespace": "kube-system",
        "name": "afflux",
        "metrics": Metrics(),
        # Wide, so that a busy machine does not lose it; those that want to lose it say so.
        "lease_seconds": 30.0,
        "renew_seconds": 20.0,
        "retry_seconds": 0.1,
        "identity": identity,
    } | options
    return Lease(server.api(user_agent=identity or ""), **settings)
