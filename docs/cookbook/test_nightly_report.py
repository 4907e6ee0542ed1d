from datetime import date

from nightly_report import nightly_report

from wfdash.testing import bench


def three_orders(shop: str) -> tuple[date, int]:
    return date(2026, 11, 22), 3


async def test_the_schedule_sends_usual_numbers_without_asking() -> None:
    async with bench(nightly_report, people=["ana"], roles={"ana": "operator"}) as t:
        await t.schedule("0 6 * * *", {}, by="ana")
        await t.advance("3d")
        assert [run.output for run in t.runs] == ["sent: 104"] * 3


async def test_unusual_numbers_can_be_stopped_until_the_morning() -> None:
    async with bench(nightly_report, people={"ana": ["shop"]}) as t:
        t.replace("orders_of_yesterday", three_orders)
        stopped, late = await t.start({}), await t.start({})
        await t.answer(stopped, "reject", by="ana")
        await t.advance("8h")
        assert [stopped.output, late.output] == ["not sent", "sent: 3"]
