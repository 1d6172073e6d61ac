"""Host ports and attachments as resources: which ports conflict, and default capacities."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afflux.model.implied_resources import (
    UNLIMITED_ATTACHMENTS,
    HostPort,
    ResourceKind,
    attachment_resource,
    capacity_of,
    default_capacity,
    is_volume,
    kind_of,
    port_requests,
    volume_resource,
)
from afflux.model.resources import resources

ports = st.builds(
    HostPort,
    st.sampled_from(("TCP", "UDP")),
    st.sampled_from((80, 443)),
    st.sampled_from((None, "10.0.0.1", "10.0.0.2", "::")),
)


def clash(one: HostPort, other: HostPort) -> bool:
    """The rule as kube-scheduler states it."""
    if (one.protocol, one.port) != (other.protocol, other.port):
        return False
    return one.address is None or other.address is None or one.address == other.address


@given(st.lists(st.lists(ports, max_size=4), max_size=6))
def test_tasks_fit_together_exactly_if_no_two_ports_conflict(tasks: list[list[HostPort]]):
    asked = [port_requests(of) for of in tasks]
    names = {name for each in asked for name in each}
    fits = all(sum(each.get(n, 0) for each in asked) <= default_capacity(n) for n in names)
    assert fits == (
        not any(
            clash(one, other)
            for number, mine in enumerate(tasks)
            for theirs in tasks[number + 1 :]
            for one, other in product(mine, theirs)
        )
    )


@given(st.lists(ports, max_size=5), st.randoms())
def test_order_and_duplicates_of_ports_do_not_matter(wanted: list[HostPort], rng):
    again = [*wanted, *wanted]
    rng.shuffle(again)
    assert resources(port_requests(again)) == resources(port_requests(wanted))


def test_a_port_on_every_address_includes_every_single_address():
    everywhere = HostPort("TCP", 80)
    assert port_requests([everywhere, HostPort("TCP", 80, "10.0.0.1")]) == port_requests(
        [everywhere]
    )


@pytest.mark.parametrize(
    ("name", "amount"),
    [
        ("cpu", 0),
        ("example.com/port", 0),
        (attachment_resource("disk.example.com"), UNLIMITED_ATTACHMENTS),
        (volume_resource("local"), 0),
        *((name, 1) for name in port_requests([HostPort("TCP", 80, "::")]) if "@" in name),
    ],
)
def test_default_capacity_applies_where_no_amount_is_stated(name: str, amount: int):
    assert default_capacity(name) == amount
    assert capacity_of((("cpu", 0),), name) == amount


def test_a_stated_capacity_of_zero_replaces_the_default():
    disk = attachment_resource("disk.example.com")
    assert capacity_of(((disk, 3),), disk) == 3
    assert capacity_of(((disk, 0),), disk) == 0


def test_available_volumes_are_not_attachments():
    name = volume_resource("local")
    assert is_volume(name)
    assert kind_of(attachment_resource("disk.example.com")) is ResourceKind.ATTACHMENT
    assert not is_volume(attachment_resource("disk.example.com"))
    assert not is_volume(str(name)), "a manifest cannot name it"
    assert capacity_of(((name, 2),), name) == 2
