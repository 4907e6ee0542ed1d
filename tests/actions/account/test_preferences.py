from __future__ import annotations

from collections.abc import Callable

import pytest

from checkpoints.database.storage import write
from checkpoints.models import HumanRequest, Notice
from wfdash.access.viewer import Viewer
from wfdash.actions.account import read_notices, set_preferences
from wfdash.domain import cron
from wfdash.domain.errors import Invalid
from wfdash.notifications.preferences import Preferences, read_preferences
from wfdash.notifications.write import notify, preferences_of

Ask = Callable[..., HumanRequest]
Person = Callable[..., Viewer]


def test_preferences_are_kept_and_changed(person: Person) -> None:
    ana = person("ana", "reviewer")
    made = set_preferences(ana, channels={"opened": ["mail", "pigeon"]}, zone="Europe/Rome", quiet=["22:00", "07:00"])
    assert preferences_of([ana.user.pk]) == {ana.user.pk: made}
    assert made.channels["opened"] == {"mail"}
    changed = set_preferences(ana, channels={}, zone="UTC", digest="hourly")
    assert preferences_of([ana.user.pk]) == {ana.user.pk: changed}


def test_what_cannot_be_is_said_at_its_field(person: Person) -> None:
    with pytest.raises(Invalid) as refused:
        set_preferences(
            person("ana"), channels={}, zone="Mars/Base", quiet=["25:00", "x"], digest="yearly", digest_at=""
        )
    fields = [error["loc"][0] for error in refused.value.errors]
    assert fields == ["quiet_from", "quiet_to", "digest_at", "zone", "digest"]


def test_notices_are_read_one_by_one_by_request_or_all_and_only_one_s_own(ask: Ask, person: Person) -> None:
    ana, ben = person("ana", "reviewer"), person("ben", "reviewer")
    requests = [ask(f"r{n}") for n in range(4)]
    with write():
        for request in requests:
            notify("opened", request, [ana.user, ben.user])
    first = Notice.objects.get(user=ana.user, request=requests[0])
    assert read_notices(ben, [first.pk]) == 0
    assert read_notices(ana, [first.pk]) == 1
    assert read_notices(ana, request=requests[1].pk) == 1
    assert read_notices(ana) == 2
    assert read_notices(ana) == 0
    assert Notice.objects.filter(user=ben.user, read__isnull=True).count() == 4


def test_reading_what_a_person_chose_lists_no_zones_from_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = Preferences(zone="Europe/Rome").stored()
    assert read_preferences(stored).zone == "Europe/Rome"
    monkeypatch.setattr(cron, "available_timezones", lambda: pytest.fail("the zones were listed again"))
    assert read_preferences(stored).zone == "Europe/Rome"
