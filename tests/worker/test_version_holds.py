"""A run that meets another graph under a real worker: carried over, held, released; answers stay."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from checkpoints.errors import Incompatible
from checkpoints.models import Answer, Checkpoint, Claim, Event, HumanRequest, Run
from checkpoints.models.fields import StoredDocument
from tests.driving import put
from tests.people import kinds, make_people, make_run, row_of, viewer
from tests.worker.conftest import phase_of, reaches, until
from tests.worker.graphs import expense
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs import migrate
from wfdash.actions.runs.lifecycle import pause_run, resume_run, start_run
from wfdash.actions.runs.migrate import migrate_run, override_run
from wfdash.domain.errors import NotAllowed, NotFound, WrongState
from wfdash.engines import catalog
from wfdash.engines.catalog import Catalog, TimeLimit
from wfdash.queries import timemachine
from wfdash.queries.runs.listing import read_run
from wfdash.queries.step_states import count_states, step_transitions
from wfdash.queries.workers import unserved
from wfdash.web.pages.runs.header import head, plain
from wfdash.worker import serving, sweeps
from wfdash.worker import serving as heartbeat
from wfdash.worker.serving import Serving, start_heartbeat, stop_heartbeat
from wfdash.workflow import Workflow
from wfdash.workflow.authoring import Migration

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.process]


@pytest.fixture
def serve(monkeypatch) -> Callable[..., None]:
    """Make the catalogue hold this workflow and nothing else; None for an empty one."""
    found = Catalog()
    monkeypatch.setattr(catalog, "load", lambda: found)

    return lambda workflow: found.entries.clear() if workflow is None else put(found, workflow)


@pytest.fixture
def wait(otto, serve, start_worker) -> Callable[..., Run]:
    """Start a run of the first version, let it come to its question, and stop the worker."""

    def begin(workflow: Workflow | None = None) -> Run:
        serve(workflow or expense())
        worker = start_worker()
        run = start_run(otto, "expense", {"amount": 5})
        until(reaches(run, "waiting"))
        worker.stop()
        return run

    return begin


@pytest.fixture
def hold(wait, serve, otto, start_worker) -> Callable[..., Run]:
    """Let a run be answered under a graph to which nothing leads."""

    def begin(workflow: Workflow | None) -> Run:
        run = wait()
        serve(workflow)
        start_worker()
        answer_request(otto, HumanRequest.objects.get().id, 7)
        until(reaches(run, "paused"))
        return run

    return begin


def output(run: Run) -> object:
    until(reaches(run, "completed"))
    return Run.objects.get(pk=run.pk).output


def test_a_renamed_step_is_carried_over_by_itself_and_its_answer_counts(otto, wait, serve, start_worker):
    run = wait()
    new = expense(step="check", was="review")
    serve(new)
    answer_request(otto, HumanRequest.objects.get().id, 7)
    start_worker()
    assert output(run) == "paid 7"
    event = Event.objects.get(run=run, kind="run.migrated")
    assert (event.data["how"], event.data["words"]) == ("alias", ["review was renamed check"])
    migrated = Checkpoint.objects.get(run=run, reason="migrate")
    assert (migrated.version, migrated.seq, migrated.waiting) == (new.version, event.seq, 1)
    assert HumanRequest.objects.get().step == "check"
    assert {step: counts.state for step, counts in count_states(step_transitions(run.pk)).items()} == dict.fromkeys(
        ("read", "check", "pay"), "done"
    )
    assert Run.objects.get(pk=run.pk).version == new.version


def test_a_declared_hook_is_taken_by_itself_and_its_state_is_written(otto, wait, serve, start_worker):
    run = wait()
    new = expense(step="decide", extra=True)

    @new.migrate(from_version=run.version)
    def hook(migration: Migration) -> None:
        migration.rename("review", "decide")
        migration.state["note"] = "migrated"

    serve(new)
    answer_request(otto, HumanRequest.objects.get().id, 7)
    start_worker()
    assert output(run) == "paid 7, filed"
    assert "run.held" not in kinds(run)


def test_a_run_that_nothing_carries_over_is_held_with_what_changed_and_keeps_its_answer(hold):
    run = hold(expense(extra=True))
    run.refresh_from_db()
    assert (run.error["type"], run.acted_by, run.n) == ("Incompatible", "", 3)
    assert not Claim.objects.exists()
    event = Event.objects.get(run=run, kind="run.held")
    assert event.data["words"] == ["added: archive"]
    assert event.data["from"] == run.version
    request = HumanRequest.objects.get()
    assert (request.closed, Answer.objects.get(request=request).value) == (None, 7)


def test_a_held_run_goes_on_by_itself_once_its_old_code_is_there_again(hold, serve, monkeypatch):
    monkeypatch.setattr(sweeps, "HELD_SECONDS", 0.05)
    run = hold(expense(extra=True))
    serve(expense())
    assert output(run) == "paid 7"
    assert "run.released" in kinds(run)


def test_a_run_whose_workflow_no_worker_has_is_left_and_its_page_says_so(wait, serve, otto, start_worker, monkeypatch):
    monkeypatch.setattr(heartbeat, "HEARTBEAT_SECONDS", 0.05)
    run = wait()
    serve(None)
    start_worker()
    until(lambda: unserved(["expense"]))
    answer_request(otto, HumanRequest.objects.get().id, 7)
    until(lambda: phase_of(run) == "ready")
    where = head(otto, read_run(otto, run.pk), "run")["where"]
    assert plain(where, timezone.now()) == "Waiting for a worker: none that is running serves this workflow"
    assert not {"run.held", "run.recovered"} & {*kinds(run)}
    serve(expense())
    assert output(run) == "paid 7"


@pytest.mark.parametrize(
    ("setting", "others", "own"),
    [("WFDASH_SERVES", ["another"], ["expense"]), ("WFDASH_QUEUES", ["default"], ["default", "gpu"])],
)
def test_a_worker_takes_runs_of_those_workflows_and_queues_alone_that_it_is_to_serve(
    wait, serve, otto, start_worker, settings, setting, others, own
):
    run = wait()
    # A new queue is no new version, and its runs move there.
    serve(expense(queue="gpu"))
    setattr(settings, setting, others)
    worker = start_worker()
    until(lambda: unserved(["expense"]))
    answer_request(otto, HumanRequest.objects.get().id, 7)
    until(lambda: phase_of(run) == "ready")
    where = head(otto, read_run(otto, run.pk), "run")["where"]
    assert plain(where, timezone.now()).startswith("Waiting for a worker of queue gpu: none that is running")
    worker.stop()
    setattr(settings, setting, own)
    start_worker()
    assert output(run) == "paid 7"


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (["--workflows", "nowhere,parcel"], r"Not loaded here: nowhere\."),
        (["--queues", "gpu,default"], r"names this queue: gpu\..* takes: default"),
    ],
)
def test_a_worker_process_that_is_to_serve_what_is_not_loaded_does_not_start(option, words):
    with pytest.raises(CommandError, match=words):
        call_command("work", *option, "--limit", "3")


def test_a_run_is_left_to_the_worker_that_has_its_version_and_held_once_that_has_gone_for_a_minute(
    wait, serve, otto, start_worker, monkeypatch
):
    look = Serving.look
    monkeypatch.setattr(serving, "HOLD_SECONDS", math.inf)
    monkeypatch.setattr(heartbeat, "HEARTBEAT_SECONDS", 0.05)
    # The answer's hint comes before the worker knows of the other one.
    monkeypatch.setattr(Serving, "look", lambda serving: (time.sleep(0.2), look(serving)))
    run = wait()
    start_heartbeat("older", {"expense": run.version})
    serve(expense(extra=True))
    start_worker()
    answer_request(otto, HumanRequest.objects.get().id, 7)
    other = start_run(otto, "expense", {"amount": 5})
    until(reaches(other, "waiting"))
    assert phase_of(run) == "ready"
    epoch = Run.objects.get(pk=run.pk).epoch
    stop_heartbeat("older")
    until(lambda: Run.objects.filter(pk=run.pk, epoch__gt=epoch) and not Claim.objects.filter(run=run))
    assert (phase_of(run), "run.held" in kinds(run)) == ("ready", False)
    monkeypatch.setattr(serving, "HOLD_SECONDS", 0.0)
    until(reaches(run, "paused"))
    assert "run.held" in kinds(run)


def test_a_worker_among_others_holds_what_none_of_them_has_had_for_a_minute(serve, monkeypatch):
    serve(expense())
    now, others = [1000.0], [{"expense": "old"}]
    monkeypatch.setattr(serving, "others", lambda worker: (["other"], others))
    alone = Serving("one", clock=lambda: now[0])
    beside = Serving("two", among_others=True, clock=lambda: now[0])
    assert alone.holds("expense", "older"), "no one else may have it"
    assert not beside.holds("expense", "older"), "a worker that was not seen yet may"
    now[0] += 45
    for one in (alone, beside):
        one.look()
    others.clear()
    now[0] += 5
    for one in (alone, beside):
        one.look()
        assert not one.holds("expense", "old")
    assert alone.serves().others == (("expense", "old"),)
    assert beside.serves().others == (("expense", "old"), ("expense", "older"))
    now[0] += 10
    assert beside.serves().others == (("expense", "old"),)
    assert beside.holds("expense", "older")
    now[0] += 45
    assert alone.serves().others == beside.serves().others == ()
    assert beside.holds("expense", "old")
    assert alone.holds("expense", "old")


def test_many_held_runs_whose_code_is_gone_keep_no_one_from_being_released(hold, serve, monkeypatch):
    monkeypatch.setattr(migrate, "HELD_RUNS_AT_ONCE", 2)
    monkeypatch.setattr(sweeps, "HELD_SECONDS", 3600)
    run = hold(expense(extra=True))
    gone = [make_run(workflow="gone", phase="paused") for _ in range(5)]
    serve(expense())
    assert migrate.release_held() == [run.pk]
    assert not Run.objects.filter(pk__in=[one.pk for one in gone]).exclude(phase="paused").exists()


def test_a_process_that_starts_looks_at_every_held_run(hold, serve, monkeypatch):
    monkeypatch.setattr(migrate, "HELD_RUNS_AT_ONCE", 2)
    monkeypatch.setattr(sweeps, "HELD_SECONDS", 3600)
    run = hold(expense(step="decide"))
    for _ in range(5):
        make_run(workflow="gone", phase="paused")
    serve(expense(step="decide", was="review"))
    released, after = migrate.release_declared()
    while after:
        found, after = migrate.release_declared(after)
        released += found
    assert released == [run.pk]


def test_an_old_name_that_is_declared_later_is_found_when_a_process_looks(hold, serve):
    run = hold(expense(step="decide"))
    new = expense(step="decide", was="review")
    serve(new)
    assert migrate.release_held() == []
    assert migrate.release_declared() == ([run.pk], "")
    assert output(run) == "paid 7"


def test_a_run_whose_migration_hangs_is_held_and_says_where_and_others_go_on(otto, hold, serve, monkeypatch):
    let_go = threading.Event()
    monkeypatch.setattr(timemachine, "_calls", TimeLimit(0.2))
    run, new = hold(expense(extra=True)), expense(step="other")

    @new.migrate(from_version=run.version)
    def linger(migration: Migration) -> None:
        let_go.wait(30)

    serve(new)
    try:
        assert migrate.release_declared() == ([], "")
        with pytest.raises(Incompatible, match=r"did not return within 0.2 s. It is in wait \("):
            migrate_run(otto, run.pk)
        until(reaches(start_run(otto, "expense", {"amount": 5}), "waiting"))
    finally:
        let_go.set()
    run.refresh_from_db()
    assert (run.phase, run.error["type"]) == ("paused", "Incompatible")


def test_a_start_of_a_process_that_changes_nothing_for_a_held_run_says_nothing(hold, serve):
    run = hold(expense(step="decide", extra=True))
    new = expense(step="decide", was="other")
    new.migrate(from_version="another")(lambda migration: None)
    serve(new)
    before = kinds(run)
    assert migrate.release_declared() == ([], "")
    assert kinds(run) == before


def test_an_operator_overrides_and_the_run_goes_on_under_the_new_graph(otto, hold):
    run = hold(expense(extra=True))
    assert override_run(otto, run.pk).altered == "overridden"
    assert output(run) == "paid 7, filed"
    event = Event.objects.get(run=run, kind="run.overridden")
    assert (event.data["by"], event.data["how"], event.data["words"]) == ("otto", "override", [])
    assert event.data["from"] == run.version
    assert event.data["to"] == Run.objects.get(pk=run.pk).version


@pytest.mark.parametrize("verb", [migrate_run, override_run])
def test_what_does_not_fit_is_refused_with_the_reason_and_changes_nothing(verb, otto, hold):
    run = hold(expense(step="other"))
    before = row_of(run.pk), kinds(run), Checkpoint.objects.count()
    with pytest.raises(Incompatible, match="review"):
        verb(otto, run.pk)
    assert (row_of(run.pk), kinds(run), Checkpoint.objects.count()) == before


def test_an_operator_migrates_a_run_before_it_is_due(otto, wait, serve, start_worker):
    run = wait()
    new = expense(step="other")
    new.migrate(from_version=run.version)(lambda migration: migration.move("review", "other"))
    serve(new)
    migrate_run(otto, run.pk)
    assert (HumanRequest.objects.get().closed_as, Run.objects.get(pk=run.pk).phase) == ("withdrawn", "ready")
    start_worker()
    until(reaches(run, "waiting"))
    asked = HumanRequest.objects.get(closed__isnull=True)
    found = {step: counts.state for step, counts in count_states(step_transitions(run.pk)).items()}
    assert found == {"read": "done", "review": "done", "other": "waiting"}
    answer_request(otto, asked.id, 9)
    assert output(run) == "paid 9"
    assert kinds(run).count("run.migrated") == 1


def test_a_run_that_a_person_paused_stays_paused_when_it_is_migrated(otto, wait, serve):
    run = wait()
    pause_run(otto, run.pk)
    serve(expense(step="check", was="review"))
    migrated = migrate_run(otto, run.pk)
    assert (migrated.phase, migrated.error) == ("paused", None)


def test_a_run_that_never_began_begins_under_the_new_graph(otto, serve, start_worker):
    serve(expense())
    run = start_run(otto, "expense", {"amount": 5})
    serve(expense(extra=True))
    start_worker()
    until(reaches(run, "waiting"))
    assert Event.objects.get(run=run, kind="run.migrated").data["how"] == "start"


def test_resuming_a_held_run_looks_again_and_holds_it_again(otto, hold):
    run = hold(expense(extra=True))
    resume_run(otto, run.pk)
    until(lambda: kinds(run).count("run.held") == 2)
    assert phase_of(run) == "paused"


@pytest.mark.parametrize("verb", [migrate_run, override_run])
def test_only_operators_carry_runs_over(verb, wait, serve):
    run = wait()
    serve(expense(extra=True))
    make_people()
    for name, error in {"vera": NotAllowed, "ana": NotAllowed, "sam": NotFound}.items():
        with pytest.raises(error):
            verb(viewer(name), run.pk)
    with pytest.raises(Incompatible if verb is migrate_run else AssertionError):
        verb(viewer("adam"), run.pk)
        raise AssertionError("it went through")


def test_there_is_nothing_to_migrate_under_the_same_graph(otto, wait):
    run = wait()
    with pytest.raises(WrongState, match="Nothing to migrate"):
        migrate_run(otto, run.pk)


def test_of_two_operators_at_once_one_carries_the_run_over(otto, wait, serve):
    run = wait()
    serve(expense(extra=True))
    refused = []

    def override() -> None:
        from django.db import connection

        try:
            override_run(otto, run.pk)
        except WrongState as error:
            refused.append(str(error))
        finally:
            connection.close()

    threads = [threading.Thread(target=override) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 1
    assert kinds(run).count("run.overridden") == 1


@pytest.fixture
def encrypted(settings) -> None:
    settings.WFDASH_ENCRYPTION_KEYS = "a-secret-that-is-long-enough-to-be-one"


def test_why_a_run_is_held_is_encrypted_like_every_error(encrypted, hold):
    run = hold(expense(step="other"))
    stored = Run.objects.values_list("error", flat=True).get(pk=run.pk)
    assert isinstance(stored, StoredDocument)
    assert stored.clear == {}
    run.refresh_from_db()
    assert "removed: review" in run.error["message"]


def test_the_board_of_a_migrated_run_is_the_same_with_encryption(encrypted, otto, wait, serve, start_worker):
    run = wait()
    new = expense(step="other")
    new.migrate(from_version=run.version)(lambda migration: migration.move("review", "other"))
    serve(new)
    migrate_run(otto, run.pk)
    start_worker()
    until(reaches(run, "waiting"))
    found = {step: counts.state for step, counts in count_states(step_transitions(run.pk)).items()}
    assert found == {"read": "done", "review": "done", "other": "waiting"}
