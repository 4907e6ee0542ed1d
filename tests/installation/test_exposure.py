from __future__ import annotations

import pytest

from wfdash.installation.environment import is_loopback, refusal_text, refusals

RIGHT = {"WFDASH_HOSTS": "flows.example.org", "WFDASH_HTTPS": "1"}


@pytest.mark.parametrize(
    ("host", "only_here"),
    [
        *(("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("localhost", True), ("[::1]", True)),
        *(("0.0.0.0", False), ("::", False), ("192.168.1.4", False), ("flows.example.org", False), ("", False)),
    ],
)
def test_loopback_is_told_from_what_others_reach(host: str, only_here: bool) -> None:
    assert is_loopback(host) is only_here


@pytest.mark.parametrize(
    ("change", "demo", "remedy"),
    [
        ({"WFDASH_HOSTS": ""}, False, "Set WFDASH_HOSTS"),
        ({"WFDASH_HOSTS": "flows.example.org, *"}, False, "List the host names"),
        ({"WFDASH_DEBUG": "1"}, False, "WFDASH_DEBUG=1 shows"),
        ({"WFDASH_RELOAD": "1"}, False, "--reload runs"),
        ({}, True, "--demo adds"),
        ({"WFDASH_HTTPS": "0"}, False, "set WFDASH_HTTPS=1"),
    ],
)
def test_what_is_dangerous_before_others_is_refused_with_the_way_out(
    change: dict[str, str], demo: bool, remedy: str
) -> None:
    (words,) = refusals(host="0.0.0.0", demo=demo, env=RIGHT | change)
    assert remedy in words
    assert remedy in refusal_text([words], "0.0.0.0")


def test_behind_a_proxy_on_this_machine_the_same_is_refused() -> None:
    env = RIGHT | {"WFDASH_DEBUG": "1", "WFDASH_HOSTS": "*"}
    assert len(refusals(host="127.0.0.1", demo=True, env=env)) == 3


def test_what_is_served_to_this_machine_alone_may_be_anything() -> None:
    assert refusals(host="127.0.0.1", demo=True, env={"WFDASH_DEBUG": "1", "WFDASH_HOSTS": "*"}) == []


@pytest.mark.parametrize("transport", [{"WFDASH_HTTPS": "1"}, {"WFDASH_HTTPS": "0", "WFDASH_PLAIN_HTTP": "1"}])
def test_a_proper_deployment_starts(transport: dict[str, str]) -> None:
    assert refusals(host="0.0.0.0", demo=False, env=RIGHT | transport) == []
