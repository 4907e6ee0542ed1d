from datetime import date

import nightly_report
import pytest


async def test_usual_numbers_are_sent_without_asking() -> None:
    finished = await nightly_report.nightly_report.run(message={})
    assert finished.output == "sent: 104"


async def test_unusual_numbers_wait_for_the_shop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nightly_report, "orders_of_yesterday", counted_three)
    waiting = await nightly_report.nightly_report.run(message={})
    (request,) = waiting.requests
    assert request.card["subject"] == "3 orders on 2026-11-22 instead of 100: send the report?"
    assert request.policy["on_timeout"] == "approve"


def counted_three(shop: str) -> tuple[date, int]:
    return date(2026, 11, 22), 3
