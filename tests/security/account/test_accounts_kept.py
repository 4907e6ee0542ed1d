"""Who started a run stays known, so that anyone who may not decide on it cannot be forgotten."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.db.models import ProtectedError

from checkpoints.models import Run
from tests.people import make_run
from wfdash.access.viewer import origin_of

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_account_of_one_who_started_a_run_cannot_be_deleted():
    oto = User.objects.create_user("oto")
    run = make_run(created_by=oto)
    with pytest.raises(ProtectedError):
        oto.delete()
    assert origin_of(Run.objects.get(pk=run.pk)).includes("oto")
    run.delete()
    oto.delete()
    assert not User.objects.filter(username="oto").exists()
