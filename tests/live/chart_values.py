"""Values for tests of the chart, and access to the objects that it renders."""

from typing import Any

import pytest
from chart_installation import CHART, NAMESPACE
from testbed import Manifest

ROOT = CHART.parents[1]
STATIC_POD = ROOT / "deploy" / "static-pod"

ALL_VALUES: dict[str, Any] = {
    "config": {
        "strategy": "fcfs",
        "queues": [
            {"name": "default"},
            {
                "name": "night",
                "strategy": "easy",
                "quorum": "whole-group",
                "depth": 32,
                "reservations": 1,
                "defaultDuration": "1h",
                "holdForEndless": True,
                "limits": {"groupSize": 64, "duration": "8h", "groups": 100},
            },
        ],
        "policies": [{"name": "cpu-memory", "weight": 2, "args": {"omega": 1000}}],
        "profiles": [
            {"schedulerName": "batch"},
            {
                "schedulerName": "web",
                "policies": [{"name": "load-spreading"}, {"name": "disk-io"}],
                "topologySpread": {"defaultingType": "List", "defaultConstraints": []},
            },
        ],
        "topologySpread": {
            "defaultingType": "List",
            "defaultConstraints": [
                {
                    "topologyKey": "topology.kubernetes.io/zone",
                    "maxSkew": 1,
                    "whenUnsatisfiable": "DoNotSchedule",
                    "minDomains": 3,
                    "nodeAffinityPolicy": "Ignore",
                    "nodeTaintsPolicy": "Honor",
                }
            ],
        },
        "podAffinity": {"hardPodAffinityWeight": 100},
        "leaderElection": {
            "leaseDuration": "1m30s",
            "resourceName": "batch",
            "resourceNamespace": NAMESPACE,
        },
        "clientConnection": {"qps": 0.5, "burst": 10},
        "serving": {"port": 9000, "certFile": "/etc/tls/tls.crt", "keyFile": "/etc/tls/tls.key"},
        "binding": {"parallelism": 8, "timeout": "500ms"},
        "volumes": {"bindTimeoutSeconds": 12_345_678},
        "diskIO": {
            "namespace": "disks",
            "configMap": {"namespace": "vendors", "name": "models"},
            "defaultCharge": {"read": "1Mi", "write": "0", "blockSize": "4k"},
            "silent": {"after": "30s", "action": "degrade", "degradeTo": 0.25},
            "downloads": {"timeout": "5s", "maxSize": "1Mi"},
        },
        "cleanup": {"enabled": True, "finished": True, "halfBoundAfter": "10m"},
        "ledger": {
            "url": "postgresql://afflux@database.batch/afflux",
            "whenAway": "continue",
            "historyDays": 36_500,
        },
    },
    "replicas": 3,
    "image": {"repository": "images.example:5000/afflux", "digest": f"sha256:{'a' * 64}"},
    "imagePullSecrets": [{"name": "pull"}],
    "serviceAccount": {"annotations": {"example.org/who": "batch"}},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]
            }
        }
    },
    "podAnnotations": {"example.org/a": "b"},
    "podLabels": {"example.org/c": "d"},
    "logging": {"format": "json", "level": "debug"},
    "extraArgs": ["--context", "here"],
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}],
    "extraVolumes": [{"name": "tls", "secret": {"secretName": "afflux-tls"}}],
    "extraVolumeMounts": [{"name": "tls", "mountPath": "/etc/tls", "readOnly": True}],
    "podDisruptionBudget": {"minAvailable": "50%"},
    "service": {"annotations": {"example.org/e": "f"}},
    "diskIO": {"trustedKeysSecret": "vendor-keys"},
    "serviceMonitor": {
        "enabled": True,
        "labels": {"release": "prometheus"},
        "interval": "30s",
        "tlsConfig": {"insecureSkipVerify": True},
    },
    "networkPolicy": {
        "enabled": True,
        "from": [{"namespaceSelector": {"matchLabels": {"example.org/g": "h"}}}],
        "extraEgress": [{"ports": [{"port": 3128, "protocol": "TCP"}]}],
    },
}
WITH_CLAIM: dict[str, Any] = {"ledger": {"claim": {"create": True}}}
NO_LEDGER: dict[str, Any] = {"ledger": {"enabled": False}}
SETTINGS = pytest.mark.parametrize(
    "values", [{}, WITH_CLAIM, ALL_VALUES], ids=["defaults", "claimed", "everything"]
)


def of_kind(manifests: list[Manifest], kind: str) -> Manifest:
    (found,) = (each for each in manifests if each["kind"] == kind)
    return found
