"""What webhooks hear of runs, by whose rights, and with which values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from checkpoints.database.high_water_mark import HighWaterMark
from checkpoints.database.storage import write
from checkpoints.events import EventKind
from checkpoints.models import (
    Answer,
    DeliveryAttempt,
    Event,
    Grant,
    HumanRequest,
    Notice,
    PublishedWorkflow,
    Run,
    TallyMark,
)
from tests import people
from tests.actions.hooks.test_webhooks import adam as adam
from tests.people import make_run
from wfdash.access.viewer import TokenScope, Viewer
from wfdash.actions.common import append_event
from wfdash.actions.hooks import webhooks
from wfdash.actions.hooks.webhooks import feed_webhooks
from wfdash.domain.errors import Invalid, NotAllowed, NotFound, WrongState
from wfdash.engines.published import Published, document_of
from wfdash.notifications.letters import Letter
from wfdash.notifications.webhook import HookAttempt
from wfdash.notifications.write import notify
from wfdash.values.schemas.secrets import masked
from wfdash.worker.outbox import deliver, due_bundles

Person = Callable[..., Viewer]
URL = "https://hooks.example.org/in"


def feed() -> int:
    return sum(iter(lambda: feed_webhooks(HighWaterMark(), limit=2), 0))


def happen(run: Run, kind: EventKind, **data: Any) -> None:
    with write():
        append_event(run, kind.draft(**data))


def sent() -> list[Letter]:
    found: list[Letter] = []
    for bundle in due_bundles():
        deliver(bundle, {"webhook": lambda _, letters: found.extend(letters)})
    return found


def test_each_run_that_ends_is_one_delivery_with_none_left_out_or_sent_twice(adam: Viewer) -> None:
    happen(make_run(), EventKind.RUN_COMPLETED)
    webhooks.create_webhook(adam, name="n", url=URL, kinds=["completed", "failed"])
    runs = [make_run(phase="completed") for _ in range(5)]
    for run in runs:
        happen(run, EventKind.RUN_STARTED)
        happen(run, EventKind.RUN_COMPLETED)
    failed = make_run(phase="failed", error={"type": "lib.Boom", "message": "IBAN DE00"})
    happen(failed, EventKind.RUN_FAILED)
    happen(failed, EventKind.RUN_WAITING)
    assert feed() > 0
    assert feed() == 0
    letters = sent()
    assert [(each.kind, each.payload["run"]) for each in letters] == [
        *(("completed", run.pk) for run in runs),
        ("failed", failed.pk),
    ]
    assert letters[-1].payload["text"] == "Boom"
    assert "IBAN" not in str(letters)


def test_without_an_active_webhook_nothing_is_read_or_written(adam: Viewer, django_assert_num_queries) -> None:
    happen(make_run(), EventKind.RUN_COMPLETED)
    with django_assert_num_queries(1):
        assert feed() == 0
    assert not TallyMark.objects.filter(pk=2).exists()


def test_a_webhook_that_was_disabled_hears_nothing_of_the_time_in_between(adam: Viewer) -> None:
    webhook, _ = webhooks.create_webhook(adam, name="n", url=URL)
    webhooks.switch_webhook(adam, webhook.pk, active=False)
    happen(make_run(), EventKind.RUN_COMPLETED)
    webhooks.switch_webhook(adam, webhook.pk, active=True)
    happen(make_run(), EventKind.RUN_CANCELLED, by="adam")
    feed()
    assert [each.kind for each in sent()] == ["cancelled"]


def test_an_event_that_cannot_be_read_does_not_hold_up_the_others(adam: Viewer) -> None:
    webhooks.create_webhook(adam, name="n", url=URL)
    run = make_run()
    Event.objects.create(run=run, seq=1, kind="request.withdrawn", data={"request": "gone"}, at=timezone.now())
    happen(make_run(), EventKind.RUN_COMPLETED)
    feed()
    assert [each.kind for each in sent()] == ["completed"]


def test_a_person_s_webhook_is_sent_what_they_may_see_when_it_is_sent(person: Person) -> None:
    webhooks.create_webhook(person("vera", "viewer", people.WORKFLOW), name="n", url=URL, owner="vera")
    happen(make_run(), EventKind.RUN_COMPLETED)
    happen(make_run(workflow="payroll"), EventKind.RUN_COMPLETED)
    feed()
    assert [each.payload["workflow"] for each in sent()] == [people.WORKFLOW]
    assert Notice.objects.get(given_up__isnull=False).error == "The owner can no longer see this"
    happen(make_run(), EventKind.RUN_COMPLETED)
    feed()
    Grant.objects.all().delete()
    assert sent() == []


@pytest.mark.parametrize("values", [True, False])
def test_values_are_carried_only_where_they_were_chosen(person: Person, values: bool) -> None:
    webhooks.create_webhook(person("vera", "viewer"), name="n", url=URL, owner="vera", values=values)
    happen(make_run(phase="completed", output={"iban": "DE00"}), EventKind.RUN_COMPLETED)
    feed()
    (letter,) = sent()
    assert letter.payload.get("output") == ({"iban": "DE00"} if values else None)
    assert "DE00" not in str(Notice.objects.get().payload), "a value is not kept in the outbox"


def test_values_end_with_the_right_to_inspect_them(person: Person) -> None:
    vera = person("vera", "viewer")
    webhooks.create_webhook(vera, name="n", url=URL, owner="vera", values=True)
    Grant.objects.filter(user=vera.user).update(role="reviewer")
    happen(make_run(phase="completed", output="secret"), EventKind.RUN_COMPLETED)
    feed()
    (letter,) = sent()
    assert "output" not in letter.payload


def test_an_answer_is_carried_with_its_secret_fields_masked(adam: Viewer) -> None:
    webhooks.create_webhook(adam, name="n", url=URL, kinds=["answered"], values=True)
    schema = {"type": "object", "properties": {"pin": {"type": "string", "writeOnly": True, "format": "password"}}}
    request = people.ask(make_run(), answer_schema=schema)
    Answer.objects.create(request=request, value={"action": "approve", "pin": "swordfish"}, at=timezone.now())
    with write():
        notify("decided", request, [], facts={"by": "adam", "verdict": "approve"})
    (letter,) = sent()
    assert letter.kind == "answered"
    answer = letter.payload["answer"]
    assert isinstance(answer, dict)
    assert answer["action"] == "approve"
    assert "swordfish" not in str(letter)


def test_secrets_of_a_workflow_that_another_worker_has_loaded_are_masked(adam: Viewer) -> None:
    webhooks.create_webhook(adam, name="n", url=URL, values=True)
    document, digest = document_of(Published(description=None, secrets=("pin",)))
    PublishedWorkflow.objects.create(workflow="elsewhere", hash=digest, document=document, seen=timezone.now())
    happen(make_run(workflow="elsewhere", phase="completed", output={"pin": "1234"}), EventKind.RUN_COMPLETED)
    feed()
    (letter,) = sent()
    assert letter.payload["output"] == masked({"pin": "1234"}, {"pin"})


def test_a_value_that_is_too_large_is_left_out_and_said_so(adam: Viewer) -> None:
    webhooks.create_webhook(adam, name="n", url=URL, values=True)
    happen(make_run(phase="completed", output="x" * 300_000), EventKind.RUN_COMPLETED)
    feed()
    (letter,) = sent()
    assert letter.payload["omitted"] == "output"


def test_no_one_adds_webhooks_in_another_s_name_or_beyond_their_own_rights(person: Person) -> None:
    ana = person("ana", "reviewer", "expense")
    for owner in ("", "vera"):
        with pytest.raises(NotAllowed):
            webhooks.create_webhook(ana, name="n", url=URL, owner=owner)
    with pytest.raises(Invalid):
        webhooks.create_webhook(ana, name="n", url=URL, owner="ana", workflow="payroll")
    with pytest.raises(Invalid):
        webhooks.create_webhook(ana, name="n", url=URL, owner="ana", workflow="expense", values=True)
    with pytest.raises(Invalid):
        webhooks.create_webhook(person("adam", "admin"), name="n", url=URL, owner="no one")


def test_a_token_with_limits_has_no_webhooks_that_would_pass_them(adam: Viewer) -> None:
    scope = TokenScope(rights=frozenset({"see", "admin"}), workflows=frozenset({"*"}))
    narrow = adam.with_token("ci", scope)
    webhook, _ = webhooks.create_webhook(adam, name="n", url=URL)
    with pytest.raises(NotAllowed):
        webhooks.create_webhook(narrow, name="n", url=URL, owner="adam")
    with pytest.raises(NotAllowed):
        webhooks.find_webhook(narrow, webhook.pk)


def test_what_was_given_up_is_sent_again_with_the_same_id(adam: Viewer, person: Person) -> None:
    webhook, _ = webhooks.create_webhook(adam, name="n", url=URL)
    notice = webhooks.try_webhook(adam, webhook.pk)
    Notice.objects.update(given_up=timezone.now(), attempts=10)
    webhooks.keep_attempt(notice.pk, HookAttempt(ms=3, status=500, error="no"))
    with pytest.raises(NotFound):
        webhooks.resend(person("ana", "reviewer"), webhook.pk, notice.pk)
    assert webhooks.resend_failed(adam, webhook.pk) == 1
    assert [each.id for each in sent()] == [notice.pk]
    webhooks.resend(adam, webhook.pk, notice.pk)
    assert [each.id for each in sent()] == [notice.pk]
    assert DeliveryAttempt.objects.count() == 1
    webhooks.switch_webhook(adam, webhook.pk, active=False)
    with pytest.raises(WrongState):
        webhooks.resend(adam, webhook.pk, notice.pk)


def test_a_question_that_was_withdrawn_is_named(adam: Viewer) -> None:
    webhooks.create_webhook(adam, name="n", url=URL, kinds=["withdrawn"])
    request: HumanRequest = people.ask(make_run())
    happen(request.run, EventKind.REQUEST_WITHDRAWN, request=request.pk)
    feed()
    (letter,) = sent()
    assert letter.payload["request"] == request.pk
