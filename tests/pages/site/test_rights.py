"""Who gets which page: every role, every address."""

from __future__ import annotations

import pytest
from django.urls import reverse

from tests.pages.shown import addresses_of
from wfdash.urls import urlpatterns

EVERYBODY = ["ana", "ben", "vera", "otto", "adam"]
STRANGE = "00000000-0000-7000-8000-000000000000"


@pytest.fixture
def addresses(run, question, history):
    return addresses_of(run, question, history)


EXPECTED = {
    "inbox": dict.fromkeys(EVERYBODY, 200) | {"sam": 200},
    "request": dict.fromkeys(EVERYBODY, 200) | {"sam": 404},
    "runs": dict.fromkeys(EVERYBODY, 200) | {"sam": 200},
    "run": dict.fromkeys(EVERYBODY, 200) | {"sam": 404},
    "checkpoint": {"ana": 403, "ben": 403, "vera": 200, "otto": 200, "adam": 200, "sam": 404},
    "checkpoint-delete": {"ana": 403, "ben": 403, "vera": 403, "otto": 200, "adam": 200, "sam": 404},
    "restore": {"ana": 403, "ben": 403, "vera": 403, "otto": 200, "adam": 200, "sam": 404},
    "fork": {"ana": 403, "ben": 403, "vera": 403, "otto": 200, "adam": 200, "sam": 404},
    "runs-suggestions": dict.fromkeys(EVERYBODY, 200) | {"sam": 200},
    "audit-suggestions": dict.fromkeys(EVERYBODY, 200) | {"sam": 200},
    "schedules-suggestions": dict.fromkeys(EVERYBODY, 200) | {"sam": 200},
    "workflows-suggestions": dict.fromkeys(EVERYBODY, 200) | {"sam": 200},
    "workflows-reloaded": dict.fromkeys(EVERYBODY, 200) | {"sam": 200},
    "getting-started": dict.fromkeys(EVERYBODY, 403) | {"adam": 200, "sam": 403},
    "run-events": dict.fromkeys(EVERYBODY, 200) | {"sam": 404},
    "run-events-export": dict.fromkeys(EVERYBODY, 200) | {"sam": 404},
    "run-logs": dict.fromkeys(EVERYBODY, 200) | {"sam": 404},
    "run-logs-text": dict.fromkeys(EVERYBODY, 200) | {"sam": 404},
    "run-state": dict.fromkeys(EVERYBODY, 200) | {"sam": 404},
    "run-beside": dict.fromkeys(EVERYBODY, 200) | {"sam": 404},
    "run-history": dict.fromkeys(EVERYBODY, 200) | {"sam": 404},
    "compare": {"ana": 403, "ben": 403, "vera": 200, "otto": 200, "adam": 200, "sam": 404},
    "edit": {"ana": 403, "ben": 403, "vera": 403, "otto": 200, "adam": 200, "sam": 404},
    "replay": dict.fromkeys(EVERYBODY, 200) | {"sam": 404},
    "run-delete": {"ana": 403, "ben": 403, "vera": 403, "otto": 200, "adam": 200, "sam": 404},
    "run-cancel": {"ana": 403, "ben": 403, "vera": 403, "otto": 200, "adam": 200, "sam": 404},
    "run-follow-up": {"ana": 403, "ben": 403, "vera": 403, "otto": 200, "adam": 200, "sam": 404},
    "run-signal": {"ana": 403, "ben": 403, "vera": 403, "otto": 200, "adam": 200, "sam": 404},
    "run-migrate": {"ana": 403, "ben": 403, "vera": 403, "otto": 200, "adam": 200, "sam": 404},
    "run-override": {"ana": 403, "ben": 403, "vera": 403, "otto": 200, "adam": 200, "sam": 404},
    "workflows": dict.fromkeys(EVERYBODY, 200) | {"sam": 200},
    "workflow": dict.fromkeys(EVERYBODY, 200) | {"sam": 404},
    "schedules": dict.fromkeys(EVERYBODY, 200) | {"sam": 200},
    "schedule-new": {"ana": 403, "ben": 403, "vera": 403, "otto": 200, "adam": 200, "sam": 404},
    "schedule-next": dict.fromkeys(EVERYBODY, 200) | {"sam": 200},
    "operations": dict.fromkeys([*EVERYBODY, "sam"], 403) | {"otto": 200, "adam": 200},
    "retention": dict.fromkeys([*EVERYBODY, "sam"], 403) | {"otto": 200, "adam": 200},
    "statistics": dict.fromkeys(EVERYBODY, 200) | {"sam": 200},
    "decisions": dict.fromkeys(EVERYBODY, 200) | {"sam": 200},
    "rules": dict.fromkeys(EVERYBODY, 200) | {"sam": 200},
    "second-looks": dict.fromkeys(EVERYBODY, 200) | {"sam": 200},
    "oversight": dict.fromkeys([*EVERYBODY, "sam"], 403) | {"otto": 200, "adam": 200},
    "notifications": dict.fromkeys(EVERYBODY, 200) | {"sam": 200},
    "search": dict.fromkeys(EVERYBODY, 200) | {"sam": 200},
    "settings": dict.fromkeys(EVERYBODY, 200) | {"sam": 200},
    "account": dict.fromkeys(EVERYBODY, 200) | {"sam": 200},
    "tokens": dict.fromkeys(EVERYBODY, 200) | {"sam": 200},
    "connect": dict.fromkeys(EVERYBODY, 200) | {"sam": 200},
    "webhooks": dict.fromkeys(EVERYBODY, 200) | {"sam": 200},
    "incoming-webhooks": dict.fromkeys(EVERYBODY, 200) | {"sam": 200},
    "incoming-webhook-new": dict.fromkeys([*EVERYBODY, "sam"], 404) | {"otto": 200, "adam": 200},
    "people": dict.fromkeys([*EVERYBODY, "sam"], 403) | {"adam": 200},
    "person": dict.fromkeys([*EVERYBODY, "sam"], 403) | {"adam": 200},
    "person-invite": dict.fromkeys([*EVERYBODY, "sam"], 403) | {"adam": 200},
    "groups": dict.fromkeys([*EVERYBODY, "sam"], 403) | {"adam": 200},
    "group": dict.fromkeys([*EVERYBODY, "sam"], 403) | {"adam": 200},
    "access": dict.fromkeys([*EVERYBODY, "sam"], 403) | {"adam": 200},
}
ELSEWHERE = {
    "operations-error",
    "rule",
    "second-look",
    "settle-second-look",
    "question",
    "receipts",
    "api",
    "api-v1",
    "api-docs",
    "density",
    "schedule",
    "schedule-edit",
    "run-act",
    "runs-bulk",
    "inbox-columns",
    "runs-columns",
    "runs-export",
    "decisions-export",
    "runs-bulk-result",
    "evidence",
    "sign-in",
    "sign-in-link",
    "sign-in-code",
    "sign-in-passkey",
    "sign-in-provider",
    "sign-in-callback",
    "second-factor",
    "sign-out",
    "manifest",
    "static",
    "service-worker",
    "offline",
    "push",
    "push-browser",
    "livez",
    "readyz",
    "health",
    "metrics",
    "notification",
    "webhook",
    "incoming-webhook",
    "incoming-webhook-edit",
    "receive-hook",
    "receive-slack",
    "slack",
    "answer-link",
    "deadline",
    "views",
    "view",
    "view-counts",
    "selected",
    "undo-all",
    "undo",
    "talk",
    "take",
    "run-audit",
    "request-people",
    "inbox-suggestions",
    "decisions-suggestions",
    "presence",
    "focus",
    "draft",
    "label",
    "batch-undo",
    "batch-result",
    "out-of-office-end",
    "out-of-office",
    "audit-shown",
    "audit-export",
    "audit-entry",
    "audit",
    "assign",
    "amend",
    "similar",
}
"""Tested with the pages they belong to."""


@pytest.mark.parametrize(("page", "name"), [(page, name) for page, row in EXPECTED.items() for name in row])
def test_a_page_is_there_for_those_whose_role_has_it(page, name, addresses, as_):
    assert as_(name).get(addresses[page]).status_code == EXPECTED[page][name]


@pytest.mark.parametrize("page", EXPECTED)
def test_no_one_sees_a_page_without_signing_in(page, addresses, as_):
    answer = as_("").get(addresses[page])
    assert answer.status_code == 302
    assert answer.url.startswith("/sign-in/?next=")


@pytest.mark.parametrize("name", ["ana", "vera", "sam"])
@pytest.mark.parametrize("verb", ["cancel", "pause", "resume", "retry"])
def test_only_operators_act_on_runs(name, verb, run, as_):
    assert as_(name).post(f"/runs/{run.pk}/{verb}/").status_code == (404 if name == "sam" else 403)
    run.refresh_from_db()
    assert run.phase == "waiting"


@pytest.mark.parametrize("name", ["ana", "vera"])
@pytest.mark.parametrize("verb", ["restore", "fork"])
def test_only_operators_change_history(name, verb, run, history, as_):
    assert as_(name).post(reverse(f"wfdash:{verb}", args=[run.pk, history[0].pk])).status_code == 403


@pytest.mark.parametrize(
    "address",
    [
        f"/requests/{STRANGE}/",
        "/requests/nonsense/",
        f"/runs/{STRANGE}/",
        "/runs/%00/",
        f"/runs/{STRANGE}/checkpoints/{STRANGE}/",
        f"/runs/{STRANGE}/checkpoints/{STRANGE}/restore/",
        "/workflows/nothing/",
        f"/schedules/{STRANGE}/",
        "/schedules/nonsense/edit/",
        "/nowhere/",
    ],
)
def test_unknown_ids_are_not_found(address, as_):
    assert as_("adam").get(address).status_code == 404


def test_a_checkpoint_of_another_run_is_not_found(run, history, as_):
    from tests.people import make_run

    other = make_run()
    assert as_("adam").get(reverse("wfdash:checkpoint", args=[other.pk, history[0].pk])).status_code == 404


def test_a_reviewer_sees_what_happened_and_no_value(run, history, as_):
    run.input, run.output = {"salary": "top-secret-input"}, {"sum": "top-secret-output"}
    run.error = {"type": "ValueError", "message": "top-secret-message", "step": "pay", "traceback": "top-secret-trace"}
    run.save()
    page = as_("ana").get(f"/runs/{run.pk}/?view=raw").content.decode()
    assert "Review finished" in page
    assert "ValueError" in page
    assert "top-secret" not in page
    assert "hush" not in page


def test_a_viewer_sees_values_but_no_traceback(run, as_):
    run.input = {"salary": "the-input"}
    run.error = {"type": "ValueError", "message": "the-message", "step": "pay", "traceback": "the-trace"}
    run.save()
    page = as_("vera").get(f"/runs/{run.pk}/").content.decode()
    assert "the-input" in page
    assert "the-message" in page
    assert "the-trace" not in page
    assert "the-trace" in as_("otto").get(f"/runs/{run.pk}/").content.decode()


ADDRESSES = ["/", "/runs/", "/nowhere/", "/sign-in/", "/livez", "/api/v1/runs", "/admin/login/"]


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_response_carries_the_policy(address, as_):
    for name in ("", "adam"):
        policy = as_(name).get(address)["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy


def test_only_the_admin_may_style_inline(as_):
    assert "unsafe-inline" not in as_("adam").get("/runs/")["Content-Security-Policy"]
    assert "unsafe" not in as_("adam").get("/runs/")["Content-Security-Policy"]


def test_every_named_address_is_known_to_this_test():
    names = {pattern.name for pattern in urlpatterns if getattr(pattern, "name", None)}
    assert names - set(EXPECTED) == ELSEWHERE


def test_posts_need_the_token(run, question, as_):
    client = as_("otto", enforce_csrf_checks=True)
    for address in (f"/runs/{run.pk}/cancel/", f"/requests/{question.pk}/", "/sign-out/", "/workflows/expense_batch/"):
        answer = client.post(address, {"action": "approve"})
        assert answer.status_code == 403
        assert "Page expired" in answer.content.decode()
