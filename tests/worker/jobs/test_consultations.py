"""A server that has loaded no code asks a worker that has: it can do what needs the code, or refuses in time."""

from __future__ import annotations

import html
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Annotated, Any

import pytest
from django.db import connection, connections
from django.db.models import Count
from django.test import Client
from django.utils import timezone
from pydantic import AfterValidator, BaseModel

from checkpoints.database.runs import read_row
from checkpoints.database.storage import write
from checkpoints.ids import new_token
from checkpoints.models import AuditEntry, Checkpoint, Claim, Consultation, HumanRequest, Run
from checkpoints.models import Event as RunEvent
from tests.driving import drive, put
from tests.people import make_people, save, viewer
from tests.worker.conftest import until
from tests.worker.graphs import expense
from tests.worker.jobs.test_without_code import asking_expense, changed_chat
from tests.workflow.world import flow
from wfdash import pubsub
from wfdash.actions.checkpoints import fork_run
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs.lifecycle import cancel_run, pause_run, start_run
from wfdash.actions.runs.migrate import migrate_run, override_run
from wfdash.contract import Edits, InFlight
from wfdash.domain.errors import CodeElsewhere, Invalid, NotAllowed, NotFound
from wfdash.engines import catalog, published
from wfdash.engines.native import NativeEngine
from wfdash.engines.published import AuthorCodeFailed, ShowsCode, WorkerReply
from wfdash.installation.workflow_sources import SourceFile
from wfdash.queries import timemachine, workers
from wfdash.queries.checkpoints.checkpoint import read_editing
from wfdash.queries.checkpoints.preview import read_preview
from wfdash.queries.runs.versions import migration_plan
from wfdash.queries.workers import WorkerConsult, forget_unread, reply_next
from wfdash.queries.workflows import PublishedReader, code_of
from wfdash.worker import consultations
from wfdash.worker.serving import start_heartbeat, stop_heartbeat
from wfdash.workflow import Context, Workflow

pytestmark = pytest.mark.django_db(transaction=True)

entered, released = Event(), Event()


def even(number: int) -> int:
    if number == 13:
        raise RuntimeError("a bug of the author")
    if number == 99:
        entered.set()
        released.wait(20)
    if number % 2:
        raise ValueError("must be even")
    return number


class Order(BaseModel):
    amount: Annotated[int, AfterValidator(even)]
    note: str = "none"


def strict() -> Workflow:
    """Types of an author that refuse more than their schemas say."""

    async def take(order: Order, ctx: Context) -> int:
        return int((await ctx.ask("How many?", answer=Order)).amount)

    return flow(take, name="strict")


@pytest.fixture
def strict_elsewhere(loaded, unload, otto) -> list[catalog.Entry]:
    put(loaded, strict())
    return unload()


def send(web: Client, path: str, content: Any) -> Any:
    return web.post(f"/api/v1/{path}", json.dumps(content), "application/json")


def fail_if_asked(*_: Any, **__: Any) -> None:
    raise AssertionError("a worker was asked")


def test_a_checkpoint_is_edited_with_the_code_of_a_worker(loaded, unload, start_replies, otto, web) -> None:
    run = asking_expense(loaded, otto)
    chosen = Checkpoint.objects.filter(run=run).latest("n")
    start_replies(*unload())
    place = f"runs/{run.pk}/checkpoints/{chosen.pk}"

    assert 'name="m2:amount"' in web.get(f"/{place}/edit/").content.decode()
    typed = {"m2:amount": "7", "state:_json": "{}", "_what": "fork"}
    assert "Fork from checkpoint" in web.post(f"/{place}/edit/", typed).content.decode()
    refused = send(web, f"{place}/fork", {"edits": {"messages": {"2": {"amount": "x"}}}})
    assert (refused.status_code, refused.json()["errors"][0]["loc"]) == (422, ["messages", "2", "amount"])
    edits = {"edits": {"messages": {"2": {"amount": 7}}, "reason": "was wrong"}}
    previewed = send(web, f"{place}/preview", {"verb": "fork", **edits}).json()
    assert (previewed["note"], previewed["again"][0]["step"]) == ("", "review")
    assert previewed["changes"] == [{"step": "review", "before": {"amount": 5}, "after": {"amount": 7}}]
    made = send(web, f"{place}/fork", edits)
    assert made.status_code == 201
    entry = AuditEntry.objects.get(verb="fork")
    assert (entry.actor, entry.facts["words"]) == ("otto", ["review restarts with edited input"])
    assert not Consultation.objects.exists()
    put(loaded, expense())
    assert drive(made.json()["id"]) == "waiting"


@pytest.mark.parametrize("act", [cancel_run, partial(pause_run, now=True)], ids=["cancel", "pause"])
def test_what_is_interrupted_is_named_by_a_worker_before_the_run_is_fenced(
    loaded, unload, start_replies, otto, monkeypatch, act
) -> None:
    put(loaded, expense())
    run, moved_on = (start_run(otto, "expense", {"amount": 5}) for _ in range(2))
    assert [drive(one) for one in (run, moved_on)] == ["waiting", "waiting"]
    later = timezone.now() + timedelta(hours=1)
    for one in (run, moved_on):
        Claim.objects.create(run=one, token=new_token(), worker="w1", epoch=9, expires=later)
    monkeypatch.setattr(NativeEngine, "in_flight", lambda *_, **__: InFlight(steps=("review",)))
    start_replies(*unload())
    act(otto, run.pk)
    ended = RunEvent.objects.filter(run=run).latest("seq")
    assert (ended.kind.split(".")[1] in {"cancelled", "paused"}, ended.data["fenced"]) == (True, ["review"])
    assert AuditEntry.objects.get(run=run.pk, verb__in=["cancel", "pause"]).facts["fenced"] == ["review"]

    stale = timemachine.AtCheckpoint(checkpoint="an earlier one", found=InFlight(steps=("review",)))
    monkeypatch.setattr(timemachine, "asked_before", lambda run: stale)
    act(otto, moved_on.pk)
    said = RunEvent.objects.filter(run=moved_on).latest("seq").data
    assert "fenced" not in said, "it is true of that checkpoint alone"


def test_a_run_is_cancelled_also_where_the_code_of_its_worker_fails(
    loaded, unload, start_replies, otto, monkeypatch
) -> None:
    run = asking_expense(loaded, otto)
    monkeypatch.setattr(NativeEngine, "in_flight", lambda *_, **__: 1 / 0)
    start_replies(*unload())
    assert cancel_run(otto, run.pk).phase == "cancelled"


def test_the_code_of_a_workflow_is_shown_by_a_worker_to_those_who_may_read_it(
    loaded, unload, start_replies, otto, web, tmp_path, settings, monkeypatch
) -> None:
    source = tmp_path / "expense.py"
    source.write_text("def review():\n    pass\n")
    put(loaded, expense())
    files = (SourceFile(path=source, text=source.read_text(), steps={"review": (1, 2)}),)
    loaded.entries["expense"] = replace(loaded.entries["expense"], code=files)
    entries = unload()
    assert "none has answered" in web.get("/workflows/expense/").content.decode()
    start_replies(*entries)
    shown = web.get("/workflows/expense/").content.decode()
    assert 'id="step-review"' in shown
    assert "as a worker has loaded it" in shown
    source.unlink()
    (file,) = web.get("/api/v1/workflows/expense/code").json()["items"]
    assert file == {
        "path": str(source),
        "text": "def review():\n    pass\n",
        "steps": {"review": [1, 2]},
        "changed": False,
    }, "as it was a moment ago: it is asked for once a minute"
    monkeypatch.setattr(workers, "_exchange", fail_if_asked)
    make_people()
    vera, sam = viewer("vera"), viewer("sam")
    assert (code_of(vera, "expense"), code_of(sam, "expense")) == ((), ())
    settings.WFDASH_SHOW_CODE = False
    assert code_of(otto, "expense") == ()


def test_a_worker_that_shows_no_code_publishes_and_replies_none(loaded, unload, settings) -> None:
    settings.WFDASH_SHOW_CODE = False
    put(loaded, expense())
    files = (SourceFile(path=Path("expense.py"), text="secret", steps={}),)
    loaded.entries["expense"] = replace(loaded.entries["expense"], code=files)
    (entry,) = unload()
    asked = question(entry, ability="code", given={})
    assert reply_next("w1", [entry])
    asked.refresh_from_db()
    assert asked.reply["result"] == []
    assert not isinstance(catalog.get("expense").engine, ShowsCode)


def test_a_repeated_edit_is_the_first_one_where_no_worker_runs_any_more(loaded, unload, start_replies, otto) -> None:
    run = asking_expense(loaded, otto)
    chosen = Checkpoint.objects.filter(run=run).latest("n")
    start_replies(*unload())
    edits = Edits(messages={"2": {"amount": 7}})
    first = fork_run(otto, run.pk, chosen.pk, edits=edits, key="k")
    stop_heartbeat("w1")
    assert fork_run(otto, run.pk, chosen.pk, edits=edits, key="k") == first
    with pytest.raises(CodeElsewhere):
        fork_run(otto, run.pk, chosen.pk, edits=edits, key="another")


def test_a_run_of_another_version_is_migrated_or_continued_with_the_code_of_a_worker(
    loaded, unload, start_replies, otto, web
) -> None:
    put(loaded, expense())
    renamed, kept = (start_run(otto, "expense", {"amount": 5}) for _ in range(2))
    assert [drive(run) for run in (renamed, kept)] == ["waiting", "waiting"]
    put(loaded, expense(step="check", was=["review"]))
    start_replies(*unload())

    assert "Migrate this run?" in web.get(f"/runs/{renamed.pk}/migrate/").content.decode()
    assert send(web, f"runs/{renamed.pk}/migrate", {}).status_code == 200
    assert HumanRequest.objects.get(run=renamed, closed=None).step == "check"
    assert send(web, f"runs/{kept.pk}/override", {}).status_code == 200
    assert set(AuditEntry.objects.values_list("verb", "actor")) >= {("migrate", "otto"), ("override graph", "otto")}
    put(loaded, expense(step="check", was=["review"]))
    answer_request(otto, HumanRequest.objects.get(run=renamed, closed=None).pk, 7)
    assert drive(renamed) == "completed"


def test_a_run_that_the_code_cannot_migrate_is_refused_with_its_reason(
    loaded, unload, start_replies, otto, web
) -> None:
    run = asking_expense(loaded, otto)
    put(loaded, expense(step="other"))
    start_replies(*unload())
    refused = send(web, f"runs/{run.pk}/migrate", {})
    assert (refused.status_code, refused.json()["code"]) == (409, "incompatible")
    assert "review" in refused.json()["detail"]
    assert refused.json()["detail"] in html.unescape(web.get(f"/runs/{run.pk}/migrate/").content.decode())


def test_input_and_answers_are_judged_by_the_authors_types(strict_elsewhere, loaded, start_replies, otto) -> None:
    start_replies(*strict_elsewhere)
    with pytest.raises(Invalid) as refusal:
        start_run(otto, "strict", {"amount": 3})
    assert refusal.value.by_field == {"amount": "Must be even"}
    run = start_run(otto, "strict", {"amount": 4})
    put(loaded, strict())
    assert drive(run) == "waiting"
    loaded.entries.clear()
    PublishedReader().read()
    question = HumanRequest.objects.get(run=run)
    with pytest.raises(Invalid) as refusal:
        answer_request(otto, question.pk, {"amount": 5})
    assert refusal.value.by_field == {"amount": "Must be even"}
    answer_request(otto, question.pk, {"amount": 6})


def test_input_is_judged_by_its_schema_alone_where_no_worker_replies(strict_elsewhere, otto, monkeypatch) -> None:
    monkeypatch.setattr(workers, "SHORT_PATIENCE", 0.1)
    with pytest.raises(Invalid):
        start_run(otto, "strict", {"amount": "x"})
    assert start_run(otto, "strict", {"amount": 3}).input == {"amount": 3}
    start_heartbeat("silent", {"strict": catalog.get("strict").description.version})
    assert start_run(otto, "strict", {"amount": 3}).input == {"amount": 3}
    assert not Consultation.objects.exists()
    monkeypatch.setattr(workers, "_exchange", fail_if_asked)
    assert start_run(otto, "strict", {"amount": 3}).input == {"amount": 3}, "it is not waited for again soon"


def test_a_conversation_under_a_changed_workflow_goes_on_with_the_code_of_a_worker(
    loaded, unload, start_replies, otto, web
) -> None:
    first, changed = changed_chat(loaded, otto)
    start_replies(*unload())
    sent = send(web, f"runs/{first.pk}/follow-up", {"message": "two"})
    assert sent.status_code == 201
    put(loaded, changed)
    assert drive(sent.json()["id"]) == "completed"
    assert Run.objects.get(pk=sent.json()["id"]).output == ["one", "two", "signed"]


def test_people_without_the_right_are_refused_before_a_worker_is_asked(loaded, unload, otto, monkeypatch) -> None:
    make_people()
    run = asking_expense(loaded, otto)
    chosen = Checkpoint.objects.filter(run=run).latest("n")
    Run.objects.filter(pk=run.pk).update(version="old")
    unload()
    monkeypatch.setattr(WorkerConsult, "_ask", fail_if_asked)
    edits = Edits(state={"seen": 1})
    for name, error in (("sam", NotFound), ("vera", NotAllowed)):
        person = viewer(name)
        for refused in (
            lambda person=person: migrate_run(person, run.pk),
            lambda person=person: override_run(person, run.pk),
            lambda person=person: fork_run(person, run.pk, chosen.pk, edits=edits),
            lambda person=person: read_editing(person, run.pk, chosen.pk),
            lambda person=person: read_preview(person, run.pk, chosen.pk, edits=edits),
            lambda person=person: migration_plan(person, run.pk, override=False),
        ):
            with pytest.raises(error):
                refused()


def question(entry: catalog.Entry, amount: int = 4, **facts: Any) -> Consultation:
    """What a server has asked."""
    known = {"workflow": entry.name, "version": entry.description.version, "ability": "check_input"}
    given = {"message": {"amount": amount}}
    return Consultation.objects.create(id=new_token(), **{**known, "given": given, "created": timezone.now(), **facts})


def test_a_worker_replies_only_for_the_version_that_it_has(strict_elsewhere) -> None:
    (entry,) = strict_elsewhere
    question(entry, version="other")
    question(entry, workflow="another")
    assert not reply_next("w1", [entry])
    mine = question(entry)
    assert reply_next("w1", [entry])
    mine.refresh_from_db()
    assert mine.worker == "w1"
    assert mine.reply == {"result": {"amount": 4, "note": "none"}}, "nothing that a server of an earlier release lacks"
    assert not reply_next("w1", [entry])


def test_each_question_is_answered_by_one_of_several_workers(strict_elsewhere) -> None:
    (entry,) = strict_elsewhere
    for _ in range(12):
        question(entry)
    counts = dict.fromkeys(("w1", "w2", "w3"), 0)

    def answer(name: str) -> None:
        try:
            while reply_next(name, [entry]):
                counts[name] += 1
        finally:
            connections.close_all()

    threads = [Thread(target=answer, args=[name]) for name in counts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not Consultation.objects.filter(reply__isnull=True).exists()
    rows = Consultation.objects.values_list("worker").annotate(n=Count("pk"))
    assert dict(rows) == {name: count for name, count in counts.items() if count}


def test_only_what_is_registered_can_be_asked_for(strict_elsewhere, caplog) -> None:
    (entry,) = strict_elsewhere
    for facts in (
        {"ability": "drive"},
        {"ability": "describe", "given": {}},
        {"ability": "_result"},
        {"given": {"message": {}, "definition": 1}},
        {"given": []},
    ):
        forged = question(entry, **facts)
        assert reply_next("w1", [entry])
        forged.refresh_from_db()
        assert forged.reply["unread"]
    assert caplog.text.count("A server of another release") == 5


def test_a_worker_of_another_release_is_named_where_a_schema_cannot_stand_in(
    strict_elsewhere, start_replies, otto, web, monkeypatch
) -> None:
    start_replies(*strict_elsewhere)
    monkeypatch.setattr(workers, "perform", lambda *_: WorkerReply(unread=True))
    assert start_run(otto, "strict", {"amount": 3}).input == {"amount": 3}, "by its schema alone"
    monkeypatch.setattr(workers, "perform", lambda *_: NewerReply(later=1))
    described, given = strict_elsewhere[0].description, published.GivenMessage(message={})
    with pytest.raises(CodeElsewhere, match="runs another release of wfdash"):
        WorkerConsult()("strict", described.version, "edit", given, required=True)


class NewerReply(WorkerReply):
    later: int


@pytest.mark.parametrize("other", [WorkerReply(unread=True), NewerReply(later=1)], ids=["question", "reply"])
def test_what_a_worker_of_another_release_cannot_answer_is_answered_by_one_that_can(
    strict_elsewhere, start_replies, otto, monkeypatch, other
) -> None:
    perform, asked = workers.perform, list[str]()

    def perform_here(*asks: Any) -> WorkerReply:
        asked.append(Consultation.objects.get().worker)
        if len(asked) == 1:
            return other
        time.sleep(0.1)  # The server looks several times before this one replies.
        return perform(*asks)

    monkeypatch.setattr(workers, "perform", perform_here)
    monkeypatch.setattr(workers, "LOOKS", 0.01)
    for name in ("w1", "w2"):
        start_replies(*strict_elsewhere, name=name)
    with pytest.raises(Invalid):
        start_run(otto, "strict", {"amount": 3})
    assert sorted(asked) == ["w1", "w2"], "each was asked once"
    assert not Consultation.objects.exists()


def test_what_no_worker_can_read_is_refused_with_that_reason_without_a_wait(
    strict_elsewhere, start_replies, monkeypatch
) -> None:
    monkeypatch.setattr(workers, "perform", lambda *_: WorkerReply(unread=True))
    monkeypatch.setattr(workers, "REPLY_SECONDS", 60.0)
    for name in ("w1", "w2"):
        start_replies(*strict_elsewhere, name=name)
    version, given = strict_elsewhere[0].description.version, published.GivenMessage(message={})
    began = time.monotonic()
    with pytest.raises(CodeElsewhere, match="runs another release of wfdash"):
        WorkerConsult()("strict", version, "edit", given, required=True)
    assert time.monotonic() - began < 30


def test_a_question_that_is_withdrawn_at_this_moment_keeps_no_other_from_a_reply(strict_elsewhere, monkeypatch) -> None:
    (entry,) = strict_elsewhere
    minute = timedelta(minutes=1)
    withdrawn, other = question(entry, created=timezone.now() - minute), question(entry)

    @contextmanager
    def and_withdraw() -> Iterator[None]:
        with write():
            yield
        Consultation.objects.filter(pk=withdrawn.pk).delete()

    monkeypatch.setattr(workers, "write", and_withdraw)
    assert reply_next("w1", [entry])
    other.refresh_from_db()
    assert other.reply["result"] == {"amount": 4, "note": "none"}


def test_an_exception_of_author_code_is_logged_by_the_worker(strict_elsewhere, start_replies, otto, caplog) -> None:
    start_replies(*strict_elsewhere)
    with pytest.raises(AuthorCodeFailed, match="RuntimeError"):
        start_run(otto, "strict", {"amount": 13})
    assert "a bug of the author" in caplog.text
    start_run(otto, "strict", {"amount": 4})


def test_code_that_hangs_is_logged_and_others_are_still_answered(
    strict_elsewhere, start_replies, otto, monkeypatch, caplog
) -> None:
    monkeypatch.setattr(workers, "SHORT_PATIENCE", 0.3)
    monkeypatch.setattr(workers, "SILENT_SECONDS", 0.0)
    monkeypatch.setattr(consultations, "SLOW_SECONDS", 0.2)
    entered.clear(), released.clear()
    worker = start_replies(*strict_elsewhere)
    try:
        assert start_run(otto, "strict", {"amount": 99}).input == {"amount": 99}, "by its schema alone"
        assert entered.is_set()
        monkeypatch.setattr(workers, "SHORT_PATIENCE", 10.0)
        with pytest.raises(Invalid):
            start_run(otto, "strict", {"amount": 3})
        until(lambda: "check_input of workflow strict takes longer than 0.2 s" in caplog.text)
    finally:
        released.set()
    worker.stop()
    assert not Consultation.objects.exists(), "a reply that comes late leaves nothing"


def test_what_needs_the_code_is_refused_in_time_and_withdrawn_where_a_worker_was_killed(
    loaded, unload, otto, web, monkeypatch
) -> None:
    monkeypatch.setattr(workers, "REPLY_SECONDS", 0.2)
    run = asking_expense(loaded, otto)
    chosen = Checkpoint.objects.filter(run=run).latest("n")
    (entry,) = unload()
    start_heartbeat("killed", {"expense": entry.description.version})
    place = f"runs/{run.pk}/checkpoints/{chosen.pk}"
    refused = send(web, f"{place}/fork", {"edits": {"state": {"seen": 1}}})
    assert (refused.status_code, refused.json()["code"]) == (503, "code_elsewhere")
    assert "no worker answered within" in refused.json()["detail"]
    typed = {"m2:amount": "7", "state:_json": "{}", "_what": "fork", "_reason": "was <wrong>"}
    kept = web.post(f"/{place}/edit/", typed)
    assert (kept.status_code, 'value="was &lt;wrong&gt;"' in kept.content.decode()) == (503, True)
    assert (Run.objects.count(), Consultation.objects.count()) == (1, 0)


def test_questions_of_servers_that_ended_are_removed(strict_elsewhere) -> None:
    (entry,) = strict_elsewhere
    question(entry, created=timezone.now() - timedelta(minutes=2))
    fresh = question(entry)
    assert (forget_unread(10), Consultation.objects.get().pk) == (1, fresh.pk)


def test_the_age_of_a_question_is_by_the_databases_clock(monkeypatch) -> None:
    now = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: now - timedelta(minutes=5))
    asked: list[Any] = []
    monkeypatch.setattr(workers, "_wait", lambda row, *_: asked.append(Consultation.objects.get(pk=row.id).created))
    start_heartbeat("w1", {"strict": "1"})
    WorkerConsult()("strict", "1", "check_input", published.GivenMessage(message={}), required=False)
    assert asked[0] >= now - timedelta(seconds=1)


def test_nothing_is_asked_within_a_transaction(strict_elsewhere, otto, monkeypatch) -> None:
    monkeypatch.setattr(WorkerConsult, "_ask", fail_if_asked)
    engine: Any = catalog.get("strict").engine
    with write():
        assert engine.check_input(None, {"amount": 3}) == {"amount": 3}
        run = start_run(otto, "strict", {"amount": 4})
        record = read_row(Checkpoint.objects.get(pk=save(run).pk))
        assert engine.in_flight(None, record) == InFlight()
        with pytest.raises(RuntimeError, match="inside a transaction"):
            engine.look_ahead(None, record, timezone.now())


def test_a_question_finds_its_worker_where_no_signal_arrives(
    strict_elsewhere, start_replies, otto, monkeypatch
) -> None:
    monkeypatch.setattr(pubsub.consultations_due, "publish", lambda *_: None)
    monkeypatch.setattr(pubsub.consultations_ended, "publish", lambda *_: None)
    start_replies(*strict_elsewhere)
    with pytest.raises(Invalid):
        start_run(otto, "strict", {"amount": 3})


def test_what_is_asked_and_replied_is_encrypted_where_content_is(strict_elsewhere, settings) -> None:
    settings.WFDASH_ENCRYPTION_KEYS = "a-secret-that-is-long-enough-to-be-one,plain"
    (entry,) = strict_elsewhere
    question(entry, given={"message": {"amount": 4, "note": "the secret note"}})
    assert reply_next("w1", [entry])
    with connection.cursor() as cursor:
        cursor.execute("SELECT given, reply FROM checkpoints_consultation")
        assert "secret note" not in repr(cursor.fetchall())
    assert Consultation.objects.get().reply["result"]["note"] == "the secret note"


def test_what_is_too_large_for_a_row_is_refused(strict_elsewhere, otto, monkeypatch) -> None:
    monkeypatch.setattr(published, "LARGEST_ASKED", 200)
    (entry,) = strict_elsewhere
    start_heartbeat("w1", {"strict": entry.description.version})
    asked: Any = catalog.get("strict").engine
    run = start_run(otto, "strict", {"amount": 4, "note": "x" * 300})
    with pytest.raises(CodeElsewhere, match="more than 16 MB"):
        asked.look_ahead(None, read_row(Checkpoint.objects.get(pk=save(run).pk)), timezone.now())
    question(entry, given={"message": {"amount": 4, "note": "x" * 300}})
    assert reply_next("w1", [entry])
    assert Consultation.objects.get().reply["refusal"] == "Unsupported"
