from __future__ import annotations

import pytest
from django.test import Client

from checkpoints.models import Notice, Preference, Webhook
from wfdash.notifications.kinds import KINDS

FORM = {"zone": "Europe/Rome", "digest": "", "digest_at": "08:00", "quiet_from": "22:00", "quiet_to": "07:00"}
HOOK = {"name": "Chat", "url": "https://hooks.example.org/in", "workflow": "*"}


@pytest.fixture
def adam(people, client: Client) -> Client:
    client.force_login(people["adam"])
    return client


def test_every_kind_can_be_chosen_and_is_kept(ana: Client, people, settings) -> None:
    settings.WFDASH_MAIL = "smtp://localhost"
    people["ana"].email = "ana@example.org"
    people["ana"].save()
    shown = ana.get("/settings/").content.decode()
    assert all(f'name="{kind}.mail"' in shown for kind in KINDS)
    assert "ana@example.org" in shown
    response = ana.post("/settings/", {**FORM, "opened.mail": "1", "quiet": "1", "digest": "daily"})
    assert response.status_code == 302
    data = Preference.objects.get().data
    assert data["channels"]["opened"] == ["apprise", "mail", "push"], "what is not shown stays"
    assert data["channels"]["reminder"] == ["apprise", "push"]
    assert (data["zone"], data["quiet"], data["digest"]) == ("Europe/Rome", ["22:00", "07:00"], "daily")
    again = ana.get("/settings/").content.decode()
    assert 'name="opened.mail" value="1" checked' in again
    assert 'name="opened.browser" value="1" checked' not in again


def test_what_the_form_does_not_show_stays_as_it_was(ana: Client) -> None:
    assert 'name="opened.mail"' not in ana.get("/settings/").content.decode()
    ana.post("/settings/", {**FORM, "opened.browser": "1"})
    assert Preference.objects.get().data["channels"]["reminder"] == ["apprise", "mail", "push"]


def test_a_mistake_is_said_at_its_field_and_what_was_typed_is_kept(ana: Client) -> None:
    response = ana.post("/settings/", {**FORM, "zone": "Mars/Base", "mentioned.browser": "1"})
    shown = response.content.decode()
    assert response.status_code == 422
    assert 'id="zone-error"' in shown
    assert 'value="Mars/Base"' in shown
    assert 'name="mentioned.browser" value="1" checked' in shown
    assert not Preference.objects.exists()


def test_webhooks_are_for_admins(ana: Client) -> None:
    assert ana.get("/settings/webhooks/").status_code == 403
    assert ana.get("/settings/webhooks/x/").status_code == 403
    assert "webhooks" not in ana.get("/settings/").content.decode()


def test_a_webhook_s_secret_is_shown_once(adam: Client) -> None:
    made = adam.post("/settings/webhooks/", {**HOOK, "kinds": ["opened", "decided"]})
    assert made.status_code == 201
    webhook = Webhook.objects.get()
    assert webhook.secret in made.content.decode()
    for url in ("/settings/webhooks/", f"/settings/webhooks/{webhook.pk}/"):
        shown = adam.get(url).content.decode()
        assert "Chat" in shown
        assert webhook.secret not in shown


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
    renewed = adam.post(url, {"act": "renew"}).content.decode()
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
