import pytest
from quorum import releases

from wfdash.testing import NotAllowed, VoteCount, bench

PEOPLE = {"ana": ["release"], "ben": ["release"], "cem": ["release"], "cleo": ["cto"], "otto": ["release"]}
ROLES = {"otto": "operator"}
SHOP = {"service": "shop", "version": "2.4"}


async def test_two_others_have_to_agree() -> None:
    async with bench(releases, people=PEOPLE, roles=ROLES) as t:
        run = await t.start(SHOP, by="otto")
        with pytest.raises(NotAllowed):
            await t.answer(run, "approve", by="otto")
        assert await t.answer(run, "approve", by="ana") == VoteCount(votes=1, need=2, decided=False)
        await t.answer(run, "approve", by="ben")
        assert run.output == "shop 2.4 is live"


async def test_payments_need_three_and_one_rejection_is_enough() -> None:
    async with bench(releases, people=PEOPLE) as t:
        run = await t.start({**SHOP, "service": "payments"})
        await t.answer(run, "approve", by="ana")
        await t.answer(run, "approve", by="ben")
        assert run.status == "waiting"
        await t.answer(run, "reject", reason="Not on a Friday", by="cem")
        assert run.output == "rejected: Not on a Friday"


async def test_after_four_hours_the_cto_decides_too_and_after_eight_it_is_a_no() -> None:
    async with bench(releases, people=PEOPLE) as t:
        first, second = await t.start(SHOP), await t.start(SHOP)
        await t.advance("4h")
        await t.answer(first, "approve", by="cleo")
        await t.answer(first, "approve", by="ana")
        await t.advance("4h")
        assert [first.output, second.output] == ["shop 2.4 is live", "too late"]
