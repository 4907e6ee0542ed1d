from __future__ import annotations

import pytest

from checkpoints.models import Notice, Run

CARD = {"subject": "Pay 900?", "body": "For the fair.", "proposal": {"amount": 900}}


@pytest.fixture
def olga(person, run):
    """Who started the run, and may otherwise only look."""
    olga = person("olga", "viewer")
    Run.objects.filter(pk=run.pk).update(created_by=olga.user)
    return olga


def told(name: str) -> list[str]:
    return [note.kind for note in Notice.objects.filter(channel="browser", user__username=name).order_by("id")]
