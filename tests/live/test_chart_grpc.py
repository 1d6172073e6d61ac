"""The chart with the gRPC service: a pod of its own without rights, and what it refuses."""

from pathlib import Path
from typing import Any

import pytest
from chart_installation import render
from testbed import Manifest

from afflux.cli.arguments import ServeOptions, parse
from afflux.config import read_configuration
from afflux.rpc.server_security import listen_address


def named(manifests: list[Manifest], kind: str) -> Manifest:
    name = "afflux-grpc"
    (found,) = (e for e in manifests if e["kind"] == kind and e["metadata"]["name"] == name)
    return found


def container(manifests: list[Manifest]) -> Manifest:
    (found,) = named(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    return found


def test_it_is_off_by_default() -> None:
    assert "afflux-grpc" not in str(render())


def test_its_arguments_and_configuration_can_be_read(tmp_path: Path) -> None:
    config = {"policies": [{"name": "load-spreading"}], "strategy": "easy"}
    secrets = {"tlsSecret": "tls", "clientCertificates": True, "tokensSecret": "tokens"}
    manifests = render(grpc={"enabled": True, "config": config, **secrets})
    options = parse(container(manifests)["args"])
    assert isinstance(options, ServeOptions)
    assert not listen_address(options.listen).is_loopback
    assert not options.insecure
    mounts = {each["mountPath"] for each in container(manifests)["volumeMounts"]}
    for path in (
        options.config,
        options.state,
        options.tls_cert_file,
        options.tls_key_file,
        options.client_ca_file,
        options.token_file,
    ):
        assert path
        assert str(Path(path).parent) in mounts
    file = tmp_path / "config.yaml"
    file.write_text(named(manifests, "ConfigMap")["data"]["config.yaml"])
    settings = read_configuration(str(file)).settings
    assert (settings.policies[0].name, settings.strategy) == ("load-spreading", "easy")


def test_its_account_has_no_rights_and_no_token() -> None:
    manifests = render(grpc={"enabled": True, "insecure": True})
    account = named(manifests, "ServiceAccount")["metadata"]["name"]
    spec = named(manifests, "Deployment")["spec"]["template"]["spec"]
    assert (spec["serviceAccountName"], spec["automountServiceAccountToken"]) == (account, False)
    bound = [each["name"] for it in manifests for each in it.get("subjects", ())]
    assert account not in bound


def test_only_its_own_services_select_its_pod() -> None:
    manifests = render(grpc={"enabled": True, "insecure": True})
    labels = named(manifests, "Deployment")["spec"]["template"]["metadata"]["labels"]
    selecting = [
        each["metadata"]["name"]
        for each in manifests
        if each["kind"] == "Service" and each["spec"]["selector"].items() <= labels.items()
    ]
    assert selecting == ["afflux-grpc"]


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({}, "grpc.tlsSecret: missing, expected a Secret"),
        ({"insecure": True, "tlsSecret": "tls"}, "grpc.insecure: true together with"),
        (
            {"insecure": True, "clientCertificates": True},
            "grpc.clientCertificates: true without grpc.tlsSecret",
        ),
    ],
)
def test_values_that_contradict_each_other_are_refused(
    values: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(RuntimeError, match=complaint):
        render(grpc={"enabled": True, **values})
