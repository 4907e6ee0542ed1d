from __future__ import annotations

from collections.abc import Callable

import pytest

from checkpoints.models import AuditEntry, Notice, Webhook
from wfdash.access.viewer import Viewer
from wfdash.actions.hooks import webhooks
from wfdash.actions.people.accounts import create_service_account
from wfdash.domain.errors import Invalid, NotAllowed, NotFound

Person = Callable[..., Viewer]
URL = "https://hooks.example.org/in"


@pytest.fixture
def adam(person: Person) -> Viewer:
    return person("adam", "admin")


def test_a_webhook_is_made_with_a_secret_and_recorded(adam: Viewer) -> None:
    webhook, secret = webhooks.create_webhook(adam, name=" Chat ", url=URL, kinds=["opened"])
    assert (webhook.name, webhook.workflow, webhook.kinds) == ("Chat", "*", ["opened"])
    assert secret.startswith("whsec_")
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.verb) == ("adam", "add webhook")
    assert secret not in str(entry.facts)


@pytest.mark.parametrize(
    ("facts", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 81}, "name"),
        ({"url": "http://hooks.example.org"}, "url"),
        ({"url": "https://a@hooks.example.org"}, "url"),
        ({"kinds": ["party"]}, "kinds"),
    ],
)
def test_what_does_not_fit_is_said_at_its_field(adam: Viewer, facts: dict[str, object], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        webhooks.create_webhook(adam, **{"name": "n", "url": URL, **facts})  # type: ignore[arg-type]
    assert [error["loc"] for error in refused.value.errors] == [[field]]
    assert not Webhook.objects.exists()


def test_only_admins_of_everything_look_after_webhooks_of_the_installation(adam: Viewer, person: Person) -> None:
    webhook, _ = webhooks.create_webhook(adam, name="n", url=URL)
    for viewer in (person("otto", "operator"), person("part", "admin", "expense")):
        with pytest.raises(NotAllowed):
            webhooks.create_webhook(viewer, name="n", url=URL)
        with pytest.raises(NotFound):
            webhooks.find_webhook(viewer, webhook.pk)
    with pytest.raises(NotFound):
        webhooks.find_webhook(adam, "none")


def test_a_webhook_of_a_service_account_is_added_by_admins_alone(adam: Viewer, person: Person) -> None:
    create_service_account(adam, "robot", roles=[("reviewer", "expense")])
    webhook, _ = webhooks.create_webhook(adam, name="n", url=URL, workflow="expense", owner="robot")
    assert webhook.owner.get_username() == "robot"
    with pytest.raises(NotAllowed):
        webhooks.create_webhook(person("otto", "operator"), name="n", url=URL, owner="robot")
    with pytest.raises(NotAllowed, match="is a person"):
        webhooks.create_webhook(adam, name="n", url=URL, owner="otto")
    for owner, facts, field in ("none", {}, "owner"), ("robot", {"values": True}, "values"):
        with pytest.raises(Invalid) as refused:
            webhooks.create_webhook(adam, name="n", url=URL, owner=owner, **facts)
        assert [error["loc"] for error in refused.value.errors] == [[field]]


def test_an_old_secret_signs_along_until_it_is_retired(adam: Viewer) -> None:
    webhook, first = webhooks.create_webhook(adam, name="n", url=URL)
    second = webhooks.renew_secret(adam, webhook.pk)
    webhook.refresh_from_db()
    assert webhook.secret.split() == [second, first]
    third = webhooks.renew_secret(adam, webhook.pk)
    webhook.refresh_from_db()
    assert webhook.secret.split() == [third, second]
    webhooks.retire_secret(adam, webhook.pk)
    webhook.refresh_from_db()
    assert webhook.secret == third


def test_a_test_goes_the_way_of_every_delivery(adam: Viewer) -> None:
    webhook, _ = webhooks.create_webhook(adam, name="n", url=URL)
    notice = webhooks.try_webhook(adam, webhook.pk)
    assert (notice.kind, notice.target, notice.sent) == ("test", webhook.pk, None)
    webhooks.switch_webhook(adam, webhook.pk, active=False)
    webhook.refresh_from_db()
    assert not webhook.active
    webhooks.remove_webhook(adam, webhook.pk)
    assert not Webhook.objects.exists()
    assert not Notice.objects.exists()
