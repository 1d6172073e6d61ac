"""A leader election for tests, with short or long times."""

from typing import Any

from small_api import SmallApi

from afflux.kube.live.leader_election import LeaderElection
from afflux.web.scheduler_metrics import Metrics

SHORT = {"lease_duration_seconds": 1.0, "renew_deadline_seconds": 0.6}


def lease(server: SmallApi, identity: str | None, **options: Any) -> LeaderElection:
    settings: dict[str, Any] = {
        "namespace": "kube-system",
        "name": "afflux",
        "metrics": Metrics(),
        # Long, so that the lease is not lost on a busy machine.
        "lease_duration_seconds": 30.0,
        "renew_deadline_seconds": 20.0,
        "retry_period_seconds": 0.1,
        "identity": identity,
    } | options
    return LeaderElection(server.api(user_agent=identity or ""), **settings)
