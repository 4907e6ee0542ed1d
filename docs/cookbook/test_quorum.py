import pytest
from quorum import releases


@pytest.mark.parametrize(("service", "need"), [("shop", 2), ("payments", 3)])
async def test_a_release_needs_two_people_and_one_of_payments_three(service: str, need: int) -> None:
    waiting = await releases.run(message={"service": service, "version": "2.4"})
    policy = waiting.requests[0].policy
    assert (policy["by"], policy["not_by"], policy["need"]) == (["release"], ["requester"], need)
    assert policy["on_timeout"] == "reject"
