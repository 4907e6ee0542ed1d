"""Doors: what someone hostile sends, and what someone without the right may learn."""

from __future__ import annotations

import base64
import io
import json
import logging
from datetime import timedelta

import pytest
from django.utils import timezone

from checkpoints.models import Answer, Claim, HumanRequest, Run, SignInLink
from tests import people
from wfdash.access.signin.links import create_link
from wfdash.actions.requests.answer import answer_request
from wfdash.domain.errors import Invalid
from wfdash.queries.runs.listing import NEWEST

HUSH = "hush-hush"
SECRET_CARD = {
    "subject": "Pay?",
    "proposal": {"iban": HUSH},
    "body": HUSH,
    "evidence": [{"kind": "text", "title": "Mail", "value": HUSH}],
    "actions": people.ACTIONS,
}


def post(client, address, given):
    return client.post(address, json.dumps(given), content_type="application/json")


@pytest.mark.parametrize("address", ["/requests/{}/", "/?tab=all&request={}", "/api/v1/requests/{}"])
def test_a_reviewer_sees_no_evidence_of_what_is_addressed_to_others(address, run, as_):
    question = people.ask(run, card=SECRET_CARD, by=["finance"])
    assert HUSH in as_("ana").get(address.format(question.pk)).content.decode()
    assert HUSH in as_("vera").get(address.format(question.pk)).content.decode()
    answer = as_("ben").get(address.format(question.pk))
    assert answer.status_code == 200
    assert HUSH not in answer.content.decode()


def test_a_reviewer_does_not_read_the_progress_of_a_run(run, as_):
    Run.objects.filter(pk=run.pk).update(phase="ready")
    Claim.objects.create(run=run, token=run.pk, worker="w", epoch=1, expires=timezone.now() + timedelta(hours=1))
    people.happen(run, *people.step("pay", "started", activation="1"))
    people.happen(run, ("progress", "pay", {"activation": "1", "fraction": 0.5, "text": HUSH}))
    api = ("/api/v1/runs", f"/api/v1/runs/{run.pk}", f"/api/v1/runs/{run.pk}/events")
    for address in (f"/runs/{run.pk}/", "/runs/", *api):
        assert HUSH in as_("vera").get(address).content.decode(), address
        assert HUSH not in as_("ana").get(address).content.decode(), address


def test_the_recorded_verdict_is_the_one_that_was_given(question, as_):
    given = {"value": {"action": "reject", "reason": "no"}, "verdict": "approve"}
    assert post(as_("ana"), f"/api/v1/requests/{question.pk}/answer", given).status_code == 422
    assert post(as_("ana"), f"/api/v1/requests/{question.pk}/answer", {**given, "verdict": ""}).status_code == 200
    assert Answer.objects.get().verdict == "reject"


@pytest.mark.parametrize("verdict", ["v" * 500, "\ud800", "\x00"])
def test_a_strange_verdict_does_no_harm(verdict, run, as_):
    question = people.ask(run, card={"subject": "Name?"}, answer_schema={"type": "string"})
    answer = post(as_("ana"), f"/api/v1/requests/{question.pk}/answer", {"value": "x", "verdict": verdict})
    assert answer.status_code in {200, 422}
    assert len(Answer.objects.get().verdict if Answer.objects.exists() else "") <= 40


@pytest.mark.parametrize("text", ["\ud800", "a\x00b"])
def test_text_that_no_engine_can_read_is_refused_and_the_request_stays_open(text, run, everybody):
    question = people.ask(run, card={"subject": "Name?"}, answer_schema={"type": "object"})
    for value in ({"name": text}, {text: 1}, {"deep": [text]}):
        with pytest.raises(Invalid):
            answer_request(people.viewer("ana"), question.pk, value)
    assert HumanRequest.objects.get(pk=question.pk).answered is None


def nested(depth):
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("depth", [100, 400, 900])
def test_a_deep_message_is_refused(depth, as_):
    given = {"workflow": "expense_batch", "message": {"claims": "x", "extra": nested(depth)}}
    # What the parser gives up on is told as what cannot be read, the rest as what is too deep.
    assert post(as_("otto"), "/api/v1/runs", given).status_code in {400, 422}
    assert Run.objects.count() == 0


def test_a_bomb_of_brackets_is_a_bad_request(as_):
    body = "[" * 200_000
    assert as_("otto").post("/api/v1/runs", body, content_type="application/json").status_code == 400


def test_a_long_key_starts_a_run_once(as_):
    given = {"workflow": "expense_batch", "message": {"claims": "x"}, "key": "k" * 1000}
    answers = [post(as_("otto"), "/api/v1/runs", given) for _ in range(2)]
    assert [answer.status_code for answer in answers] in ([201, 201], [422, 422])
    assert all(len(run.start_key) <= 200 for run in Run.objects.all())


def cursor(text):
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 9000,
        '["0001-01-01T00:00:00+23:59","x"]',
        '["2026-01-01T00:00:00","x"]',
        '[{"at":"0001-01-01T00:00:00+23:59"},"x"]',
        '[{"at":"2026-01-01T00:00:00"},"x"]',
        '["9999-12-31T23:59:59-23:59","x"]',
    ],
)
@pytest.mark.parametrize("address", ["/runs/?after={}", "/?tab=all&after={}", "/api/v1/runs?after={}"])
def test_a_damaged_cursor_starts_at_the_top(text, address, run, question, as_):
    found = NEWEST.place(cursor(text))
    assert found is None or found["created"].tzinfo is not None
    assert as_("vera").get(address.format(cursor(text))).status_code == 200


@pytest.mark.parametrize("run_id", ["2026/11", "a?b", "x#y", "..", "a b"])
def test_one_odd_run_id_does_not_take_the_lists_away(run_id, question, as_):
    people.ask(people.make_run(id=run_id))
    for address in ("/runs/", "/?tab=all", "/workflows/expense_batch/"):
        assert as_("otto").get(address).status_code == 200


@pytest.mark.parametrize("method", ["options", "put", "post"])
def test_a_live_sign_in_link_is_never_logged(method, everybody, as_):
    from django.conf import settings
    from django.utils.module_loading import import_string

    given = settings.LOGGING
    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    for name in given["handlers"]["console"].get("filters", ()):
        handler.addFilter(import_string(given["filters"][name]["()"])())
    logger = logging.getLogger("django")
    logger.addHandler(handler)
    try:
        link = create_link(everybody["otto"])
        getattr(as_("", enforce_csrf_checks=True), method)(link)
    finally:
        logger.removeHandler(handler)
    assert "sign-in" in lines.getvalue()
    assert link.split("/")[-2] not in lines.getvalue()


def test_a_link_works_once_and_not_after_its_time(everybody, as_):
    link = create_link(everybody["otto"])
    assert as_("").post(link).status_code == 302
    assert as_("").post(link).status_code == 404
    late = create_link(everybody["otto"])
    SignInLink.objects.update(expires=timezone.now() - timedelta(seconds=1))
    assert as_("").post(late).status_code == 404


@pytest.mark.parametrize(
    "target",
    ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "\thttps://evil.example"],
)
def test_signing_in_never_leads_elsewhere(target, everybody, as_):
    answer = as_("").post("/sign-in/", {"username": "otto", "password": "otto-password", "next": target})
    assert answer.status_code == 302
    assert answer.url == "/"


def test_a_page_survives_one_huge_event(run, as_):
    people.happen(run, ("custom", "pay", {"activation": "1", "name": "dump", "data": "<b>" * 2_000_000}))
    assert len(as_("otto").get(f"/runs/{run.pk}/").content) < 1_000_000


def test_an_event_of_an_unknown_kind_is_shown_as_it_is(run, as_):
    people.happen(run, ("odd {by.__class__} {", None, {"by": "x"}))
    assert "odd {by.__class__} {" in as_("otto").get(f"/runs/{run.pk}/").content.decode()


def test_many_fields_are_refused_not_read(run, question, as_):
    assert as_("ana").post(f"/requests/{question.pk}/", {f"f{n}": "x" for n in range(10_001)}).status_code == 400


@pytest.mark.parametrize("address", ["/runs/a%00b/", "/requests/%00/", "/workflows/%00/", "/api/v1/runs/%00/events"])
def test_an_address_with_nul_is_not_looked_up(address, as_):
    assert as_("otto").get(address).status_code == 404


@pytest.mark.parametrize("address", ["/runs/?q=a%00b", "/?tab=all&q=%00", "/api/v1/runs?q=workflow:a%00"])
def test_a_filter_with_nul_finds_what_it_says_without_it(address, run, as_):
    assert as_("otto").get(address).status_code == 200


def test_a_name_with_nul_cannot_sign_in(everybody, as_):
    assert as_("").post("/sign-in/", {"username": "\0", "password": "\0"}).status_code == 422
