from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from checkpoints.models import Absence, AuditEntry, Reply
from wfdash.access.viewer import viewer_for
from wfdash.actions.account import end_absence, set_absence
from wfdash.actions.requests.answer import answer_request
from wfdash.domain.errors import Invalid, NotAllowed, NotFound

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def test_while_someone_is_away_their_delegate_decides_for_them(person, ask) -> None:
    ana, ben, request = person("ana", "reviewer"), person("ben", "reviewer"), ask(by=["ana"])
    with pytest.raises(NotAllowed):
        answer_request(ben, request.id, {"action": "approve"})
    now = timezone.now()
    absence = set_absence(ana, "ben", now - HOUR, now + HOUR)
    ben = viewer_for(ben.user)
    answer_request(ben, request.id, {"action": "approve"})
    assert Reply.objects.get().acting_for == "ana"
    end_absence(ana, absence.pk)
    assert not viewer_for(ben.user).acts_for
    assert [entry.verb for entry in AuditEntry.objects.exclude(verb="answer").order_by("n")] == ["away", "back"]


def test_an_absence_names_someone_else_and_a_time_to_come(person) -> None:
    ana, now = person("ana", "reviewer"), timezone.now()
    person("ben", "reviewer")
    for name, since, until, where in [
        ("nobody", now, now + HOUR, "delegate"),
        ("ana", now, now + HOUR, "delegate"),
        ("ben", now, now - HOUR, "until"),
        ("ben", now - 2 * HOUR, now - HOUR, "until"),
        ("ben", now, now + timedelta(days=500), "until"),
    ]:
        with pytest.raises(Invalid) as refused:
            set_absence(ana, name, since, until)
        assert refused.value.errors[0]["loc"] == [where]
    set_absence(ana, "ben", now, now + HOUR)
    with pytest.raises(Invalid) as twice:
        set_absence(ana, "ben", now, now + HOUR)
    assert twice.value.errors[0]["loc"] == ["since"]


def test_an_absence_to_come_is_dropped_and_one_of_others_not_found(person) -> None:
    ana, ben, now = person("ana", "reviewer"), person("ben", "reviewer"), timezone.now()
    absence = set_absence(ana, "ben", now + HOUR, now + 2 * HOUR)
    with pytest.raises(NotFound):
        end_absence(ben, absence.pk)
    end_absence(ana, absence.pk)
    assert not Absence.objects.exists()
