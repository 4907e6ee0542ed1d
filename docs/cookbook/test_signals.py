from signals import orders

from wfdash.testing import bench


async def test_an_order_waits_until_all_of_it_is_paid() -> None:
    async with bench(orders) as t:
        run = await t.start({"number": "O-7", "total": "30"})
        await t.signal(run, "paid", {"amount": "10"})
        assert run.status == "waiting"
        await t.signal(run, "paid", {"amount": "20"})
        await t.signal(run, "shipped", {"tracking": "RR-8"})
        assert run.output == "O-7 is on its way: RR-8"


async def test_a_person_decides_what_becomes_of_the_rest() -> None:
    async with bench(orders, people=["ana"]) as t:
        run = await t.start({"number": "O-8", "total": "30"})
        await t.signal(run, "paid", {"amount": "50"})
        await t.answer(run, "keep", by="ana")
        assert run.state == {"rest": "keep"}


async def test_an_order_that_no_one_pays_fails_after_a_week() -> None:
    async with bench(orders) as t:
        run = await t.start({"number": "O-9", "total": "30"})
        await t.advance("7d")
        assert run.status == "failed"
