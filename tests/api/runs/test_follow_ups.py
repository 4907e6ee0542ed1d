"""Follow-ups through the API, the client and the command line."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest

from checkpoints.models import Checkpoint, Event, Run
from tests import people
from tests.cli.conftest import here, say
from tests.driving import drive, put
from tests.worker.graphs import chat
from wfdash.actions.runs.lifecycle import follow_up, start_run
from wfdash.engines import catalog
from wfdash.engines.catalog import Catalog

__all__ = ["here", "say"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def first(monkeypatch, _paper_catalog, everybody) -> Run:
    """A completed run of a chat."""
    found = Catalog()
    monkeypatch.setattr(catalog, "load", lru_cache(lambda: found))
    put(found, chat())
    run = start_run(people.viewer("otto"), "chat", {"text": "one"})
    assert drive(run) == "completed"
    return run


def post(client: Any, run: Run, message: Any, **headers: str) -> Any:
    address = f"/api/v1/runs/{run.pk}/follow-up"
    return client.post(address, {"message": message}, content_type="application/json", headers=headers)


def test_a_follow_up_is_sent_once_and_found_with_its_thread(first, as_) -> None:
    otto = as_("otto")
    assert otto.get(f"/api/v1/runs/{first.pk}").json()["takes_follow_up"] is True
    answers = [post(otto, first, "two", **{"Idempotency-Key": "k"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    (later,) = {answer.json()["id"] for answer in answers}
    assert drive(later) == "completed"
    found = otto.get(f"/api/v1/runs/{later}").json()
    assert (found["follows"], found["thread"], found["output"]) == (first.pk, first.pk, ["one", "two"])
    earlier = otto.get(f"/api/v1/runs/{first.pk}").json()
    assert (earlier["follows"], earlier["thread"], earlier["takes_follow_up"]) == (None, first.pk, False)
    listed = otto.get("/api/v1/runs", {"q": f"thread:{first.pk}"}).json()["items"]
    assert [one["id"] for one in listed] == [later, first.pk]


def test_a_key_is_refused_for_another_message(first, as_) -> None:
    key = {"Idempotency-Key": "k"}
    assert post(as_("otto"), first, "two", **key).status_code == 201
    before = Event.objects.count()
    again = post(as_("otto"), first, "three", **key)
    assert (again.status_code, again.json()["code"]) == (409, "key_reused")
    assert Event.objects.count() == before


def test_refusals_say_why_and_what_to_do(first, as_) -> None:
    wrong = post(as_("otto"), first, {"text": "two"})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid")
    assert [post(as_(name), first, "two").status_code for name in ("vera", "sam")] == [403, 404]
    later = post(as_("otto"), first, "two").json()["id"]
    second = post(as_("adam"), first, "also two")
    assert (second.status_code, second.json()["code"], second.json()["run"]) == (409, "already_followed", later)
    assert post(as_("otto"), Run.objects.get(pk=later), "three").json()["detail"].startswith("Only a completed run")


def test_the_catalogue_has_the_schema_of_a_follow_up(first, as_) -> None:
    found = as_("otto").get("/api/v1/workflows/chat").json()
    assert found["follow_up_schema"] == {"title": "Message", "type": "string"}
    assert found["input_schema"]["title"] == "Question"


def test_the_preview_of_its_beginning_shows_the_message_everywhere(first, as_, say) -> None:
    later = follow_up(people.viewer("otto"), first.pk, "two <b>&</b> \x1b[31mred")
    assert drive(later) == "completed"
    beginning = Checkpoint.objects.get(run=later, n=1)
    place = f"runs/{later.pk}/checkpoints/{beginning.pk}"
    found = as_("otto").post(f"/api/v1/{place}/preview", {}, content_type="application/json").json()
    assert (found["message_due"], found["message"]) == (True, later.input)
    page = as_("otto").get(f"/{place}/restore/").content.decode()
    assert "with the run’s message again" in page
    assert "two &lt;b&gt;&amp;&lt;/b&gt;" in page
    assert "the run had ended here" not in page
    _, text, _ = say("checkpoints", "preview", later.pk, "1", "--as", "otto")
    assert 'continues with its message: "two <b>&</b> \\u001b[31mred"\n' in text
