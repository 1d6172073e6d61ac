"""The command lines of the control plane, and why they differ from those of a cluster."""

import json
import random
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from testbed.building import Binaries
from testbed.certificates import Authority, Certificate
from testbed.kubeconfig import write_for_certificate
from testbed.processes import Program

ETCD = "etcd"
API_SERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
MACHINES = "machines"
NAMES = (ETCD, API_SERVER, CONTROLLER_MANAGER, SCHEDULER, MACHINES)
ETCD_PEER = "etcd-peer"

# Below the kernel's range for outgoing connections. Otherwise a client that keeps calling a killed
# server could get that port for its own connection, and talk to itself.
PORTS = range(20000, 32000)

# Longer than any test: machines without a kubelet send no heartbeats and must stay Ready.
NO_HEARTBEAT = "10000h"

# Only bindings, with their bodies: which user bound which pod to which node, and how often.
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "omitManagedFields": True,
    "rules": [
        {
            "level": "Request",
            "verbs": ["create"],
            "resources": [{"group": "", "resources": ["pods/binding", "bindings"]}],
        },
        {"level": "None"},
    ],
}


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of the control plane."""

    audit: bool = True
    """Whether every binding is logged. Benchmarks of the API server turn it off."""
    fsync: bool = False
    """Whether etcd waits for the disk, as in production."""
    runtime_config: Mapping[str, str] = field(default_factory=dict[str, str])
    """API groups besides the defaults, such as {"scheduling.k8s.io/v1beta1": "true"}."""
    feature_gates: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """For all programs of Kubernetes."""
    api_server_flags: Sequence[str] = ()
    """Added at the end, so that they override others."""
    controllers: str = "*,-ttl-controller"
    """The controllers that run. ttl-controller would annotate every new node, for kubelets."""


class Components:
    """Ports, certificates and command lines. A restarted program has the same ones again."""

    def __init__(self, directory: Path, binaries: Binaries, options: Options) -> None:
        self.directory = directory
        self._binaries = binaries
        self._options = options
        names: list[str] = [*NAMES, ETCD_PEER]
        self._ports = dict(zip(names, _free_ports(len(names)), strict=True))
        self.authority = Authority(directory / "pki")
        self.server = self.authority.server("server")
        self.admin = self.authority.client("admin", "system:masters")
        self.audit_log = directory / "audit.log"
        self.url = f"https://127.0.0.1:{self._ports[API_SERVER]}"
        self.kubeconfig = self._kubeconfig("admin", self.admin)
        (directory / "logs").mkdir()

    def log(self, name: str) -> Path:
        """The log file of a program."""
        return self.directory / "logs" / f"{name}.log"

    def etcd(self) -> Program:
        """etcd, with client certificates: other processes on the machine cannot read the data."""
        client = f"https://127.0.0.1:{self._ports[ETCD]}"
        peer = f"https://127.0.0.1:{self._ports[ETCD_PEER]}"
        authority = str(self.authority.certificate)
        flags = {
            "name": "testbed",
            "data-dir": str(self.directory / "etcd"),
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"testbed={peer}",
            "client-cert-auth": "true",
            "trusted-ca-file": authority,
            "cert-file": str(self.server.certificate),
            "key-file": str(self.server.key),
            "peer-client-cert-auth": "true",
            "peer-trusted-ca-file": authority,
            "peer-cert-file": str(self.server.certificate),
            "peer-key-file": str(self.server.key),
            "quota-backend-bytes": str(8 << 30),
            "unsafe-no-fsync": str(not self._options.fsync).lower(),
            "log-level": "warn",
        }
        return self._program(ETCD, flags, f"{client}/readyz")

    def api_server(self) -> Program:
        """The API server with TLS, RBAC and default admission, as in a cluster."""
        server, authority = self.server, str(self.authority.certificate)
        flags = {
            "etcd-servers": f"https://127.0.0.1:{self._ports[ETCD]}",
            "etcd-cafile": authority,
            "etcd-certfile": str(self.admin.certificate),
            "etcd-keyfile": str(self.admin.key),
            "bind-address": "127.0.0.1",
            "secure-port": str(self._ports[API_SERVER]),
            "tls-cert-file": str(server.certificate),
            "tls-private-key-file": str(server.key),
            "client-ca-file": authority,
            # Other programs read these settings of a front proxy. There is no front proxy.
            "requestheader-client-ca-file": authority,
            "requestheader-allowed-names": "nobody",
            "requestheader-username-headers": "X-Remote-User",
            "requestheader-group-headers": "X-Remote-Group",
            "requestheader-extra-headers-prefix": "X-Remote-Extra-",
            "authorization-mode": "Node,RBAC",
            # As installers of Kubernetes set it; pod security admission decides by namespace.
            "allow-privileged": "true",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": str(server.key),
            "service-account-signing-key-file": str(server.key),
            "service-cluster-ip-range": "10.0.0.0/16",
            # There is no cluster network, and endpoints may not be loopback addresses.
            "endpoint-reconciler-type": "none",
            # Machines are Ready from the start. In a cluster this plugin taints them until the
            # kubelet has reported, and the node lifecycle controller writes them again.
            "disable-admission-plugins": "TaintNodesByCondition",
            "delete-collection-workers": "16",
            **self._gates(),
        }
        if self._options.runtime_config:
            flags["runtime-config"] = _pairs(self._options.runtime_config)
        if self._options.audit:
            policy = self.directory / "audit-policy.json"
            policy.write_text(json.dumps(AUDIT_POLICY))
            flags |= {
                "audit-policy-file": str(policy),
                "audit-log-path": str(self.audit_log),
                # Written before the answer is sent: after a SIGKILL no answered request is missing.
                "audit-log-mode": "blocking-strict",
                "audit-log-maxsize": "100000",
            }
        more = self._options.api_server_flags
        return self._program(API_SERVER, flags, f"{self.url}/readyz", more)

    def controller_manager(self) -> Program:
        """The controllers. Missing heartbeats do not make machines NotReady."""
        user = self.authority.client("system:kube-controller-manager")
        flags = self._client(CONTROLLER_MANAGER, self._kubeconfig(CONTROLLER_MANAGER, user)) | {
            "leader-elect": "false",
            "controllers": self._options.controllers,
            "use-service-account-credentials": "true",
            "service-account-private-key-file": str(self.server.key),
            "root-ca-file": str(self.authority.certificate),
            "node-monitor-grace-period": NO_HEARTBEAT,
            "node-startup-grace-period": NO_HEARTBEAT,
            "flex-volume-plugin-dir": str(self.directory / "flex-volumes"),
            # Tests create thousands of objects; the default limits are too low.
            "kube-api-qps": "1000",
            "kube-api-burst": "2000",
        }
        return self._program(CONTROLLER_MANAGER, flags, self._health(CONTROLLER_MANAGER))

    def scheduler(self, config: str | None, client_qps: float) -> Program:
        """kube-scheduler with its own user and rights. A negative rate removes its limit."""
        kubeconfig = self._kubeconfig(SCHEDULER, self.authority.client("system:kube-scheduler"))
        file = self.directory / "kube-scheduler.yaml"
        connection = {
            "kubeconfig": str(kubeconfig),
            "qps": client_qps,
            "burst": max(1, int(2 * client_qps)),
        }
        default = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": connection,
        }
        file.write_text(config or json.dumps(default))
        flags = self._client(SCHEDULER, kubeconfig) | {"config": str(file)}
        del flags["kubeconfig"]  # it is in the file
        return self._program(SCHEDULER, flags, self._health(SCHEDULER))

    def machines(self, provision: bool) -> Program:
        """The program that plays all kubelets."""
        listen = f"127.0.0.1:{self._ports[MACHINES]}"
        user = self.authority.client("machines", "system:masters")
        flags = {
            "kubeconfig": str(self._kubeconfig(MACHINES, user)),
            "listen": listen,
            "provision": str(provision).lower(),
        }
        return self._program(MACHINES, flags, f"http://{listen}/readyz")

    def _client(self, name: str, kubeconfig: Path) -> dict[str, str]:
        """The flags of a program that uses the API server and serves health checks."""
        return {
            "kubeconfig": str(kubeconfig),
            "authentication-kubeconfig": str(kubeconfig),
            "authorization-kubeconfig": str(kubeconfig),
            "bind-address": "127.0.0.1",
            "secure-port": str(self._ports[name]),
            "tls-cert-file": str(self.server.certificate),
            "tls-private-key-file": str(self.server.key),
            **self._gates(),
        }

    def _gates(self) -> dict[str, str]:
        gates = {name: str(on).lower() for name, on in self._options.feature_gates.items()}
        return {"feature-gates": _pairs(gates)} if gates else {}

    def _health(self, name: str) -> str:
        return f"https://127.0.0.1:{self._ports[name]}/healthz"

    def _kubeconfig(self, name: str, client: Certificate) -> Path:
        path = self.directory / f"{name}.kubeconfig"
        return write_for_certificate(path, self.url, self.authority.certificate, client)

    def _program(
        self, name: str, flags: Mapping[str, str], ready_url: str, more: Sequence[str] = ()
    ) -> Program:
        command = [self._binaries[name], *(f"--{flag}={value}" for flag, value in flags.items())]
        return Program(name, [*command, *more], ready_url, self.log(name))


def _pairs(pairs: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in pairs.items())


def _free_ports(count: int) -> list[int]:
    ports: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == count:
            return ports
    raise OSError(f"no {count} free ports on loopback in {PORTS.start}-{PORTS.stop - 1}")
