"""afflux queue, group, reservations and history: where they send the query, what they print."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import trustme
import yaml
from inspection_values import HISTORY, LINES, Known
from run_afflux import Afflux, Answer
from served_inspection import Service, keep_states_in

from afflux.cli import kubectl_main, main
from afflux.cli.inspection_arguments import INSPECTIONS
from afflux.cycle.ledger_entries import LedgerBatch
from afflux.groups.entries import GroupChange, GroupEntry
from afflux.groups.group_id import GroupId
from afflux.ledger.directories import default_directory
from afflux.ledger.embedded_postgres import EmbeddedPostgres
from afflux.ledger.postgres import PostgresLedger

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
GOOD = {"token": "good"}


# --- Answers


def test_the_default_namespace_is_that_of_the_kubeconfig(ask: Callable[..., Answer]) -> None:
    answer = ask("queue")
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[0].split()[:5] == ["QUEUE", "POSITION", "GROUP", "SIZE", "STATE"]
    assert [line.split()[2] for line in lines[1:]] == ["train", "sweep", "serve", "half"]


def test_options_select_other_namespaces(ask: Callable[..., Answer]) -> None:
    answer = ask("queue", "-n", "team-b", who="great")
    assert [line.split()[2] for line in answer.out.splitlines()[1:]] == ["wide", "\\x1b[31mevil"]
    everything = ask("queue", "-A", who="great").out.splitlines()
    assert everything[0].startswith("NAMESPACE")
    assert len(everything) == 1 + len(LINES)


def test_json_is_the_answer_of_the_service(ask: Callable[..., Answer]) -> None:
    listed = ask("queue", "-A", "-o", "json", who="great").json
    assert listed["kind"] == "QueueList"
    assert listed["apiVersion"] == "inspect.afflux.dev/v1alpha1"
    assert listed["metadata"] == {
        "time": "2027-01-15T08:00:00Z",
        "continue": "",
        "remainingItemCount": 0,
    }
    assert [item["name"] for item in listed["items"]] == [line.name for line in LINES]
    yaml_too = ask("queue", "-A", "-o", "yaml", who="great")
    assert yaml.safe_load(yaml_too.out) == listed


@pytest.mark.parametrize(
    ("command", "kind"), [("reservations", "ReservationList"), ("history", "HistoryList")]
)
def test_reservations_and_history_are_listed(
    ask: Callable[..., Answer], command: str, kind: str
) -> None:
    assert ask(command, "-o", "json").json["kind"] == kind
    assert ask(command).out.startswith("GROUP")
    assert "PRIORITY" in ask(command, "-o", "wide").out


def test_a_group_is_shown_with_its_members(ask: Callable[..., Answer]) -> None:
    assert ask("group", "train").out.startswith("Name:           train\n")
    assert ask("group", "train", "-o", "json").json["kind"] == "GroupDetails"
    wide = ask("group", "train", "-o", "wide")
    assert "MEMBER" in wide.out


def test_all_pages_are_printed_as_one_list(ask: Callable[..., Answer], known: Known) -> None:
    known.page = 2
    listed = ask("queue", "-A", "-o", "json", who="great").json
    assert [item["name"] for item in listed["items"]] == [line.name for line in LINES]
    assert [asked.continue_token for asked in known.asked] == ["", "2", "4"]


def test_a_limited_list_says_that_there_is_more(ask: Callable[..., Answer], known: Known) -> None:
    answer = ask("history", "-A", "--limit", "2", who="great")
    assert len(answer.out.splitlines()) == 3
    assert answer.err == "1 more; --limit shows so many\n"
    assert ask("history").err == ""
    assert known.asked[-1].limit == 100
    assert len(HISTORY) == 3


def test_an_empty_list_is_an_answer(ask: Callable[..., Answer]) -> None:
    answer = ask("queue", "-n", "empty", who="great")
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == "No groups wait in namespace empty.\n"
    assert ask("queue", "-n", "empty", "-o", "json", who="great").json["items"] == []


def waiting(namespace: str, name: str) -> GroupChange:
    return GroupChange(GroupEntry(GroupId(namespace, name, ""), ready_seconds=1.8e9))


def test_the_ledger_can_be_queried_directly(afflux: Afflux) -> None:
    """Without a service and a kubeconfig: `--database` with an address or a directory."""

    async def write(embedded: EmbeddedPostgres) -> None:
        ledger = PostgresLedger(embedded.address)
        await ledger.take_over(None)
        groups = (waiting("a", "g"), waiting("default", "g"))
        await ledger.commit(LedgerBatch(groups=groups))
        await ledger.close()

    # The path of a socket must be short.
    with TemporaryDirectory(prefix="ledger-") as directory:
        embedded = EmbeddedPostgres(directory)
        address = embedded.start()
        try:
            asyncio.run(write(embedded))
            for database in (address, directory):
                names = [
                    (item["namespace"], item["position"])
                    for item in afflux("queue", "--database", database, "-A", "-o", "json").json[
                        "items"
                    ]
                ]
                assert names == [("a", 1), ("default", 2)]
            answer = afflux("queue", "--database", directory)
            assert [line.split()[1:3] for line in answer.out.splitlines()[1:]] == [["2", "g"]]
            assert afflux("group", "no", "--database", directory).code == 3
        finally:
            embedded.stop()
    refused = afflux("queue", "--database", "postgresql://me:hunter2@127.0.0.1:1/x")
    assert refused.code == 1
    assert "the ledger cannot be reached" in refused.err
    assert "hunter2" not in refused.err


def test_without_options_the_default_ledger_on_this_machine_is_queried(
    afflux: Afflux, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is the default ledger of `afflux run` for the kubeconfig's cluster."""

    async def write(embedded: EmbeddedPostgres) -> None:
        ledger = PostgresLedger(embedded.address)
        await ledger.take_over(None)
        await ledger.commit(LedgerBatch(groups=(waiting("team-a", "here"),)))
        await ledger.close()

    kubeconfig = service.kubeconfig(GOOD)
    with TemporaryDirectory(prefix="ledger-") as states:
        keep_states_in(states, monkeypatch)
        embedded = EmbeddedPostgres(default_directory("https://127.0.0.1:1", "kube-system/afflux"))
        embedded.start()
        try:
            asyncio.run(write(embedded))
            answer = afflux("queue", "--kubeconfig", kubeconfig)
        finally:
            embedded.stop()
    assert [line.split()[2] for line in answer.out.splitlines()[1:]] == ["here"]


# --- Refusals


def test_an_unknown_group_is_exit_code_3(ask: Callable[..., Answer]) -> None:
    answer = ask("group", "no")
    assert (answer.code, answer.out) == (3, "")
    assert (
        "afflux group: there is no group 'no' in namespace 'team-a'; `afflux queue`" in answer.err
    )


def test_missing_access_is_reported_with_the_right_that_is_needed(
    ask: Callable[..., Answer],
) -> None:
    answer = ask("queue", "-A")
    assert (answer.code, answer.out) == (1, "")
    assert "403 Forbidden: user 'good' may not list groups.inspect.afflux.dev" in answer.err
    assert "(-n)" in answer.err
    unknown = ask("queue", who="bad")
    assert unknown.code == 1
    assert "401 Unauthorized: the API server does not accept this token" in unknown.err


def test_the_client_certificate_of_the_kubeconfig_is_sent(afflux: Afflux, service: Service) -> None:
    def asked(authority: trustme.CA) -> Answer:
        leaf = authority.issue_cert("x.invalid", common_name="great")
        cert, key = service.folder / "me.crt", service.folder / "me.key"
        leaf.cert_chain_pems[0].write_to_path(str(cert))
        leaf.private_key_pem.write_to_path(str(key))
        user = {"client-certificate": str(cert), "client-key": str(key)}
        kubeconfig = service.kubeconfig(user)
        return afflux("queue", "-A", "--service", service.url, "--kubeconfig", kubeconfig)

    assert asked(service.authority).code == 0
    wrong = asked(trustme.CA(key_type=trustme.KeyType.ECDSA))
    assert wrong.code == 1
    assert "if it does not know the authority of your client certificate" in wrong.err


def test_the_certificate_of_the_service_is_verified(afflux: Afflux, service: Service) -> None:
    other = service.folder / "other.crt"
    trustme.CA(key_type=trustme.KeyType.ECDSA).cert_pem.write_to_path(str(other))
    kubeconfig = service.kubeconfig(GOOD)
    usual = ("queue", "--service", service.url, "--kubeconfig", kubeconfig)
    answer = afflux(*usual, "--certificate-authority", other)
    assert answer.code == 1
    assert "the server's certificate is not accepted" in answer.err
    assert service.known.asked == []
    # Behind a port-forward the address is not the name in the certificate.
    named = afflux(*usual, "--tls-server-name", "afflux-inspection.afflux-system.svc")
    assert named.code == 0
    assert "not accepted" in afflux(*usual, "--tls-server-name", "else.where").err


def test_an_unreachable_service_is_reported_in_one_line(afflux: Afflux, service: Service) -> None:
    kubeconfig = service.kubeconfig(GOOD)
    answer = afflux("queue", "--service", "https://127.0.0.1:1", "--kubeconfig", kubeconfig)
    assert answer.code == 1
    assert "cannot connect to 127.0.0.1:1: Connection refused" in answer.err
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["queue"], "no ledger is kept for https://127.0.0.1:1; expected the address of the"),
        (["queue", "--context", "y"], "for which cluster a ledger would be kept here is not known"),
        (["queue", "--service", "http://x:1"], "--service: 'http://x:1', expected https://host"),
        (["queue", "--service", "https://me:pw@x"], "expected https://host:port"),
        (["queue", "--service", "https://[x"], "expected https://host:port"),
        (["queue", "--service", "https://x", "--database", "y"], "expected one of the two"),
        (["queue", "--service", "https://x", "-n", "A_b"], "--namespace: 'A_b', expected a name"),
        (["queue", "--service", "https://x", "-n", "a", "-A"], "expected one of the two"),
        (["queue", "--database", "/no/where"], "expected postgresql://user@host:port/name"),
        (["queue", "--limit", "0"], "'0'; expected an integer from 1 to"),
        (["queue", "--state", "finished"], "'finished'; expected some of provisional"),
        (["queue", "--request-timeout", "x"], "'x'; expected a time such as 10s"),
        (["queue", "-o", "xml"], "'xml'; expected one of json"),
        (["group", "--service", "https://x"], "NAME"),
        (["group", "a/b", "--service", "https://x"], "its namespace goes behind --namespace"),
        (["group", "x", "-A"], "-A"),
    ],
)
def test_invalid_arguments_are_refused(
    afflux: Afflux, service: Service, arguments: list[str], complaint: str
) -> None:
    kubeconfig = service.kubeconfig(GOOD)
    assert complaint in afflux(*arguments, "--kubeconfig", kubeconfig).complaint


# --- The environment, and kubectl


def test_the_address_can_come_from_the_environment(
    afflux: Afflux, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFFLUX_SERVICE", service.url)
    monkeypatch.setenv("KUBECONFIG", str(service.kubeconfig(GOOD)))
    assert afflux("queue").code == 0
    # Options override the environment.
    assert afflux("queue", "--database", "/no/where").code == 2


def test_kubectl_afflux_is_the_same_program(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AFFLUX_SERVICE", service.url)
    monkeypatch.setenv("KUBECONFIG", str(service.kubeconfig(GOOD)))
    monkeypatch.setattr("sys.argv", ["kubectl-afflux", "group", "no"])
    assert kubectl_main() == 3
    assert capsys.readouterr().err.startswith("kubectl afflux group: there is no group 'no'")
    assert main(["--help"], program="kubectl afflux") == 0
    shown = capsys.readouterr().out
    assert all(command in shown for command in INSPECTIONS)
    assert "simulate" not in shown
    assert 'kubectl-afflux = "afflux.cli:kubectl_main"' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize("command", INSPECTIONS)
def test_help_fits_on_a_screen(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([command, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 50
    assert max(map(len, lines)) <= 80
