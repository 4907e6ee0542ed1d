from __future__ import annotations

from datetime import timedelta

from django.test import Client
from django.utils import timezone

from checkpoints.models import Absence, ChatAccount, Preference
from wfdash.notifications.preferences import KINDS

FORM = {"zone": "Europe/Rome", "digest": "", "digest_at": "08:00", "quiet_from": "22:00", "quiet_to": "07:00"}


def test_every_kind_can_be_chosen_and_is_kept(ana: Client, people, settings) -> None:
    settings.WFDASH_MAIL = "smtp://localhost"
    people["ana"].email = "ana@example.org"
    people["ana"].save()
    shown = ana.get("/settings/").content.decode()
    assert all(f'name="{kind}.mail"' in shown for kind in KINDS)
    assert "ana@example.org" in shown
    assert ana.post("/settings/", {**FORM, "opened.mail": "1", "quiet": "1", "digest": "daily"}).status_code == 302
    data = Preference.objects.get().data
    assert data["channels"]["opened"] == ["apprise", "mail", "push", "slack"], "what is not shown stays"
    assert data["channels"]["reminder"] == ["apprise", "push", "slack"]
    assert (data["zone"], data["quiet"], data["digest"]) == ("Europe/Rome", ["22:00", "07:00"], "daily")
    again = ana.get("/settings/").content.decode()
    assert 'name="opened.mail" value="1" checked' in again
    assert 'name="opened.browser" value="1" checked' not in again


def test_what_the_form_does_not_show_stays_as_it_was(ana: Client) -> None:
    assert 'name="opened.mail"' not in ana.get("/settings/").content.decode()
    ana.post("/settings/", {**FORM, "opened.browser": "1"})
    assert Preference.objects.get().data["channels"]["reminder"] == ["apprise", "mail", "push", "slack"]


def test_a_mistake_is_said_at_its_field_and_what_was_typed_is_kept(ana: Client) -> None:
    response = ana.post("/settings/", {**FORM, "zone": "Mars/Base", "mentioned.browser": "1"})
    shown = response.content.decode()
    assert response.status_code == 422
    assert 'id="zone-error"' in shown
    assert 'value="Mars/Base"' in shown
    assert 'name="mentioned.browser" value="1" checked' in shown
    assert not Preference.objects.exists()


def days(first: int, last: int) -> dict[str, str]:
    today = timezone.now().date()
    return {"since": str(today + timedelta(days=first)), "until": str(today + timedelta(days=last))}


def test_someone_goes_away_and_comes_back(everybody, as_):
    ana, ben = as_("ana"), as_("ben")
    page = ana.post("/out-of-office/", {"delegate": "ben", **days(0, 7)}, follow=True).content.decode()
    assert "<strong>ben</strong> decides for you" in page
    assert "for <strong>ana</strong>" in ben.get("/out-of-office/").content.decode()
    absence = Absence.objects.get()
    assert absence.since <= timezone.now()
    assert ben.post(f"/out-of-office/{absence.pk}/end/").status_code == 404
    assert "Out of office ended" in ana.post(f"/out-of-office/{absence.pk}/end/", follow=True).content.decode()
    assert Absence.objects.get().until <= timezone.now()


def test_what_does_not_fit_is_said_at_its_field(everybody, as_):
    ana = as_("ana")
    for sent, words in [
        ({"delegate": "ana", **days(0, 1)}, "Choose someone else"),
        ({"delegate": "ben", **days(3, 1)}, "The last day must not be before the first"),
        ({"delegate": "ben", "since": "nonsense", "until": "2026-13-45"}, "Enter a date"),
    ]:
        answer = ana.post("/out-of-office/", sent)
        assert answer.status_code == 422
        assert words in answer.content.decode()
    assert not Absence.objects.exists()


def test_slack_is_connected_by_a_code_shown_once_and_disconnected(ana: Client, settings) -> None:
    assert "Connect Slack" not in ana.get("/settings/").content.decode()
    settings.WFDASH_SLACK_TOKEN, settings.WFDASH_SLACK_TEAM = "xoxb-secret", "T1"
    assert "Connect Slack" in ana.get("/settings/").content.decode()
    shown = ana.post("/settings/slack/", {"act": "connect"}, follow=True).content.decode()
    assert "/wfdash connect " in shown
    assert "xoxb-secret" not in shown
    assert "/wfdash connect " not in ana.get("/settings/").content.decode()
    ChatAccount.objects.update(team="T1", uid="UANA")
    page = ana.get("/settings/").content.decode()
    assert 'name="opened.slack"' in page
    assert "Disconnect Slack" in page
    ana.post("/settings/slack/", {"act": "disconnect"})
    assert not ChatAccount.objects.exists()
