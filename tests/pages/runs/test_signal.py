from __future__ import annotations

from typing import Any

import pytest

from checkpoints.models import Answer, HumanRequest, Run, Signal
from tests import people
from tests.pages.markup import flat
from wfdash.actions.runs.signals import send_signal

PARCEL = {"type": "object", "properties": {"code": {"type": "string", "title": "Code"}}, "required": ["code"]}


@pytest.fixture
def wait(run: Run):
    def make(name: str = "shipped", schema: dict[str, Any] = PARCEL, **facts: Any) -> HumanRequest:
        card = {"subject": f"Waits for the signal {name!r}"}
        key = f"signal:{name}:wait-1.0"
        return people.ask(run, key=key, kind="signal", card=card, answer_schema=schema, step="wait", **facts)

    return make


def text(client, address: str) -> str:
    return client.get(address).content.decode()


def test_the_form_is_that_of_the_one_signal_that_is_waited_for(run, wait, as_):
    wait()
    page = text(as_("otto"), f"/runs/{run.pk}/signal/")
    assert "Send signal" in page
    assert 'name="code"' in page
    assert "Wait waiting for" in page


def test_sending_it_answers_the_step_and_a_second_click_does_nothing_more(run, wait, as_):
    waiting = wait()
    given = {"code": "x1", "_key": "k", "_request": waiting.pk}
    for _ in range(2):
        answer = as_("otto").post(f"/runs/{run.pk}/signal/?name=shipped", given, follow=True)
    assert Answer.objects.get(request=waiting).value == {"code": "x1"}
    assert Signal.objects.count() == 1
    assert "Signal shipped received by a step" in answer.content.decode()


def test_what_does_not_fit_is_said_at_its_field(run, wait, as_):
    wait()
    answer = as_("otto").post(f"/runs/{run.pk}/signal/?name=shipped", {"code": ""})
    assert answer.status_code == 422
    assert 'aria-invalid="true"' in answer.content.decode()
    assert not Signal.objects.exists()


def test_a_signal_that_no_one_waits_for_takes_any_json_and_is_kept(run, as_):
    client, address = as_("otto"), f"/runs/{run.pk}/signal/?name=later"
    assert "No step is waiting for a signal" in text(client, address)
    assert client.post(address, {"value": '{"a": [1'}).status_code == 422
    client.post(address, {"value": '{"a": [1]}'})
    answer = client.post(address, {"value": " "}, follow=True)
    assert "It is kept until a step waits for it" in answer.content.decode()
    assert [row.value for row in Signal.objects.order_by("at")] == [{"a": [1]}, None]
    assert "Not yet received" in text(client, address)


def test_a_name_that_is_none_is_said(run, as_):
    answer = as_("otto").post(f"/runs/{run.pk}/signal/?name=a+b", {"value": "1"})
    assert answer.status_code == 422
    assert "1 to 100 letters" in answer.content.decode()


def test_an_ended_run_says_that_nothing_receives_it(run, as_):
    Run.objects.filter(pk=run.pk).update(phase="cancelled")
    answer = as_("otto").post(f"/runs/{run.pk}/signal/?name=go", {"value": "1"}, follow=True)
    assert "no longer receives signals" in answer.content.decode()


def test_what_it_received_before_a_restore_is_filled_in(run, wait, as_):
    wait(suggestion={"value": {"code": "old"}, "verdict": "received", "by": "otto", "at": people.THEN.isoformat()})
    page = text(as_("otto"), f"/runs/{run.pk}/signal/")
    assert 'value="old"' in page
    assert "before the restore" in page


def test_its_request_is_no_card_to_answer(run, wait, as_):
    waiting = wait()
    page = text(as_("otto"), f"/requests/{waiting.pk}/")
    assert "Waiting for a signal, not a person" in page
    assert 'id="answer-form"' not in page
    assert as_("otto").post(f"/requests/{waiting.pk}/", {"code": "x"}).status_code == 403


def test_the_api_lists_and_sends_signals(run, wait, as_):
    wait()
    client, address = as_("otto"), f"/api/v1/runs/{run.pk}/signals"
    told = client.get(address).json()
    assert (told["waits"][0]["name"], told["waits"][0]["answer_schema"]) == ("shipped", PARCEL)
    wrong = client.post(address, {"name": "shipped", "value": {}}, content_type="application/json")
    assert (wrong.status_code, wrong.json()["errors"][0]["loc"]) == (422, ["value", "code"])
    given = {"name": "shipped", "value": {"code": "x"}}
    key = {"Idempotency-Key": "k"}
    sent = [client.post(address, given, content_type="application/json", headers=key) for _ in range(2)]
    assert [answer.status_code for answer in sent] == [201, 201]
    assert sent[0].json() == sent[1].json()
    assert sent[0].json()["request"]
    other = client.post(address, {**given, "name": "other"}, content_type="application/json", headers=key)
    assert other.status_code == 409
    assert "use a new key" in other.json()["detail"]
    for name, status in (("ana", 403), ("vera", 403), ("sam", 404)):
        assert as_(name).get(address).status_code == status


def test_who_may_start_runs_may_send_signals_from_the_page(run, db):
    assert send_signal(people.viewer("adam"), run.pk, "go").taken is None


def test_the_run_says_what_signal_it_waits_for_and_leads_to_sending_it(run, wait, as_):
    wait()
    page = text(as_("otto"), f"/runs/{run.pk}/")
    assert "Waiting for signal &#x27;shipped&#x27; for" in page
    assert flat(f'class="row-link" href="/runs/{run.pk}/signal/"') in flat(page)
    assert f'class="row-link" href="/runs/{run.pk}/signal/"' not in text(as_("vera"), f"/runs/{run.pk}/")
    send_signal(people.viewer("otto"), run.pk, "shipped", {"code": "x"})
    assert "sent by otto" in text(as_("otto"), f"/runs/{run.pk}/")
