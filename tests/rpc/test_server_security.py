"""How clients reach the service: loopback, TLS, client certificates, tokens; and what it says of
itself."""

from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
import trustme
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from afflux.model.errors import InputError
from afflux.rpc.proto.firmament import scheduler_pb2 as pb
from afflux.rpc.server_security import SecurityOptions, listen_address, server_credentials
from rpc.firmament_client import FirmamentClient, run, service_process

_CHECK = pb.HealthCheckRequest()


def test_plaintext_is_for_loopback_unless_asked_for():
    for text in ("127.0.0.1:9090", "localhost:9090", "[::1]:9090"):
        assert server_credentials(listen_address(text), SecurityOptions()) is None
    everywhere = listen_address("0.0.0.0:9090")
    with pytest.raises(InputError, match=r"^--listen: 0.0.0.0:9090 is not on loopback; expected"):
        server_credentials(everywhere, SecurityOptions())
    assert server_credentials(everywhere, SecurityOptions(insecure=True)) is None


@pytest.mark.parametrize("text", ["", "9090", ":9090", "host:", "host:x", "host:70000"])
def test_a_wrong_address_is_refused(text: str):
    with pytest.raises(InputError, match=r"^--listen: .* expected HOST:PORT"):
        listen_address(text)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (SecurityOptions(cert_file="x"), "--tls-key-file: missing"),
        (SecurityOptions(key_file="x"), "--tls-cert-file: missing"),
        (SecurityOptions(client_ca_file="x"), "--client-ca-file: needs --tls-cert-file"),
        (SecurityOptions(cert_file="/no", key_file="/no"), "--tls-key-file: '/no': No such file"),
        (SecurityOptions(insecure=True, cert_file="x", key_file="y"), "--insecure: together"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: SecurityOptions, complaint: str):
    with pytest.raises(InputError, match=f"^{complaint}"):
        server_credentials(listen_address("127.0.0.1:0"), options)


async def _code(call: Any) -> grpc.StatusCode:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def test_clients_need_one_of_the_tokens(tmp_path: Path):
    tokens = tmp_path / "tokens"
    tokens.write_text("first\n\nsecond\n")

    async def story():
        security = SecurityOptions(token_file=str(tokens))
        async with (
            service_process(security=security) as process,
            grpc.aio.insecure_channel(f"127.0.0.1:{process.server.port}") as channel,
        ):
            call = FirmamentClient(channel).Check
            for header in (None, "second", "Bearer third", "Bearer ", "Basic first"):
                metadata = (("authorization", header),) if header else ()
                code = await _code(call(_CHECK, metadata=metadata))
                assert code == grpc.StatusCode.UNAUTHENTICATED
            for token in ("first", "second"):
                reply = await call(_CHECK, metadata=(("authorization", f"Bearer {token}"),))
                assert reply.status == pb.SERVING

    run(story())


def test_tls_with_client_certificates(tmp_path: Path):
    ours, theirs = trustme.CA(), trustme.CA()
    cert, key, ca = (tmp_path / name for name in ("cert", "key", "ca"))
    server = ours.issue_cert("127.0.0.1")
    cert.write_bytes(server.cert_chain_pems[0].bytes())
    key.write_bytes(server.private_key_pem.bytes())
    ca.write_bytes(ours.cert_pem.bytes())

    def credentials(issuer: trustme.CA | None) -> grpc.ChannelCredentials:
        root = ours.cert_pem.bytes()
        if issuer is None:
            return grpc.ssl_channel_credentials(root)
        client = issuer.issue_cert("client@example.org")
        return grpc.ssl_channel_credentials(
            root, client.private_key_pem.bytes(), client.cert_chain_pems[0].bytes()
        )

    async def story():
        security = SecurityOptions(cert_file=str(cert), key_file=str(key), client_ca_file=str(ca))
        async with service_process(security=security) as process:
            address = f"127.0.0.1:{process.server.port}"
            for issuer, expected in (
                (ours, grpc.StatusCode.OK),
                (None, grpc.StatusCode.UNAVAILABLE),
                (theirs, grpc.StatusCode.UNAVAILABLE),
            ):
                async with grpc.aio.secure_channel(address, credentials(issuer)) as channel:
                    assert await _code(FirmamentClient(channel).Check(_CHECK)) == expected

    run(story())


def test_a_second_service_on_the_port_is_refused():
    async def story():
        async with service_process() as process:
            from afflux.rpc.firmament_service import FirmamentService
            from afflux.rpc.server import Server
            from afflux.rpc.service_cluster import ServiceCluster

            async def no_pass() -> None:
                pass

            second = Server(FirmamentService(ServiceCluster(), no_pass))
            taken = listen_address(f"127.0.0.1:{process.server.port}")
            with pytest.raises(InputError, match=r"^--listen: .* a free port"):
                await second.start(taken, SecurityOptions())

    run(story())


def test_the_service_answers_standard_health_checks_and_describes_itself():
    async def story():
        async with (
            service_process() as process,
            grpc.aio.insecure_channel(f"127.0.0.1:{process.server.port}") as channel,
        ):
            health = health_pb2_grpc.HealthStub(channel)
            for name in ("", "firmament.FirmamentScheduler"):
                answer = await health.Check(health_pb2.HealthCheckRequest(service=name))
                assert answer.status == health_pb2.HealthCheckResponse.SERVING
            reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
            asked = reflection_pb2.ServerReflectionRequest(list_services="")
            answers = [each async for each in reflection.ServerReflectionInfo(iter([asked]))]
            names = [each.name for each in answers[0].list_services_response.service]
            assert "firmament.FirmamentScheduler" in names

    run(story())
