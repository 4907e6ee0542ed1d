"""What a server does with runs whose code only workers have loaded while none of them runs: most of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from checkpoints.models import Checkpoint, Event, HumanRequest, Run
from tests.driving import drive, put
from tests.people import row_of
from tests.worker.graphs import chat, expense
from wfdash.actions.checkpoints import fork_run, restore_run
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs.lifecycle import cancel_run, retry_run, start_run
from wfdash.domain.errors import Invalid
from wfdash.queries.runs.listing import read_run

pytestmark = pytest.mark.django_db(transaction=True)


def send(web: Client, path: str, content: Any) -> Any:
    return web.post(f"/api/v1/{path}", json.dumps(content), "application/json")


def asking_expense(loaded, otto):
    put(loaded, expense())
    run = start_run(otto, "expense", {"amount": 5})
    assert drive(run) == "waiting"
    return run


def count() -> tuple[int, int, int]:
    return Run.objects.count(), Checkpoint.objects.count(), Event.objects.count()


def test_checkpoints_are_edited_elsewhere_and_restored_forked_and_answered_here(loaded, unload, otto, web) -> None:
    run = asking_expense(loaded, otto)
    chosen = Checkpoint.objects.filter(run=run).latest("n")
    place, page = f"runs/{run.pk}/checkpoints/{chosen.pk}", f"/runs/{run.pk}/checkpoints/{chosen.pk}/"
    unload()
    before = row_of(run.pk), count()

    for verb in ("restore", "fork"):
        refused = send(web, f"{place}/{verb}", {"edits": {"state": {"seen": 7}}})
        assert (refused.status_code, refused.json()["code"]) == (503, "code_elsewhere")
        shown = web.get(f"{page}{verb}/")
        assert (shown.status_code, "No worker with its code answers" in shown.content.decode()) == (200, True)
        assert send(web, f"{place}/preview", {"verb": verb}).json()["again"][0]["step"] == "review"
    assert "no running worker has loaded this version" in web.get(f"/api/v1/{place}/edits").json()["refusal"]
    typed = {"state:seen": "7", "_what": "fork", "_reason": "was <wrong>"}
    kept = web.post(f"{page}edit/", typed)
    assert kept.status_code == 503
    assert '<input type="hidden" name="state:seen" value="7">' in kept.content.decode()
    assert 'value="was &lt;wrong&gt;"' in kept.content.decode()
    assert web.post(f"/runs/{run.pk}/override/", {}).status_code == 302, "there is nothing to override"
    assert (row_of(run.pk), count()) == before

    fork = fork_run(otto, run.pk, chosen.pk)
    restore_run(otto, run.pk, chosen.pk)
    put(loaded, expense())
    assert [drive(one) for one in (run, fork)] == ["waiting", "waiting"]
    unload()
    asked = HumanRequest.objects.get(run=run, closed=None)
    with pytest.raises(Invalid):
        answer_request(otto, asked.pk, "much")
    answer_request(otto, asked.pk, 7)
    assert cancel_run(otto, fork.pk).phase == "cancelled"
    put(loaded, expense())
    assert drive(run) == "completed"


def test_a_run_of_another_version_is_migrated_elsewhere(loaded, unload, otto, web) -> None:
    run = asking_expense(loaded, otto)
    put(loaded, expense(extra=True))
    unload()
    before = row_of(run.pk), count()
    for verb in ("migrate", "override"):
        refused = send(web, f"runs/{run.pk}/{verb}", {})
        assert (refused.status_code, refused.json()["code"]) == (503, "code_elsewhere")
        for answer in (web.get(f"/runs/{run.pk}/{verb}/"), web.post(f"/runs/{run.pk}/{verb}/", {})):
            assert "This needs the code of" in answer.content.decode()
        assert answer.status_code == 503
    assert (row_of(run.pk), count()) == before


def test_a_failed_run_is_retried_here(loaded, unload, otto) -> None:
    put(loaded, expense())
    run = start_run(otto, "expense", {"amount": 5})
    Run.objects.filter(pk=run.pk).update(phase="failed")
    unload()
    assert retry_run(otto, run.pk).phase == "ready"
    put(loaded, expense())
    assert drive(run) == "waiting"


def test_a_conversation_goes_on_here_by_the_schema_of_its_message(loaded, unload, otto, web) -> None:
    put(loaded, chat())
    first = start_run(otto, "chat", {"text": "one"})
    assert drive(first) == "completed"
    unload()
    before = count()
    assert read_run(otto, first.pk).takes_follow_up
    assert "run-follow-up-title" in web.get(f"/runs/{first.pk}/").content.decode()
    refused = send(web, f"runs/{first.pk}/follow-up", {"message": {"text": "two"}})
    assert (refused.status_code, count()) == (422, before)
    sent = send(web, f"runs/{first.pk}/follow-up", {"message": "two"})
    assert sent.status_code == 201
    put(loaded, chat())
    second = Run.objects.get(pk=sent.json()["id"])
    assert drive(second) == "completed"
    assert Run.objects.get(pk=second.pk).output == ["one", "two"]


def changed_chat(loaded, otto):
    """Return a completed run, and the workflow of another version that is loaded now."""
    put(loaded, chat())
    first = start_run(otto, "chat", {"text": "one"})
    assert drive(first) == "completed"
    changed = chat()
    changed.step(after="reply", name="sign")(lambda said: [*said, "signed"])
    put(loaded, changed)
    return first, changed


def test_a_conversation_under_a_changed_workflow_goes_on_elsewhere_and_the_message_stays(
    loaded, unload, otto, web
) -> None:
    first, _ = changed_chat(loaded, otto)
    unload()
    before = count()
    refused = send(web, f"runs/{first.pk}/follow-up", {"message": "two"})
    assert (refused.status_code, refused.json()["code"]) == (503, "code_elsewhere")
    page = web.post(f"/runs/{first.pk}/follow-up/", {"nextvalue": "my <second> message"})
    assert page.status_code == 503
    assert "my &lt;second&gt; message" in page.content.decode()
    assert count() == before
