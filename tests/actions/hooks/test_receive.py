"""What incoming webhooks take, from whom, once, and as whom."""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from django.test import Client

from checkpoints.models import Event, Grant, IncomingDelivery, IncomingHook, Run, Signal
from tests.people import ask as make_request
from tests.people import make_run
from wfdash.access.signin.tokens import use_token, viewer_of
from wfdash.access.viewer import RIGHTS, TokenScope, Viewer
from wfdash.actions import pacing
from wfdash.actions.account import create_token
from wfdash.actions.hooks import incoming
from wfdash.actions.hooks.incoming import IncomingPlan, forget_deliveries
from wfdash.actions.people.accounts import create_service_account
from wfdash.actions.people.roles import grant_role
from wfdash.actions.requests.answer import answer_request
from wfdash.domain.errors import Invalid, NotAllowed, NotFound
from wfdash.domain.hooks import mapped, suggested, template_problems
from wfdash.engines import catalog
from wfdash.notifications.webhook import signed_headers
from wfdash.workflow import Workflow

Person = Callable[..., Viewer]
SECRET = "a-secret-of-the-sender"
MESSAGE = {"order": {"$": "/data/id"}, "total": {"$": "/data/total"}, "from": "shop"}
BODY = {"id": "evt_1", "data": {"id": "o1", "total": 900}}


@pytest.fixture
def otto(person: Person, monkeypatch) -> Viewer:
    workflow = Workflow("orders")

    @workflow.step(start=True)
    async def take(order: dict[str, Any]) -> str:
        return str(order["order"])

    monkeypatch.setattr(catalog, "get", lambda name: entry_of(workflow, name))
    return person("otto", "operator", "orders")


def entry_of(workflow: Workflow, name: str) -> catalog.Entry:
    from wfdash.engines.native import NativeEngine

    if name != "orders":
        raise NotFound(f"No workflow named {name!r}")
    engine = NativeEngine()
    described = engine.describe(workflow)
    return catalog.Entry(name=name, definition=workflow, engine=engine, description=described, source="tests")


def hook_of(viewer: Viewer, **facts: Any) -> IncomingHook:
    secret = facts.pop("secret", SECRET)
    plan = {"name": "Shop", "workflow": "orders", "mapping": MESSAGE, "scheme": "token"} | facts
    return incoming.create_incoming(viewer, IncomingPlan(**plan), secret=secret)[0]


def send(hook: IncomingHook, body: Any = BODY, headers: dict[str, str] | None = None) -> Any:
    given = {"X-Webhook-Token": SECRET} if headers is None else headers
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    client = Client(enforce_csrf_checks=True)
    return client.post(f"/hooks/{hook.pk}", data, content_type="application/json", headers=given)


def test_a_delivery_starts_a_run_as_the_owner_with_the_mapped_message(otto: Viewer) -> None:
    answer = send(hook_of(otto))
    run = Run.objects.get()
    assert (answer.status_code, answer.json()["run"], answer.json()["outcome"]) == (202, run.pk, "started")
    assert run.input == {"order": "o1", "total": 900, "from": "shop"}
    assert run.created_by == otto.user
    assert Event.objects.get(run=run).data["by"] == "otto"
    assert IncomingDelivery.objects.get().run == run.pk


def test_a_field_with_a_default_may_be_missing_from_a_delivery() -> None:
    schema = {"properties": {"order": {"type": "string"}, "since": {"default": None}}, "required": ["order"]}
    assert mapped(suggested(schema), {"order": "A-7"}) == ({"order": "A-7", "since": None}, [])


def test_the_same_delivery_starts_one_run(otto: Viewer) -> None:
    hook = hook_of(otto)
    first, second = send(hook), send(hook)
    assert (second.status_code, second.json()["outcome"]) == (200, "duplicate")
    assert first.json()["run"] == second.json()["run"]
    assert send(hook, {**BODY, "id": "evt_2"}).status_code == 202
    assert Run.objects.count() == 2


def test_an_id_in_the_body_counts_once_even_with_other_content(otto: Viewer) -> None:
    hook = hook_of(otto, key_at="/id")
    send(hook)
    assert send(hook, {**BODY, "sent": "again"}).json()["outcome"] == "duplicate"
    assert send(hook, {**BODY, "id": "evt_2"}).json()["outcome"] == "started"


def test_what_was_refused_is_taken_once_it_is_right(otto: Viewer) -> None:
    hook = hook_of(otto, key_at="/id")
    refused = send(hook, {"id": "evt_1", "data": {"id": "o1"}})
    assert refused.status_code == 422
    assert refused["Content-Type"] == "application/problem+json"
    assert refused.json()["errors"] == [{"loc": ["total"], "msg": "The delivery has nothing at /data/total"}]
    assert "nothing at /data/total" in IncomingDelivery.objects.get().why
    assert send(hook).status_code == 202


def stripe(body: bytes, secret: str = SECRET, at: float = 0) -> dict[str, str]:
    sent = int(time.time() + at)
    mac = hmac.new(secret.encode(), f"{sent}.".encode() + body, sha256).hexdigest()
    return {"Stripe-Signature": f"t={sent},v1=00,v1={mac}"}


def github(body: bytes, secret: str = SECRET) -> dict[str, str]:
    return {"X-Hub-Signature-256": "sha256=" + hmac.new(secret.encode(), body, sha256).hexdigest()}


STANDARD = "whsec_" + base64.b64encode(b"k" * 32).decode()
RAW = json.dumps(BODY).encode()


@pytest.mark.parametrize(
    ("scheme", "secret", "headers"),
    [
        ("standard", STANDARD, lambda: signed_headers([STANDARD], "m1", int(time.time()), RAW)),
        ("github", SECRET, lambda: github(RAW)),
        ("timestamped", SECRET, lambda: stripe(RAW)),
        ("token", SECRET, lambda: {"X-Webhook-Token": SECRET}),
    ],
)
def test_each_scheme_takes_its_signature_and_no_other_body_or_secret(otto, scheme, secret, headers) -> None:
    hook = hook_of(otto, scheme=scheme, secret=secret)
    if scheme != "token":
        assert send(hook, RAW + b" ", headers()).status_code == 401
    for wrong in ({}, {"X-Hub-Signature-256": "sha256="}, {"Stripe-Signature": "t=1,v1=\u00e9"}):
        refused = send(hook, RAW, {k: v.encode().decode("latin-1") for k, v in wrong.items()})
        assert (refused.status_code, refused.json()["code"]) == (401, "bad_signature")
    assert not Run.objects.exists()
    assert send(hook, RAW, headers()).status_code == 202
    assert set(IncomingDelivery.objects.filter(outcome="refused").values_list("body", flat=True)) == {""}


@pytest.mark.parametrize("at", [-400, 400])
def test_a_signed_time_beyond_five_minutes_is_refused(otto: Viewer, at: int) -> None:
    stamped, standard = hook_of(otto, scheme="timestamped"), hook_of(otto, scheme="standard", secret=STANDARD)
    assert send(stamped, RAW, stripe(RAW, at=at)).status_code == 401
    assert send(standard, RAW, signed_headers([STANDARD], "m1", int(time.time()) + at, RAW)).status_code == 401


def test_a_repeated_delivery_with_another_unsigned_id_is_still_the_same(otto: Viewer) -> None:
    hook = hook_of(otto, scheme="github")
    send(hook, RAW, {**github(RAW), "X-GitHub-Delivery": "1"})
    assert send(hook, RAW, {**github(RAW), "X-GitHub-Delivery": "2"}).json()["outcome"] == "duplicate"


def test_both_secrets_are_accepted_until_the_old_one_is_revoked(otto: Viewer) -> None:
    hook = hook_of(otto)
    new = incoming.renew_incoming_secret(otto, hook.pk)
    assert send(hook).status_code == 202
    assert send(hook, {**BODY, "id": 2}, {"X-Webhook-Token": new}).status_code == 202
    incoming.retire_incoming_secret(otto, hook.pk)
    assert send(hook, {**BODY, "id": 3}).status_code == 401


def test_an_owner_without_the_right_any_more_starts_nothing(otto: Viewer) -> None:
    hook = hook_of(otto)
    Grant.objects.all().delete()
    assert send(hook).status_code in {403, 404}
    assert not Run.objects.exists()
    assert IncomingDelivery.objects.get().outcome == "refused"


def test_a_disabled_or_unknown_address_is_not_found(otto: Viewer) -> None:
    hook = hook_of(otto)
    incoming.switch_incoming(otto, hook.pk, active=False)
    assert send(hook).status_code == 404
    hook.pk = "none"
    assert send(hook).json()["code"] == "not_found"
    assert Client().get("/hooks/none").status_code == 405


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b"\xff", b"x=1"])
def test_a_body_that_is_not_json_is_refused_and_logged(otto: Viewer, body: bytes) -> None:
    assert send(hook_of(otto), body).status_code == 422
    assert IncomingDelivery.objects.get().size == len(body)


def test_a_body_that_is_too_large_is_refused_before_it_is_looked_at(otto: Viewer) -> None:
    assert send(hook_of(otto), b"x" * 1_000_001).status_code == 413


def test_a_flood_is_slowed_down_and_its_log_is_bounded(otto: Viewer, monkeypatch) -> None:
    hook = hook_of(otto)
    monkeypatch.setattr(pacing, "MOST_RECEIVED", {"accepted": 2, "refused": 1})
    assert [send(hook, {**BODY, "id": n}).status_code for n in range(3)] == [202, 202, 429]
    assert send(hook, BODY, {}).status_code == 401
    assert IncomingDelivery.objects.filter(outcome="refused").count() == 1


def test_a_signal_goes_to_the_run_that_the_delivery_names_and_to_no_other_workflow_s(otto: Viewer) -> None:
    hook = hook_of(otto, signal="paid", run_at="/run", mapping={"$": "/data/total"})
    run, other = make_run(workflow="orders"), make_run(workflow="payroll")
    assert send(hook, {**BODY, "run": run.pk}).json() | {"id": ""} == {"id": "", "outcome": "signalled", "run": run.pk}
    signal = Signal.objects.get()
    assert (signal.value, signal.others) == (900, "")
    hook = hook_of(otto, signal="paid", run_at="/run", mapping={"$": "/data/total"})
    IncomingHook.objects.filter(pk=hook.pk).update(authors=["eve", "otto"])
    send(hook, {**BODY, "run": run.pk})
    assert Signal.objects.latest("at").others == '["eve"]'
    assert [send(hook, {**BODY, "run": named}).status_code for named in (other.pk, 7, "\ud800", "\0")] == [422] * 4
    assert send(hook).status_code == 422


def test_who_may_not_start_the_workflow_adds_no_address_for_it(otto: Viewer, person: Person) -> None:
    vera = person("vera", "viewer")
    with pytest.raises(NotAllowed):
        hook_of(vera)
    hook = hook_of(otto)
    with pytest.raises(NotFound):
        incoming.find_incoming(vera, hook.pk)
    narrow = otto.with_token("ci", TokenScope(rights=frozenset({"start"}), workflows=frozenset({"orders"})))
    with pytest.raises(NotAllowed):
        hook_of(narrow)
    with pytest.raises(NotAllowed):
        incoming.create_incoming(otto, IncomingPlan(name="n", workflow="orders", mapping=1), owner="vera")


def test_an_admin_lets_a_program_start_runs_and_no_other_person(otto: Viewer, person: Person) -> None:
    adam, plan = person("adam", "admin"), IncomingPlan(name="n", workflow="orders", mapping={})
    create_service_account(adam, "robot")
    with pytest.raises(NotAllowed, match="is a person"):
        incoming.create_incoming(adam, plan, owner="otto")
    for owner, words in ("robot", "cannot start"), ("none", "No active account"):
        with pytest.raises(Invalid) as refused:
            incoming.create_incoming(adam, plan, owner=owner)
        assert words in refused.value.by_field["owner"]
    grant_role(adam, "operator", person="robot")
    assert incoming.create_incoming(adam, plan, owner="robot")[0].owner.get_username() == "robot"


@pytest.mark.parametrize(
    ("facts", "field"),
    [
        ({"name": ""}, "name"),
        ({"scheme": "none"}, "scheme"),
        ({"header": "a b"}, "header"),
        ({"key_at": "id"}, "key_at"),
        ({"key_at": "/" + "x" * 300}, "key_at"),
        ({"signal": "paid"}, "run_at"),
        ({"mapping": {"$": "id"}}, "mapping"),
        ({"mapping": {"$": "/id", "as": "text"}}, "mapping"),
        ({"mapping": "x" * 30_000}, "mapping"),
        ({"secret": "short"}, "secret"),
        ({"scheme": "standard", "secret": "no base64 !!!!!!"}, "secret"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(otto: Viewer, facts: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        hook_of(otto, **facts)
    assert refused.value.errors[0]["loc"] == [field]
    assert not IncomingHook.objects.exists()


def test_what_came_long_ago_is_forgotten(otto: Viewer, monkeypatch: pytest.MonkeyPatch) -> None:
    send(hook_of(otto))
    assert forget_deliveries() == 0
    monkeypatch.setattr(incoming, "KEPT_DAYS", -1)
    assert forget_deliveries() == 1


def test_templates_take_what_is_there() -> None:
    delivery = {"a": [{"b~/": 1}], "n": None}
    template = {"x": [{"$": "/a/0/b~0~1"}, "lit"], "all": {"$": ""}, "n": {"$": "/n"}, "d": {"$": "/no", "default": 7}}
    assert mapped(template, delivery) == ({"x": [1, "lit"], "all": delivery, "n": None, "d": 7}, [])
    assert mapped({"x": {"$": "/a/9"}}, delivery)[1] == [{"loc": ["x"], "msg": "The delivery has nothing at /a/9"}]
    assert template_problems({"$": 7}) == ['"$" is a text']


def test_who_changed_an_address_or_saw_its_secret_counts_as_requester_of_what_it_starts(
    otto: Viewer, person: Person
) -> None:
    adam, eve, vera = person("adam", "admin"), person("eve", "admin"), person("vera", "admin")
    hook = hook_of(otto)
    plan = IncomingPlan(name="Shop", workflow="orders", mapping={"order": {"$": "/data/id"}, "to": "adam"})
    with pytest.raises(Invalid):
        incoming.change_incoming(vera, hook.pk, replace(plan, name=""))
    incoming.change_incoming(adam, hook.pk, replace(plan, scheme="token"))
    secret = incoming.renew_incoming_secret(eve, hook.pk)
    run = Run.objects.get(pk=send(hook, headers={"X-Webhook-Token": secret}).json()["run"])
    assert (run.created_by, run.requesters) == (otto.user, ["adam", "eve"])
    asked = make_request(run, policy={"override": True}, not_by=["requester"])
    for theirs in (adam, eve, otto):
        for override in (False, True):
            with pytest.raises(NotAllowed, match="second person"):
                answer_request(theirs, asked.pk, {"action": "approve"}, override=override, reason="urgent")
    answer_request(vera, asked.pk, {"action": "approve"})


def test_an_address_that_a_program_set_up_counts_the_person_who_made_its_token(otto: Viewer, person: Person) -> None:
    adam = person("adam", "admin")
    create_service_account(adam, "robot")
    grant_role(adam, "operator", person="robot")
    text = create_token(adam, "ci", rights=RIGHTS["admin"], owner="robot").text
    assert Run.objects.get(pk=send(hook_of(viewer_of(use_token(text)))).json()["run"]).requesters == ["adam"]
