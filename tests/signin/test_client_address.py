from __future__ import annotations

import ipaddress

import pytest

from wfdash.access.signin.attempt_limits import client_address

PROXIES = [ipaddress.ip_network("127.0.0.1"), ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8")]


@pytest.mark.parametrize(
    ("peer", "forwarded", "found"),
    [
        ("203.0.113.7", "", "203.0.113.7"),
        ("127.0.0.1", "203.0.113.7", "203.0.113.7"),
        ("127.0.0.1", "198.51.100.1, 203.0.113.7", "203.0.113.7"),
        ("127.0.0.1", "198.51.100.1, 203.0.113.7, 10.1.2.3", "203.0.113.7"),
        ("127.0.0.1", "203.0.113.7:52110", "203.0.113.7"),
        ("127.0.0.1", "[2001:db8:1:2:3::4]:52110", "2001:db8:1:2::"),
        ("::ffff:127.0.0.1", "2001:db8:1:2:3::4", "2001:db8:1:2::"),
        ("fd00::1", "::ffff:203.0.113.7", "203.0.113.7"),
        ("127.0.0.1", "10.0.0.9", "10.0.0.9"),
        ("127.0.0.1", "203.0.113.7, unknown", ""),
        ("203.0.113.7", "198.51.100.1", "203.0.113.7"),
        ("", "198.51.100.1", ""),
    ],
)
def test_forwarded_addresses_are_believed_as_far_as_own_proxies_wrote_them(peer, forwarded, found) -> None:
    meta = {"REMOTE_ADDR": peer, "HTTP_X_FORWARDED_FOR": forwarded}
    assert client_address(meta, PROXIES, behind=True) == found


def test_without_declared_proxies_no_header_is_believed() -> None:
    meta = {"REMOTE_ADDR": "203.0.113.7", "HTTP_X_FORWARDED_FOR": "198.51.100.1"}
    assert client_address(meta, [], behind=False) == "203.0.113.7"


def test_the_address_of_a_proxy_that_was_not_declared_is_no_one_s() -> None:
    assert client_address({"REMOTE_ADDR": "127.0.0.1"}, [], behind=True) == ""
