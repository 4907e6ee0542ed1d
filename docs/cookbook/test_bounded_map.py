import asyncio

from bounded_map import translation

from wfdash.testing import bench

DOCUMENTS = [{"name": f"page {number}", "text": "tea"} for number in range(12)]


async def test_never_more_than_four_run_at_once_and_the_result_is_in_order() -> None:
    running, most = 0, 0

    async def service(text: str) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.005)
        running -= 1
        return text.upper()

    async with bench(translation) as t:
        t.replace("service", service)
        run = await t.start(DOCUMENTS)
        assert list(run.output) == [document["name"] for document in DOCUMENTS]
        assert most == 4


async def test_a_document_whose_service_was_away_is_translated_in_the_end() -> None:
    failures = [OSError("away"), OSError("still away")]

    async def service(text: str) -> str:
        if failures:
            raise failures.pop()
        return text.upper()

    async with bench(translation) as t:
        t.replace("service", service)
        run = await t.start([{"name": "a", "text": "tea"}])
        assert run.output == {"a": "TEA"}
