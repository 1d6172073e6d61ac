"""The certificate authority of the control plane, and the certificates that it signs."""

from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass(frozen=True, slots=True)
class Certificate:
    """The files of a certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates of servers on loopback and of clients (user name and group)."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700)
        self._directory = directory
        # P-256: creating an RSA key takes longer than starting an API server.
        self._authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        self.certificate = directory / "ca.crt"
        self._authority.cert_pem.write_to_path(self.certificate)

    def server(self, name: str) -> Certificate:
        """A certificate for a server on loopback."""
        return self._write(
            name, self._authority.issue_cert("127.0.0.1", "localhost", common_name=name)
        )

    def client(self, user: str, group: str | None = None) -> Certificate:
        """A client certificate: the common name is the user, the organisation the group."""
        # Go refuses a certificate with an empty critical list of alternative names.
        leaf = self._authority.issue_cert(
            "client.testbed.invalid", common_name=user, organization_name=group
        )
        return self._write(user.replace(":", "-"), leaf)

    def _write(self, name: str, leaf: trustme.LeafCert) -> Certificate:
        certificate = self._directory / f"{name}.crt"
        key = self._directory / f"{name}.key"
        leaf.private_key_pem.write_to_path(key)
        for number, blob in enumerate(leaf.cert_chain_pems):
            blob.write_to_path(certificate, append=number > 0)
        return Certificate(certificate, key)
