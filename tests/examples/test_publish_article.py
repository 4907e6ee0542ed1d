from __future__ import annotations

from typing import Any

from tests.examples.runs import answer_one, cut_after_each_checkpoint, output, waiting
from wfdash.contract import Outcome, Waiting
from wfdash.examples.publish_article import publish_article

APPROVE = {"action": "approve"}


async def start(**fields: Any) -> Outcome:
    return await publish_article.run({"title": "Hello", "text": "First *words*.", "cool_down": 0, **fields})


def send_back(comment: str) -> dict[str, str]:
    return {"action": "reject", "reason": comment}


async def test_an_approved_article_is_published_as_html():
    outcome = await start()
    (request,) = waiting(outcome)
    assert request.by == ("editors",)
    result = output(await answer_one(publish_article, outcome, APPROVE, by="ben"))
    assert result == {
        "slug": "hello",
        "html": "<h1>Hello</h1>\n<p>First <em>words</em>.</p>\n",
        "words": 2,
        "comments": [],
    }


async def test_the_editors_own_version_is_published():
    outcome = await answer_one(publish_article, await start(), {"action": "edit", "edited": "Better words."})
    assert "<p>Better words.</p>" in output(outcome)["html"]


async def test_an_article_goes_back_and_forth_until_it_is_good():
    outcome = await start()
    for number in (1, 2):
        outcome = await answer_one(publish_article, outcome, send_back(f"again {number}"), by="ben")
        (revision,) = waiting(outcome)
        assert revision.kind == "form"
        assert revision.card["body"] == f"again {number}"
        outcome = await answer_one(publish_article, outcome, {"text": f"Version {number}."})
    (request,) = waiting(outcome)
    assert request.card["current"] == "Version 1."
    assert request.card["proposal"] == "Version 2."
    result = output(await answer_one(publish_article, outcome, APPROVE))
    assert result["comments"] == ["again 1", "again 2"]
    assert "<p>Version 2.</p>" in result["html"]


async def test_a_crash_after_every_checkpoint_changes_nothing():
    outcome = await cut_after_each_checkpoint(
        publish_article, message={"title": "Hello", "text": "Words.", "cool_down": 0}
    )
    for value in (send_back("again"), {"text": "Better words."}, APPROVE):
        (request,) = waiting(outcome)
        outcome = await cut_after_each_checkpoint(
            publish_article, checkpoint=outcome.checkpoint, answers={request.key: value}
        )
    assert output(outcome)["html"] == "<h1>Hello</h1>\n<p>Better words.</p>\n"
    assert output(outcome)["comments"] == ["again"]


async def test_the_cool_down_parks_the_run_until_its_time():
    outcome = await answer_one(publish_article, await start(cool_down=3600), APPROVE)
    assert isinstance(outcome, Waiting)
    assert outcome.requests == ()
    assert outcome.until is not None


async def test_the_text_is_streamed_and_its_progress_told():
    outcome = await start(text="one two three " * 20)
    (request,) = waiting(outcome)
    stream = publish_article.run_stream(checkpoint=outcome.checkpoint, answers={request.key: APPROVE})
    events = [event async for event in stream]
    assert "".join(event.data["text"] for event in events if event.kind == "stream") == "one two three " * 20
    assert [event.data["fraction"] for event in events if event.kind == "progress"] == [25 / 60, 50 / 60, 1.0]
