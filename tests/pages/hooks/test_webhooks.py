from __future__ import annotations

import re

import pytest
from django.test import Client
from django.utils import timezone

from checkpoints.models import DeliveryAttempt, Notice, Webhook
from tests.pages.account.test_getting_started import adam as adam
from tests.people import viewer
from wfdash.actions.people.accounts import create_service_account

KEY = re.compile(r'name="_key" value="([^"]+)"')
HOOK = {"name": "Chat", "url": "https://hooks.example.org/in", "workflow": "*"}


@pytest.fixture
def vera(people, client: Client) -> Client:
    client.force_login(people["vera"])
    return client


def test_everyone_has_webhooks_of_their_own_and_sees_no_one_else_s(ana: Client, people) -> None:
    assert ana.post("/settings/webhooks/", {**HOOK, "whose": "ours"}).status_code == 302
    assert Webhook.objects.get().owner == people["ana"], "only admins add webhooks of the installation"
    ours = Webhook.objects.create(id="w", name="Ours", url="https://a.example", secret="s", created=timezone.now())
    shown = ana.get("/settings/webhooks/").content.decode()
    assert "Chat" in shown
    assert "Ours" not in shown
    assert 'name="whose"' not in shown
    for method in (ana.get, ana.post):
        assert method(f"/settings/webhooks/{ours.pk}/", {"act": "remove"}).status_code == 404
    assert Webhook.objects.filter(pk="w").exists()


def test_values_are_offered_to_whom_may_inspect_and_refused_to_others(ana: Client) -> None:
    assert 'name="values"' not in ana.get("/settings/webhooks/").content.decode()
    refused = ana.post("/settings/webhooks/", {**HOOK, "values": "1"})
    assert refused.status_code == 422
    assert "cannot inspect values" in refused.content.decode()
    assert not Webhook.objects.exists()


def test_a_viewer_chooses_values(vera: Client) -> None:
    assert 'name="values"' in vera.get("/settings/webhooks/").content.decode()
    vera.post("/settings/webhooks/", {**HOOK, "values": "1"})
    assert Webhook.objects.get().values


def test_deliveries_show_each_attempt_and_are_sent_again(adam: Client) -> None:
    adam.post("/settings/webhooks/", HOOK)
    hook, now = Webhook.objects.get(), timezone.now()
    url = f"/settings/webhooks/{hook.pk}/"
    facts = {"channel": "webhook", "target": hook.pk, "created": now, "due": now, "attempts": 10, "given_up": now}
    for n in range(27):
        notice = Notice.objects.create(id=f"n{n:02}", kind="completed", payload={"subject": f"Run <b>{n}"}, **facts)
    DeliveryAttempt.objects.create(notice=notice, at=now, ms=41, status=503, answer="<i>down", error="answered 503")
    shown = adam.get(url).content.decode()
    assert "503" in shown
    assert "41 ms" in shown
    assert "&lt;i&gt;down" in shown
    assert "run.completed" in shown
    assert "27 given up" in shown
    assert "Run &lt;b&gt;0<" in adam.get(f"{url}?before=n02").content.decode()
    assert "No deliveries in this state" in adam.get(f"{url}?state=sent").content.decode()
    adam.post(url, {"act": "resend", "delivery": "n03"})
    again = Notice.objects.get(pk="n03")
    assert (again.given_up, again.sent, again.attempts) == (None, None, 0)
    adam.post(url, {"act": "resend-failed", "days": "1"})
    assert not Notice.objects.filter(given_up__isnull=False).exists()
    assert adam.post(url, {"act": "resend", "delivery": "other"}).status_code == 404


def test_a_webhook_s_secret_is_shown_once(adam: Client) -> None:
    made = adam.post("/settings/webhooks/", {**HOOK, "kinds": ["opened", "answered"]}, follow=True)
    webhook = Webhook.objects.get()
    assert made.redirect_chain == [(f"/settings/webhooks/{webhook.pk}/", 302)]
    assert webhook.secret in made.content.decode()
    for url in ("/settings/webhooks/", f"/settings/webhooks/{webhook.pk}/"):
        shown = adam.get(url).content.decode()
        assert "Chat" in shown
        assert webhook.secret not in shown


def test_an_admin_gives_a_webhook_to_a_service_account(adam: Client) -> None:
    create_service_account(viewer("adam"), "robot", roles=[("viewer", "*")])
    assert 'value="as:robot"' in adam.get("/settings/webhooks/").content.decode()
    made = adam.post("/settings/webhooks/", {**HOOK, "whose": "as:robot"}, follow=True)
    assert Webhook.objects.get().owner.get_username() == "robot"
    for shown in made.content.decode(), adam.get("/settings/webhooks/").content.decode():
        assert "service account" in shown
    refused = adam.post("/settings/webhooks/", {**HOOK, "whose": "as:nobody"})
    assert 'id="hook-owner-error"' in refused.content.decode()
    assert adam.post("/settings/webhooks/", {**HOOK, "whose": "as:ana"}).status_code == 403


def test_an_address_inside_is_refused_at_its_field(adam: Client) -> None:
    response = adam.post("/settings/webhooks/", {**HOOK, "url": "http://localhost/"})
    assert response.status_code == 422
    assert 'id="hook-url-error"' in response.content.decode()
    assert 'value="Chat"' in response.content.decode()


def test_a_webhook_is_tested_renewed_rested_and_removed(adam: Client) -> None:
    adam.post("/settings/webhooks/", HOOK)
    webhook = Webhook.objects.get()
    url = f"/settings/webhooks/{webhook.pk}/"
    assert adam.post(url, {"act": "test"}).status_code == 302
    Notice.objects.update(error="OSError: down", attempts=1)
    shown = adam.get(url).content.decode()
    assert "OSError: down" in shown
    assert "retrying" in shown
    renewed = adam.post(url, {"act": "renew"}, follow=True).content.decode()
    first, second = Webhook.objects.get().secret.split()
    assert first in renewed
    assert second not in renewed
    adam.post(url, {"act": "retire"})
    assert Webhook.objects.get().secret == first
    adam.post(url, {"act": "rest"})
    assert not Webhook.objects.get().active
    adam.post(url, {"act": "wake"})
    assert Webhook.objects.get().active
    adam.post(url, {"act": "remove"})
    assert not Webhook.objects.exists()


def test_the_list_of_webhooks_costs_the_same_however_many(adam: Client, django_assert_max_num_queries) -> None:
    for n in range(10):
        adam.post("/settings/webhooks/", {**HOOK, "name": f"hook {n}"})
    with django_assert_max_num_queries(12):
        adam.get("/settings/webhooks/")


def test_a_form_that_is_sent_twice_makes_one_webhook_and_one_new_secret(adam: Client) -> None:
    key = KEY.findall(adam.get("/settings/webhooks/").content.decode())[-1]
    for _ in range(2):
        made = adam.post("/settings/webhooks/", {**HOOK, "_key": key}, follow=True)
        webhook = Webhook.objects.get()
        assert webhook.secret in made.content.decode()
    url = f"/settings/webhooks/{webhook.pk}/"
    key = KEY.findall(adam.get(url).content.decode())[-1]
    for _ in range(2):
        shown = adam.post(url, {"act": "renew", "_key": key}, follow=True).content.decode()
        first, second = Webhook.objects.get().secret.split()
        assert (first in shown, second) == (True, webhook.secret)
