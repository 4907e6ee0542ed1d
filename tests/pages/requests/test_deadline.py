from __future__ import annotations

import re
from datetime import timedelta

from django.utils import timezone

from checkpoints.models import HumanRequest, Preference
from tests.pages.markup import flat


def test_an_operator_moves_a_deadline_in_their_own_time_zone(question, as_, everybody):
    Preference.objects.create(user=everybody["otto"], data={"zone": "Asia/Tokyo"})
    client = as_("otto")
    assert "In Asia/Tokyo" in client.get(f"/requests/{question.pk}/deadline/").content.decode()
    tomorrow = (timezone.now() + timedelta(days=1)).replace(hour=3, minute=0, second=0, microsecond=0)
    answer = client.post(f"/requests/{question.pk}/deadline/", {"due": tomorrow.strftime("%Y-%m-%dT12:00")})
    assert answer.status_code == 302
    assert HumanRequest.objects.get(pk=question.pk).due == tomorrow
    assert f"/requests/{question.pk}/deadline/" in client.get(f"/requests/{question.pk}/").content.decode()


def test_a_time_that_has_passed_or_is_none_is_said_at_the_field(question, as_):
    client = as_("otto")
    for due in ("2020-01-01T12:00", "soon"):
        answer = client.post(f"/requests/{question.pk}/deadline/", {"due": due})
        assert answer.status_code == 422
        assert 'id="due-error"' in answer.content.decode()


def test_a_reviewer_whose_it_is_not_may_not(question, as_):
    later = (timezone.now() + timedelta(days=1)).strftime("%Y-%m-%dT12:00")
    assert as_("ana").post(f"/requests/{question.pk}/deadline/", {"due": later}).status_code == 403
    assert "/deadline/" not in as_("ana").get(f"/requests/{question.pk}/").content.decode()


def test_a_request_without_a_due_date_is_offered_one_in_a_day(question, as_):
    page = as_("otto").get(f"/requests/{question.pk}/deadline/").content.decode()
    assert "<h1>Set due date</h1>" in page
    offered = re.search(r'name="due" value="([^"]+)"', flat(page))[1]
    assert (timezone.now() + timedelta(hours=23)).strftime("%Y-%m-%dT%H") <= offered
    HumanRequest.objects.update(due=timezone.now() + timedelta(days=3))
    assert "<h1>Change due date</h1>" in as_("otto").get(f"/requests/{question.pk}/deadline/").content.decode()
