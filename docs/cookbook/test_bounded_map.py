import asyncio

import bounded_map
import pytest
from bounded_map import translation


async def test_never_more_than_four_run_at_once_and_the_result_is_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    running, most = 0, 0

    async def service(text: str) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.005)
        running -= 1
        return text.upper()

    monkeypatch.setattr(bounded_map, "service", service)
    documents = [{"name": f"page {number}", "text": "tea"} for number in range(20)]
    finished = await translation.run(message=documents)
    assert list(finished.output) == [f"page {number}" for number in range(20)]
    assert most == 4


async def test_a_document_whose_service_was_away_is_translated_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [OSError("away"), OSError("still away")]

    async def service(text: str) -> str:
        if failures:
            raise failures.pop()
        return text.upper()

    monkeypatch.setattr(bounded_map, "service", service)
    finished = await translation.run(message=[{"name": "a", "text": "tea"}])
    assert finished.output == {"a": "TEA"}
