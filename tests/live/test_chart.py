"""The chart on a real API server: what it grants, what it configures, what the server accepts."""

from installation import install
from testbed import ControlPlane


def test_the_service_account_has_the_rights_of_the_chart_and_no_more(cluster: ControlPlane) -> None:
    config = install(cluster)
    can = ("--kubeconfig", str(config), "auth", "can-i")
    assert (
        cluster.kubectl(*can, "create", "pods", "--subresource=binding", check=False).strip()
        == "yes"
    )
    assert cluster.kubectl(*can, "delete", "pods", check=False).strip() == "no"
    config = install(cluster, config={"leaderElection": {"resourceName": "other"}})
