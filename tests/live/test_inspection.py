"""Access to the inspection service with a real API server, real rights and a real ledger."""

import asyncio
import contextlib
import http.client
import json
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import trustme
from chart_installation import CHART, NAMESPACE, install, is_allowed, render
from live_manifests import pod
from scheduler_process import LEASE, Schedulers
from test_rights import EVERYWHERE, attributes, rights
from testbed import ControlPlane, Manifest

import afflux
from afflux.cycle.inspection_types import API_GROUP, ROOT
from afflux.cycle.ledger_entries import LedgerBatch, ReservationEntry
from afflux.groups.entries import EventEntry, GroupChange, GroupEntry, MemberEntry
from afflux.groups.group_id import GroupId
from afflux.kube.api.client import Api
from afflux.kube.api.kubeconfig import read_kubeconfig
from afflux.kube.live.access_review import AccessReviews, follow_authorities
from afflux.ledger.embedded_postgres import EmbeddedPostgres
from afflux.ledger.postgres import PostgresLedger
from afflux.ledger.queries import LedgerInspection
from afflux.model.reservation import Reservation
from afflux.web.authentication import Authenticator
from afflux.web.inspection_pages import InspectionPages
from afflux.web.pages import Pages
from afflux.web.scheduler_metrics import Metrics

SERVING = {"certFile": "/etc/tls/tls.crt", "keyFile": "/etc/tls/tls.key"}
ENABLED: dict[str, Any] = {"inspection": {"enabled": True}, "config": {"serving": SERVING}}
QUEUE_A = f"{ROOT}/namespaces/team-a/queue"
QUEUE_B = f"{ROOT}/namespaces/team-b/queue"
QUEUE_ALL = f"{ROOT}/queue"


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a ledger with a few groups."""
    embedded = EmbeddedPostgres(str(tmp_path_factory.mktemp("ledger")))
    address = embedded.start()

    async def write() -> None:
        written = PostgresLedger(embedded.address)
        await written.take_over(None)
        members = (MemberEntry("u0", "team-a/train-0"), MemberEntry("u1", "team-a/train-1"))
        first, train = GroupId("team-b", "first", ""), GroupId("team-a", "train", "u0")
        groups = (
            GroupChange(GroupEntry(first, size=1, ready_seconds=1.8e9, reason="waits")),
            GroupChange(GroupEntry(train, size=2, ready_seconds=1.8e9 + 1), members),
        )
        reservation = Reservation(train.key, 1.9e9, (("u0", "node-0"), ("u1", "node-1")))
        reservations = (ReservationEntry(train.key, reservation),)
        events = (EventEntry(train.key, "Promised", "on 2 machines"),)
        await written.commit(LedgerBatch(groups=groups, reservations=reservations, events=events))
        await written.close()

    asyncio.run(write())
    yield address
    embedded.stop()


@dataclass
class Service:
    """A client of the inspection service."""

    plane: ControlPlane
    url: str

    def ask(
        self,
        path: str,
        token: str | None = None,
        client: tuple[Path, Path] | trustme.LeafCert | None = None,
    ) -> tuple[int, Any]:
        context = ssl.create_default_context(cafile=str(self.plane.authority))
        if isinstance(client, tuple):
            context.load_cert_chain(*client)
        elif client is not None:
            client.configure_cert(context)
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}

        host, port = self.url.removeprefix("https://").split(":")
        connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=30)
        with contextlib.closing(connection):
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            return response.status, json.load(response)

    def certificate(self, user: str, group: str | None = None) -> tuple[Path, Path]:
        """A client certificate that the cluster's authority signed."""
        made = self.plane.components.authority.client(user, group)
        return made.certificate, made.key


@contextlib.contextmanager
def running(plane: ControlPlane, kubeconfig: Path, ledger: str) -> Iterator[Service]:
    """Serve the pages in a thread, with the rights of this kubeconfig."""
    ports: list[int] = []
    listening, done = threading.Event(), threading.Event()
    server = plane.components.server

    async def serve() -> None:
        async with (
            Api(read_kubeconfig(str(kubeconfig)), connections=4) as api,
            LedgerInspection(ledger) as inspection,
        ):
            pages = Pages(
                Metrics().registry,
                live={},
                ready={},
                configuration={},
                inspection=InspectionPages(inspection, Authenticator(AccessReviews(api))),
            )
            async with pages:
                await pages.start("127.0.0.1", 0, str(server.certificate), str(server.key))
                trusted = asyncio.Event()

                def trust(authorities: bytes) -> None:
                    pages.trust_clients_of(authorities)
                    trusted.set()

                following = asyncio.create_task(follow_authorities(api, trust))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(2):
                        await trusted.wait()
                ports.append(pages.port)
                listening.set()
                await asyncio.to_thread(done.wait)
                following.cancel()
                await asyncio.wait({following})

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert listening.wait(30)
        yield Service(plane, f"https://127.0.0.1:{ports[0]}")
    finally:
        done.set()
        thread.join(30)


@pytest.fixture
def service(cluster: ControlPlane, ledger: str) -> Iterator[Service]:
    """The service with exactly the rights of the chart."""
    kubeconfig = install(cluster, **ENABLED)
    for name in ("team-a", "team-b"):
        cluster.create_namespace(name)
    with running(cluster, kubeconfig, ledger) as served:
        yield served


def account(plane: ControlPlane, name: str, role: str | None = None) -> str:
    """The token of a new account of team-a, with this ClusterRole in team-a."""
    plane.kubectl("create", "serviceaccount", name, "-n", "team-a")
    if role is not None:
        plane.kubectl(
            "create", "rolebinding", name, "-n", "team-a",
            f"--clusterrole={role}", f"--serviceaccount=team-a:{name}",
        )  # fmt: skip
        wait_for_right(plane, f"system:serviceaccount:team-a:{name}", "team-a")
    return plane.service_account_token("team-a", name)


def wait_for_right(plane: ControlPlane, user: str, namespace: str) -> None:
    right = {"group": API_GROUP, "resource": "groups", "verb": "list", "namespace": namespace}
    plane.wait_until(lambda: is_allowed(plane, user, **right), f"the right of {user}")


# --- Access


def test_access_by_credentials_and_rights(service: Service) -> None:
    plane = service.plane
    viewer = account(plane, "viewer", "view")
    named = account(plane, "named", "afflux-viewer")
    stranger = account(plane, "stranger")

    def code(path: str, **credentials: Any) -> int:
        status, body = service.ask(path, **credentials)
        assert body["kind"] == ("QueueList" if status == 200 else "Status")
        return status

    def codes(**credentials: Any) -> list[int]:
        return [code(path, **credentials) for path in (QUEUE_A, QUEUE_B, QUEUE_ALL)]

    assert codes() == [401, 401, 401]
    assert codes(token="nonsense") == [401, 401, 401]  # noqa: S106
    assert codes(token=stranger[:-4] + "AAAA") == [401, 401, 401]
    assert codes(token=stranger) == [403, 403, 403]
    assert codes(token=viewer) == [200, 403, 403]
    assert codes(token=named) == [200, 403, 403]
    # Certificates: the administrator, then a user without rights whose group gets them.
    admin = plane.components.admin
    assert codes(client=(admin.certificate, admin.key)) == [200, 200, 200]
    bob = service.certificate("bob", "devs")
    assert codes(client=bob) == [403, 403, 403]
    plane.kubectl(
        "create", "clusterrolebinding", "inspection-devs", "--clusterrole=afflux-viewer",
        "--group=devs",
    )  # fmt: skip
    try:
        # Refusals are cached for ten seconds.
        plane.wait_until(lambda: codes(client=bob) == [200, 200, 200], "bob's rights", every=1)
    finally:
        plane.kubectl("delete", "clusterrolebinding", "inspection-devs")
    # A certificate of another authority: the TLS handshake fails, whatever its name.
    mallory = trustme.CA(key_type=trustme.KeyType.ECDSA).issue_cert(
        "x.invalid", common_name="admin", organization_name="system:masters"
    )
    with pytest.raises(OSError):  # noqa: PT011 - of several kinds
        service.ask(QUEUE_ALL, client=mallory)
    # The right can be revoked.
    plane.kubectl("delete", "rolebinding", "viewer", "-n", "team-a")
    plane.wait_until(
        lambda: code(QUEUE_A, token=viewer) == 403, "the right to be gone", seconds=30, every=1
    )


def test_the_response_names_the_rights_that_the_service_lacks(
    cluster: ControlPlane, ledger: str
) -> None:
    kubeconfig = install(cluster)
    token = cluster.service_account_token("default", "default")
    with running(cluster, kubeconfig, ledger) as service:
        status, body = service.ask(QUEUE_A, token)
        assert (status, body["reason"]) == (503, "ServiceUnavailable")
        assert "expected create on tokenreviews" in body["message"]
        assert "inspection.enabled" in body["message"]
        # No client certificate is accepted, as the authorities are unknown.
        admin = cluster.components.admin
        assert service.ask(QUEUE_ALL, client=(admin.certificate, admin.key))[0] == 401


# --- The commands


@pytest.mark.long
def test_the_commands_with_a_kubeconfig(service: Service, tmp_path: Path) -> None:
    plane = service.plane
    account(plane, "viewer", "view")
    kubeconfig = plane.service_account_kubeconfig("team-a", "viewer")
    plugin = tmp_path / "kubectl-afflux"
    plugin.write_text(
        f"#!{sys.executable}\nimport sys\nfrom afflux.cli import kubectl_main\n"
        "sys.exit(kubectl_main())\n"
    )
    plugin.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(afflux.__file__).parents[1]),
        "AFFLUX_SERVICE": service.url,
        "KUBECONFIG": str(kubeconfig),
    }

    def typed(*arguments: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [str(plane.binaries["kubectl"]), "afflux", *arguments],
            capture_output=True,
            text=True,
            env=environment,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    code, out, err = typed("queue", "-n", "team-a")
    assert (code, err) == (0, "")
    assert out.splitlines()[1].split()[:5] == ["default", "2", "train", "2", "waiting"]
    code, out, _ = typed("group", "train", "-n", "team-a")
    assert code == 0
    assert "node-1   1         train-1" in out
    assert "Promised  on 2 machines" in out
    code, out, err = typed("queue", "-A")
    assert (code, out) == (1, "")
    assert "may not list groups.inspect.afflux.dev in all namespaces" in err
    code, _, err = typed("group", "no", "-n", "team-a")
    assert code == 3
    assert "kubectl afflux group: there is no group 'no'" in err


def test_a_scheduler_with_a_ledger_shows_its_groups_to_permitted_users(
    cluster: ControlPlane, schedulers: Schedulers
) -> None:
    """From the pod to the printed table, with only shipped components."""
    config = {"leaderElection": {"resourceName": LEASE}, "serving": SERVING}
    kubeconfig = install(cluster, inspection={"enabled": True}, config=config)
    cluster.create_namespace("team-a")
    account(cluster, "viewer", "view")
    cluster.create_nodes(1, cpu="4")
    server = cluster.components.server
    files = {"certFile": str(server.certificate), "keyFile": str(server.key)}
    with TemporaryDirectory(prefix="ledger-") as directory:
        process = schedulers.make(kubeconfig, serving=files, ledger={"directory": directory})
        process.start(ready=False)
        listens = r"serving health and metrics on .*, port (\d+)"
        process.wait_until(lambda: process.logged(listens) is not None, "the port")
        service = Service(cluster, f"https://127.0.0.1:{process.logged(listens)}")
        admin = cluster.components.admin
        client = (admin.certificate, admin.key)
        sized = {"afflux.dev/group-name": "half", "afflux.dev/group-size": "3"}
        cluster.create_pods(
            [
                pod("runs", namespace="team-a", cpu="3"),
                pod("waits", namespace="team-a", cpu="3"),
                pod("half-0", namespace="team-a", labels=sized),
            ]
        )

        def states() -> dict[str, str]:
            status, body = service.ask(
                f"{QUEUE_A}?state=provisional,waiting,running", client=client
            )
            return {each["name"]: each["state"] for each in body["items"]} if status == 200 else {}

        # There is room for one of `runs` and `waits`.
        known = ["provisional", "running", "waiting"]
        process.wait_until(lambda: sorted(states().values()) == known, "what the ledger knows")
        assert states()["half"] == "provisional"
        viewer = cluster.service_account_kubeconfig("team-a", "viewer")
        done = subprocess.run(
            [
                sys.executable, "-m", "afflux.cli", "queue", "-n", "team-a",
                "--service", service.url, "--kubeconfig", str(viewer),
            ],
            env=os.environ | {"PYTHONPATH": str(Path(afflux.__file__).parents[1])},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "half   1/3   provisional" in done.stdout
        assert process.stop() == 0


# --- The chart


def test_the_chart_grants_exactly_the_rights_that_the_service_needs(cluster: ControlPlane) -> None:
    install(cluster, **ENABLED)
    cluster.wait_for_account(NAMESPACE)
    reviews = {
        ("authentication.k8s.io", "tokenreviews", "", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "", "create"),
    }
    usual = {
        (group, resource, "", verb)
        for group, resources, verbs in EVERYWHERE
        for resource in resources
        for verb in verbs
    }
    default_rights = rights(cluster, NAMESPACE, "default", "default")
    assert rights(cluster, NAMESPACE, "afflux", "default") - default_rights == usual | reviews
    system = rights(cluster, NAMESPACE, "afflux", "kube-system")
    assert ("", "configmaps", "extension-apiserver-authentication", "get") in system
    assert not any(
        resource == "configmaps" and name != "extension-apiserver-authentication"
        for _, resource, name, _ in system
    )
    # The service may review the access of users, but may not list groups itself.
    user = f"system:serviceaccount:{NAMESPACE}:afflux"
    assert not is_allowed(cluster, user, **attributes(API_GROUP, "groups", "list"))


def test_the_chart_has_an_inspection_service_only_over_tls() -> None:
    def services(manifests: list[Manifest]) -> dict[str, Manifest]:
        return {each["metadata"]["name"]: each for each in manifests if each["kind"] == "Service"}

    assert sorted(services(render())) == ["afflux"]
    found = services(render(**ENABLED))
    assert sorted(found) == ["afflux", "afflux-inspection"]
    (port,) = found["afflux-inspection"]["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (443, "metrics")
    with pytest.raises(RuntimeError, match=r"inspection\.enabled: true without config\.serving"):
        render(inspection={"enabled": True})
    long = services(render(fullnameOverride="a" * 63, **ENABLED))
    assert max(map(len, long)) <= 63
    assert (CHART / "templates" / "inspection.yaml").exists()


def test_aggregation_of_the_viewer_role_can_be_turned_off() -> None:
    def labels(**values: Any) -> Manifest:
        manifests = render(**(ENABLED | {"inspection": {"enabled": True, **values}}))
        (viewer,) = (
            each
            for each in manifests
            if each["kind"] == "ClusterRole" and each["metadata"]["name"] == "afflux-viewer"
        )
        return viewer["metadata"]["labels"]

    aggregated = "rbac.authorization.k8s.io/aggregate-to-view"
    assert labels()[aggregated] == "true"
    assert aggregated not in labels(aggregateToView=False)
