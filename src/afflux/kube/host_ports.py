"""The host ports of a pod.

As in kube-scheduler: containers and sidecars count, other init containers do not; the default
protocol is TCP; no address and 0.0.0.0 mean all addresses, while "::" is an ordinary address. With
hostNetwork each container port is a host port.
"""

from collections.abc import Iterator

from afflux.kube import objects
from afflux.kube.input_errors import shown
from afflux.kube.node_constraints import ConstraintError
from afflux.kube.object_limits import MAX_HOST_PORTS, first, limit_exceeded
from afflux.kube.pod_requests import is_sidecar
from afflux.model.implied_resources import HostPort, port_requests

_PROTOCOLS = frozenset({"TCP", "UDP", "SCTP"})
_EVERY_ADDRESS = frozenset({None, "", "0.0.0.0"})  # noqa: S104 - a value to compare with


def host_port_requests(spec: objects.PodSpec) -> dict[str, int]:
    if not spec.init_containers and not spec.host_network:
        for container in spec.containers or ():
            for stated in container.ports or ():
                if stated.host_port:
                    return _requests(spec)
        return {}
    return _requests(spec)


def _requests(spec: objects.PodSpec) -> dict[str, int]:
    ports = list(dict.fromkeys(_host_ports(spec)))
    if len(ports) > MAX_HOST_PORTS:
        if not spec.node_name:
            field = "spec.containers[*].ports"
            raise ConstraintError(limit_exceeded(field, len(ports), MAX_HOST_PORTS, "host ports"))
        ports = first(ports, MAX_HOST_PORTS)
    return port_requests(ports)


def _host_ports(spec: objects.PodSpec) -> Iterator[HostPort]:
    for field, containers in (
        ("containers", spec.containers or ()),
        ("initContainers", spec.init_containers or ()),
    ):
        for index, container in enumerate(containers):
            if field == "initContainers" and not is_sidecar(container):
                continue
            for place, stated in enumerate(container.ports or ()):
                number = stated.host_port or (stated.container_port if spec.host_network else 0)
                if not number:
                    continue
                protocol = stated.protocol or "TCP"
                if protocol not in _PROTOCOLS:
                    path = f"spec.{field}[{index}].ports[{place}].protocol"
                    raise ConstraintError(f"{path}: {shown(protocol)} is not supported")
                every = stated.host_ip in _EVERY_ADDRESS
                yield HostPort(protocol, number, None if every else stated.host_ip)
