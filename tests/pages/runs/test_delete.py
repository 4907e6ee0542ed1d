from __future__ import annotations

import pytest
from django.urls import reverse

from checkpoints.models import Checkpoint, Run
from tests.actions.runs.test_delete import ended
from tests.pages.checkpoints.test_time_machine import head, otto, started

__all__ = ["otto"]
pytestmark = pytest.mark.django_db(transaction=True)


def test_a_run_is_deleted_after_a_page_that_says_what_goes_and_stays(otto):
    run = started()
    address = f"/runs/{run.pk}/delete/"
    assert "Cancel it first" in otto.get(address).content.decode()
    assert "has not ended" not in otto.post(address, follow=True).content.decode()
    assert Run.objects.filter(pk=run.pk).exists()
    ended(run)
    assert address in otto.get(f"/runs/{run.pk}/").content.decode()
    assert "The audit entries of this run" in otto.get(address).content.decode()
    assert "Run deleted" in otto.post(address, {"_key": "k"}, follow=True).content.decode()
    assert otto.get(f"/runs/{run.pk}/").status_code == 404


def test_the_api_deletes_ended_runs_and_checkpoints_no_one_needs(otto):
    run = started()
    place = f"/api/v1/runs/{run.pk}"
    assert otto.delete(place).status_code == 409
    assert otto.delete(f"{place}/checkpoints/{head(run).pk}").status_code == 409
    first = Checkpoint.objects.filter(run=run).order_by("n").first()
    assert first.pk != head(run).pk
    assert otto.delete(f"{place}/checkpoints/{first.pk}").status_code == 204
    ended(run)
    assert otto.delete(place).status_code == 204
    assert otto.delete(place).status_code == 404


def test_a_checkpoint_is_deleted_after_a_page_that_says_so(otto):
    run = started()
    first = Checkpoint.objects.filter(run=run).order_by("n").first()
    address = reverse("wfdash:checkpoint-delete", args=[run.pk, first.pk])
    assert "cannot be undone" in otto.get(address).content.decode()
    assert "Checkpoint deleted" in otto.post(address, follow=True).content.decode()
    assert not Checkpoint.objects.filter(pk=first.pk).exists()
