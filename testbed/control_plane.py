"""The control plane for tests: starts and stops its parts, creates and reads objects."""

import os
import shutil
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from testbed import components, kubeconfig
from testbed.api import Api, ApiError, Manifest
from testbed.building import Binaries, build
from testbed.cleanup import delete_everything
from testbed.components import Components, Options
from testbed.nodes import node
from testbed.processes import ProcessReaper, Program, RunningProgram, StartError, resident_bytes

# Data are kept in RAM if there is enough: etcd writes every pod several times.
MEMORY_DISK = Path("/dev/shm")  # noqa: S108 - the folder in it is a private one
MEMORY_DISK_BYTES = 4 << 30
TOKEN_SECONDS = 24 * 3600


class ControlPlane:
    """etcd, API server, controller manager and fake machines; kube-scheduler on request.

    `with ControlPlane() as plane:` starts and stops it. Names of the parts: `etcd`,
    `kube-apiserver`, `kube-controller-manager`, `kube-scheduler`, `machines`.
    """

    def __init__(
        self,
        *,
        binaries: Binaries | None = None,
        options: Options | None = None,
        machines: bool = True,
        provision: bool = True,
        directory: Path | None = None,
    ) -> None:
        self.binaries = binaries or build()
        self._machines = machines
        self._provision = provision
        self.directory = Path(tempfile.mkdtemp(prefix="afflux-testbed-", dir=_disk(directory)))
        self._reaper = ProcessReaper(self.directory)
        self.components = Components(self.directory, self.binaries, options or Options())
        self._programs: dict[str, Program] = {}
        self._running: dict[str, RunningProgram] = {}
        self.url = self.components.url
        self.kubeconfig = self.components.kubeconfig
        self.authority = self.components.authority.certificate
        self._context = _context(self.components)
        self.api = Api(self.url, self._context)
        self.audit_from = 0

    def start(self) -> Self:
        """Starts all parts and waits until they are ready."""
        try:
            # Most of the API server's start needs no etcd, and then it waits for etcd by itself.
            self._launch(self.components.etcd())
            self._launch(self.components.api_server())
            self._wait(components.ETCD)
            self._wait(components.API_SERVER)
            self._launch(self.components.controller_manager())
            if self._machines:
                self._launch(self.components.machines(self._provision))
                self._wait(components.MACHINES)
            self._wait(components.CONTROLLER_MANAGER)
            self.wait_for_account("default")
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Kills all parts and removes their data."""
        self.api.close()
        for running in reversed(list(self._running.values())):
            running.kill()
        self._running.clear()
        self._reaper.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # --- Parts

    def start_scheduler(self, config: str | None = None, client_qps: float = 50) -> None:
        """Starts kube-scheduler. It is limited to 50 requests per second; -1 removes the limit."""
        self.stop_part(components.SCHEDULER)
        self._launch(self.components.scheduler(config, client_qps))
        self._wait(components.SCHEDULER)

    def kill(self, name: str) -> None:
        """Sends SIGKILL to a part."""
        self._running.pop(name).kill()
        if name == components.API_SERVER:
            self.api.close()

    def stop_part(self, name: str, patience_seconds: float = 10) -> None:
        """Sends SIGTERM to a part if it runs."""
        running = self._running.pop(name, None)
        if running is not None:
            running.terminate(patience_seconds)

    def launch(self, name: str) -> None:
        """Starts a stopped part again, with the same command, without waiting for it."""
        if name not in self._running:
            self._launch(self._programs[name])

    def restart(self, name: str) -> None:
        """Restarts a part with the same ports and data."""
        if name in self._running:
            self.kill(name)
        self.launch(name)
        self._wait(name)

    def restart_dead_parts(self) -> None:
        """Restarts the parts that do not run, and stops kube-scheduler."""
        self.stop_part(components.SCHEDULER)
        for name in self._programs:
            running = self._running.get(name)
            if name != components.SCHEDULER and (running is None or not running.alive):
                self.restart(name)

    def pid(self, name: str) -> int:
        """The process id of a part."""
        return self._running[name].pid

    def resident_bytes(self) -> dict[str, int]:
        """The resident memory of each part."""
        return {name: resident_bytes(running.pid) for name, running in self._running.items()}

    def log(self, name: str) -> Path:
        """The log file of a part."""
        return self.components.log(name)

    # --- Access

    def kubectl(self, *arguments: str, input: str | None = None, check: bool = True) -> str:  # noqa: A002
        """Runs kubectl as administrator and returns its output."""
        done = subprocess.run(
            [self.binaries["kubectl"], "--kubeconfig", str(self.kubeconfig), *arguments],
            input=input,
            capture_output=True,
            text=True,
            check=False,
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def service_account_token(self, namespace: str, name: str) -> str:
        """A token of this service account, from the TokenRequest API."""
        request: Manifest = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_SECONDS},
        }
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        return self.api.create(path, request)["status"]["token"]

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """A kubeconfig with the rights of this service account only."""
        token = self.service_account_token(namespace, name)
        path = self.directory / f"{namespace}-{name}.kubeconfig"
        return kubeconfig.write_for_token(path, self.url, self.authority, token)

    def api_with_token(self, token: str | None) -> Api:
        """A client with this token, or an anonymous one."""
        context = ssl.create_default_context(cafile=str(self.authority))
        return Api(self.url, context, token)

    # --- Objects

    def create_nodes(
        self,
        count: int,
        *,
        cpu: str = "32",
        memory: str = "256Gi",
        pods: int = 110,
        resources: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        prefix: str = "node",
        zones: int = 3,
    ) -> list[str]:
        """Creates Ready machines `prefix-0000`, `prefix-0001`, ... and returns their names."""
        names = [f"{prefix}-{index:04d}" for index in range(count)]

        def create(index: int) -> None:
            manifest = node(
                names[index],
                index=index,
                cpu=cpu,
                memory=memory,
                pods=pods,
                resources=resources,
                labels=labels,
                taints=taints,
                zones=zones,
            )
            self.api.create("/api/v1/nodes", manifest)

        self.api.each(create, range(count))
        return names

    def create_namespace(self, name: str) -> str:
        """Creates a namespace and waits until pods can be created in it."""
        namespace: Manifest = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name},
        }
        self.api.create("/api/v1/namespaces", namespace)
        self.wait_for_account(name)
        return name

    def create_pods(self, manifests: Sequence[Manifest]) -> list[Manifest]:
        """Creates pods in parallel and returns them as the API server stored them."""

        def create(manifest: Manifest) -> Manifest:
            namespace = manifest["metadata"].get("namespace", "default")
            return self.api.create(f"/api/v1/namespaces/{namespace}/pods", manifest)

        return list(self.api.each(create, manifests))

    def bind(self, pod: str, node: str, namespace: str = "default") -> Manifest:
        """Binds a pod to a node, as a scheduler does."""
        binding: Manifest = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        return self.api.create(f"/api/v1/namespaces/{namespace}/pods/{pod}/binding", binding)

    def pod(self, name: str, namespace: str = "default") -> Manifest:
        """One pod."""
        return self.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")

    def pods(self, namespace: str | None = None, **selectors: str) -> list[Manifest]:
        """The pods of one namespace or of all; selectors are labelSelector= and fieldSelector=."""
        return self.api.list(_in(namespace, "pods"), **selectors)

    def nodes(self, **selectors: str) -> list[Manifest]:
        """Machines."""
        return self.api.list("/api/v1/nodes", **selectors)

    def events(self, namespace: str | None = None, **selectors: str) -> list[Manifest]:
        """Events (events.k8s.io)."""
        under = f"/namespaces/{namespace}" if namespace else ""
        return self.api.list(f"/apis/events.k8s.io/v1{under}/events", **selectors)

    def delete_everything(self, keep: Collection[str] = ()) -> None:
        """Empties the cluster. Earlier bindings do not count in later checks.

        The namespaces `keep` stay with their objects.
        """
        delete_everything(self.api, keep)
        log = self.components.audit_log
        self.audit_from = log.stat().st_size if log.exists() else 0

    # --- Waiting

    def wait_for_account(self, namespace: str) -> None:
        """Waits until the default service account exists, without which no pod is admitted."""

        def exists() -> bool:
            try:
                self.api.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/default")
            except ApiError as error:
                if error.status == 404:
                    return False
                raise
            return True

        self.wait_until(exists, f"the default service account of namespace {namespace}")

    def wait_until(
        self, happened: Callable[[], bool], what: str, seconds: float = 60, every: float = 0.05
    ) -> None:
        """Polls until `happened` is true; raises TimeoutError."""
        deadline = time.monotonic() + seconds
        while not happened():
            if time.monotonic() > deadline:
                raise TimeoutError(f"timed out after {seconds:g} s waiting for {what}")
            time.sleep(every)

    def _launch(self, program: Program) -> None:
        self._programs[program.name] = program
        self._running[program.name] = RunningProgram(program, self._reaper)

    def _wait(self, name: str) -> None:
        self._running[name].wait_ready(self._context)


def _in(namespace: str | None, resource: str) -> str:
    return f"/api/v1/namespaces/{namespace}/{resource}" if namespace else f"/api/v1/{resource}"


def _context(parts: Components) -> ssl.SSLContext:
    """Trusts the authority and presents the administrator's certificate."""
    context = ssl.create_default_context(cafile=str(parts.authority.certificate))
    context.load_cert_chain(parts.admin.certificate, parts.admin.key)
    return context


def _disk(directory: Path | None) -> Path | None:
    """Where data are kept: `directory`, else the environment's choice, RAM, the default."""
    chosen = directory or os.environ.get("AFFLUX_TESTBED_DIRECTORY")
    if chosen:
        return Path(chosen)
    roomy = MEMORY_DISK.is_dir() and shutil.disk_usage(MEMORY_DISK).free >= MEMORY_DISK_BYTES
    return MEMORY_DISK if roomy and os.access(MEMORY_DISK, os.W_OK) else None


__all__ = ["ControlPlane", "Options", "StartError"]
