"""A restored copy is looked at, and does nothing."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.test import Client

from tests.people import make_people
from wfdash.worker import process
from wfdash.worker.process import serve_worker

WORDS = b"This installation is on hold."


@pytest.mark.django_db
@pytest.mark.parametrize("address", ["/", "/runs/", "/nowhere/", "/sign-in/", "/focus/"])
def test_every_page_says_that_nothing_continues_or_is_sent(settings: Any, address: str) -> None:
    client = Client()
    if address != "/sign-in/":
        client.force_login(make_people()["otto"])
    assert WORDS not in client.get(address, follow=True).content
    settings.WFDASH_HOLD = True
    assert WORDS in client.get(address, follow=True).content


def test_no_worker_starts(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.WFDASH_HOLD, settings.WFDASH_EMBED = True, True
    monkeypatch.setattr(process, "_worker", None)
    process.start_worker()
    assert process._worker is None
    with pytest.raises(ImproperlyConfigured, match="Remove it to do so"):
        serve_worker(print)
    with pytest.raises(CommandError, match="runs no workflow and sends nothing"):
        call_command("wfdash_worker")
