from __future__ import annotations

import inspect

import httpx
import pytest

from tests.client.serving import Served, problem, run_record
from wfdash.client import NotFound, TimedOut
from wfdash.client.client import ApiIterator, ApiMethod, Calls

METHODS = [name for name, value in vars(Calls).items() if isinstance(value, ApiMethod | ApiIterator)]


@pytest.mark.parametrize("name", METHODS)
def test_every_call_has_a_signature_and_a_sentence_in_both_clients(name: str) -> None:
    blocking = getattr(Served(problem(404, "not_found")).client(), name)
    awaited = getattr(Served(problem(404, "not_found")).async_client(), name)
    assert inspect.signature(blocking) == inspect.signature(awaited)
    assert blocking.__doc__.rstrip().endswith(".")
    assert blocking.__name__.startswith(name.split("_")[0][:4])


async def test_both_clients_do_the_same() -> None:
    served = Served(httpx.Response(200, json=run_record(status="completed", output=3)))
    with served.client() as client:
        here = client.wait("r1")
    async with served.async_client() as other:
        there = await other.wait("r1")
        assert [one async for one in other.all_runs(most=0)] == []
    assert here == there
    assert served.got[0].url == served.got[1].url
    with pytest.raises(NotFound):
        await Served(problem(404, "not_found")).async_client().run("r1")


def test_a_list_is_read_page_by_page_and_no_further_than_wanted() -> None:
    def page(request: httpx.Request) -> httpx.Response:
        begin = int(request.url.params.get("after") or 0)
        rows = [run_record(id=f"r{n}") for n in range(begin, begin + int(request.url.params["limit"]))]
        return httpx.Response(200, json={"items": rows, "next": str(begin + len(rows))})

    served = Served(page)
    with served.client() as client:
        assert len(list(client.all_runs("status:failed", most=150))) == 150
    assert [request.url.params["limit"] for request in served.got] == ["100", "50"]
    assert served.got[1].url.params["q"] == "status:failed"


def test_a_page_without_rows_that_was_not_looked_for_to_the_end_is_followed_by_the_next() -> None:
    far = {"items": [], "next": "further", "reached": "2026-11-01T00:00:00Z"}
    served = Served(
        httpx.Response(200, json=far), httpx.Response(200, json={"items": [run_record(id="r1")], "next": ""})
    )
    assert [run.id for run in served.client().all_runs("-parcel")] == ["r1"]


def test_waiting_ends_when_the_run_has_ended_or_a_person_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wfdash.client.client.time.sleep", lambda seconds: None)
    states = ["running", "waiting", "running", "failed"]
    served = Served(*(httpx.Response(200, json=run_record(status=status)) for status in states))
    assert served.client().wait("r1", for_people=True).status == "waiting"
    assert served.client().wait("r1").status == "failed"
    assert float(served.got[0].url.params["wait"]) <= 60


def test_waiting_gives_up_after_its_time_and_says_how_the_run_is() -> None:
    served = Served(httpx.Response(200, json=run_record(status="waiting")))
    with pytest.raises(TimedOut, match=r"has not ended in 0\.01 s: it is waiting"):
        served.client().wait("r1", timeout=0.01)
