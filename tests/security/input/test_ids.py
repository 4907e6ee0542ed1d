"""No id or name from outside reaches a database that cannot hold it."""

from __future__ import annotations

import pytest

from checkpoints.models import Checkpoint
from tests.pages.checkpoints.test_time_machine import head, otto, started

__all__ = ["otto"]
pytestmark = pytest.mark.django_db(transaction=True)

ODD = ["%00", "a%00b", "%ED%A0%80", "%EF%BF%BF", "x" * 3_000, "%F3%A0%81%81"]


@pytest.mark.parametrize("odd", ODD)
def test_an_id_that_cannot_exist_is_not_found_at_every_door(otto, odd):
    run = started()
    place = f"/runs/{run.pk}/checkpoints"
    for path in (f"/runs/{odd}/", f"/api/v1/runs/{odd}", f"/api/v1{place}/{odd}", f"/api/v1/requests/{odd}"):
        assert otto.get(path).status_code == 404
    for path in (f"/api/v1{place}/{odd}/restore", f"/api/v1/runs/{odd}/retry", f"/api/v1/requests/{odd}/answer"):
        sent = {"value": {"action": "approve"}} if "answer" in path else {}
        assert otto.post(path, sent, content_type="application/json").status_code == 404


@pytest.mark.parametrize("label", ["a\x00b", "\ud800", "x" * 201])
def test_a_label_that_cannot_be_stored_is_refused_with_its_field(otto, label):
    run = started()
    place = f"/api/v1/runs/{run.pk}/checkpoints/{head(run).pk}/label"
    refused = otto.post(place, {"label": label}, content_type="application/json")
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["loc"] == ["label"]
    assert not Checkpoint.objects.exclude(label=None).exists()
