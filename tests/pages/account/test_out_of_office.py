from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from checkpoints.models import Absence


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
