"""The page about LangGraph: its graphs are served as they are shown, and ask as it says."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

pytest.importorskip("langgraph")

from tests.engines.langgraph.rides import Ride, asked, output
from wfdash.engines import catalog

PAGE = Path(__file__).parents[2] / "docs/langgraph.md"


async def test_the_graph_of_the_page_is_served_asks_and_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, text in re.findall(r'```python title="([\w.]+)"\n(.*?)```', PAGE.read_text(), re.DOTALL):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    found = await asyncio.to_thread(catalog.read, ["essays.py", "served.py", "approval.py"])
    assert found.failures == []
    assert list(found.entries) == ["essays", "reviewed_essays", "transfers"]
    assert found.entries["reviewed_essays"].description.title == "Essays"

    transfer = Ride(found.entries["transfers"].definition)
    assert asked(await transfer.start({"amount": 500})) == ["Transfer 500?"]
    assert transfer.checkpoint.requests[0].answer_schema["type"] == "boolean"
    assert output(await transfer.answer(False))["status"] == "rejected"

    ride = Ride(found.entries["reviewed_essays"].definition)
    assert asked(await ride.start({"topic": "rain"})) == ["Publish the essay about rain?"]
    (request,) = ride.checkpoint.requests
    assert (request.card["proposal"], request.by) == ({"text": "All about rain."}, ("editors",))
    assert output(await ride.answer("yes"))["log"] == ["written", "reviewed: yes"]
