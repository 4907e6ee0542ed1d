"""What people are not told of: who else is there, and what a card that is not for them says."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from checkpoints.models import Absence, Grant
from tests import people
from wfdash.domain.hash_chain import fingerprint
from wfdash.queries.requests.request import possible_delegates, read_request

DAY = timedelta(days=1)


def away(client: Client, delegate: str) -> Any:
    today = timezone.now().date()
    return client.post("/out-of-office/", {"delegate": delegate, "since": str(today), "until": str(today + DAY)})


def test_someone_without_a_role_learns_no_name(as_: Callable[[str], Client]) -> None:
    sam = as_("sam")
    assert 'value="ana"' not in sam.get("/out-of-office/").content.decode()
    refused = [away(sam, name) for name in ("ana", "made-up")]
    assert [answer.status_code for answer in refused] == [422, 422]
    assert all("No such user" in answer.content.decode() for answer in refused)
    assert not Absence.objects.exists()


@pytest.mark.parametrize(("workflow", "seen"), [("other", False), ("payments", True), ("*", True)])
def test_names_of_stand_ins_are_those_of_shared_workflows(workflow: str, seen: bool, db: None) -> None:
    ida, kim = User.objects.create_user("ida"), User.objects.create_user("kim")
    Grant.objects.create(user=ida, role="reviewer", workflow="payments")
    Grant.objects.create(user=kim, role="reviewer", workflow=workflow)
    assert possible_delegates(people.viewer("ida")) == (("kim",) if seen else ())


def test_the_fingerprint_of_a_hidden_card_is_not_given_out(everybody: dict[str, User], db: None) -> None:
    asked = people.ask(people.make_run(created_by=everybody["otto"]), by=["finance"])
    shown, hidden = (read_request(people.viewer(name), asked.id) for name in ("ana", "ben"))
    assert shown.seen == fingerprint(asked.card, asked.answer_schema)
    assert hidden.seen == ""
