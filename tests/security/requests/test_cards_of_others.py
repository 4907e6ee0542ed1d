"""What is addressed to others is theirs to read."""

from __future__ import annotations

import json

import pytest

from tests import people

pytestmark = pytest.mark.django_db


def test_a_reviewer_who_is_not_addressed_reads_the_subject_and_no_value(as_, everybody) -> None:
    card = {"subject": "A payment", "body": "to Supplier", "proposal": {"amount": 777777}}
    request = people.ask(people.make_run(), by=["finance"], card=card)
    told = json.dumps(as_("ben").get(f"/api/v1/requests/{request.pk}").json())
    page = as_("ben").get(f"/requests/{request.pk}/").content.decode()
    for shown in (told, page):
        assert "A payment" in shown
        assert "777777" not in shown
        assert "to Supplier" not in shown
    assert "777777" in as_("ana").get(f"/requests/{request.pk}/").content.decode()


def test_the_card_says_when_no_one_can_decide_it_and_what_helps(as_, everybody) -> None:
    request = people.ask(people.make_run(), by=["legal"])
    page = as_("otto").get(f"/requests/{request.pk}/").content.decode()
    assert "No one can answer this: there is no user or group named legal." in page
    assert "assign the request, or override" in page
