"""ClusterReader: which members of the groups of the ledger are there after a restart."""

import pytest
from fake_api_server import FakeApiServer, pod

from afflux.groups.entries import GroupEntry, MemberEntry, RecordedGroup
from afflux.groups.group_id import GroupId


@pytest.mark.parametrize("since", ["is being deleted", "names a scheduler that is not ours now"])
def test_a_pod_of_the_ledger_that_is_no_more_ours_to_place_has_left_its_group(since):
    """Its group would wait for it for as long as it exists."""
    server = FakeApiServer()
    labels = {"afflux.dev/group-name": "g", "afflux.dev/group-size": "2"}
    waits = pod("waits", "u-waits", labels=labels)
    if since == "is being deleted":
        waits["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    else:
        waits["spec"]["schedulerName"] = "another"
    server.put(waits)
    register = server.reader.register
    group = GroupId("default", "g", "u-waits")
    members = (MemberEntry("u-waits", "default/waits"),)
    register.restore([RecordedGroup(GroupEntry(group, size=2), members)])
    server.put(pod("later", "u-later", labels=labels))
    server.take_events()
    ((ended,),) = [register.changes.take(0.0)[1]]
    assert (ended.entry.id, ended.how) == (group, "deleted")
    assert register.group_of("u-later") == GroupId("default", "g", "u-later")
