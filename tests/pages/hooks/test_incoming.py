from __future__ import annotations

import re

import pytest
from django.test import Client
from django.utils import timezone

from checkpoints.models import IncomingDelivery, IncomingHook

KEY = re.compile(r'name="_key" value="([^"]+)"')
FORM = {
    "name": "Shop",
    "scheme": "token",
    "mapping": '{"claims": {"$": "/claims"}}',
    "sample": '{"claims": [{"employee": "<b>ana</b>", "amount": 9, "purpose": "taxi"}]}',
}
NEW = "/settings/incoming-webhooks/new/?workflow=expense_batch"


@pytest.fixture
def otto(people, client: Client) -> Client:
    client.force_login(people["otto"])
    return client


def test_the_form_suggests_a_message_and_previews_it_before_anything_is_saved(otto: Client) -> None:
    assert "&quot;$&quot;" in otto.get(NEW).content.decode()
    shown = otto.post(NEW, {**FORM, "act": "preview", "sample": '{"claims": 7}'}).content.decode()
    assert "This delivery would be refused" in shown
    shown = otto.post(NEW, {**FORM, "act": "preview", "sample": "{"}).content.decode()
    assert "must be JSON" in shown
    shown = otto.post(NEW, {**FORM, "act": "preview"}).content.decode()
    assert "<b>ana" not in shown
    assert "&lt;b&gt;ana" in shown
    assert not IncomingHook.objects.exists()


def test_an_address_and_its_secret_are_shown_and_the_secret_only_once(otto: Client) -> None:
    made = otto.post(NEW, {**FORM, "act": "save"}, follow=True)
    hook = IncomingHook.objects.get()
    assert made.redirect_chain == [(f"/settings/incoming-webhooks/{hook.pk}/", 302)]
    assert hook.secret in made.content.decode()
    shown = otto.get(f"/settings/incoming-webhooks/{hook.pk}/").content.decode()
    assert f"/hooks/{hook.pk}" in shown
    assert hook.secret not in shown
    assert hook.secret not in otto.get(f"/settings/incoming-webhooks/{hook.pk}/edit/").content.decode()
    assert "Shop" in otto.get("/settings/incoming-webhooks/").content.decode()


def test_without_a_workflow_one_is_chosen_first(otto: Client) -> None:
    assert otto.get("/settings/incoming-webhooks/new/").headers["Location"].endswith("-webhooks/#incoming-workflow")
    assert 'id="incoming-workflow"' in otto.get("/settings/incoming-webhooks/").content.decode()
    assert otto.get("/settings/incoming-webhooks/new/?workflow=nothing").status_code == 404


def test_a_mistake_is_said_at_its_field_and_what_was_typed_is_kept(otto: Client) -> None:
    response = otto.post(NEW, {**FORM, "mapping": "{oops", "key_at": "id", "act": "save"})
    assert response.status_code == 422
    assert 'id="incoming-mapping-error"' in response.content.decode()
    assert "{oops" in response.content.decode()


def test_what_came_is_listed_with_its_body_for_who_may_inspect(otto: Client, people) -> None:
    otto.post(NEW, {**FORM, "act": "save"})
    hook, now = IncomingHook.objects.get(), timezone.now()
    for n in range(27):
        facts = {"status": 422, "outcome": "refused", "why": "claims: <i>wrong</i>", "size": 9, "body": '{"secret": 1}'}
        IncomingDelivery.objects.create(id=f"d{n:02}", hook=hook, at=now, **facts)
    url = f"/settings/incoming-webhooks/{hook.pk}/"
    shown = otto.get(url).content.decode()
    assert "&lt;i&gt;wrong" in shown
    assert "&quot;secret&quot;: 1" in shown
    assert "d00" in otto.get(f"{url}?before=d02").content.decode()
    assert "No deliveries with this outcome" in otto.get(f"{url}?outcome=started").content.decode()
    people["otto"].grants.update(role="reviewer")
    assert "&quot;secret&quot;" not in otto.get(url).content.decode()


def test_no_one_else_sees_or_changes_it_but_admins(otto: Client, ana: Client, people) -> None:
    otto.force_login(people["otto"])
    otto.post(NEW, {**FORM, "act": "save"})
    hook = IncomingHook.objects.get()
    url = f"/settings/incoming-webhooks/{hook.pk}/"
    ana.force_login(people["ana"])
    for address in (url, f"{url}edit/"):
        assert ana.get(address).status_code == 404
        assert ana.post(address, {**FORM, "act": "remove"}).status_code == 404
    ana.force_login(people["adam"])
    assert ana.post(f"{url}edit/", {**FORM, "name": "Renamed", "act": "save"}).status_code == 302
    for act in ("renew", "retire", "rest", "wake"):
        assert ana.post(url, {"act": act}).status_code in {200, 302}
    hook.refresh_from_db()
    assert (hook.name, hook.owner, hook.active) == ("Renamed", people["otto"], True)
    ana.post(url, {"act": "remove"})
    assert not IncomingHook.objects.exists()


def test_a_form_that_is_sent_twice_makes_one_address_and_one_new_secret(otto: Client) -> None:
    key = KEY.findall(otto.get(NEW).content.decode())[-1]
    for _ in range(2):
        made = otto.post(NEW, {**FORM, "act": "save", "_key": key}, follow=True)
        hook = IncomingHook.objects.get()
        assert hook.secret in made.content.decode()
    url = f"/settings/incoming-webhooks/{hook.pk}/"
    key = KEY.findall(otto.get(url).content.decode())[-1]
    for _ in range(2):
        shown = otto.post(url, {"act": "renew", "_key": key}, follow=True).content.decode()
        first, second = IncomingHook.objects.get().secret.split()
        assert (first in shown, second) == (True, hook.secret)
