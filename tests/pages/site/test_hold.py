"""A restored copy is looked at, and does nothing."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
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


TOKENS = Path(settings.BASE_DIR, "static/css/site/tokens.css")
PAIR = re.compile(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)")
GROUNDS = ("added-bg", "added-mark", "removed-bg", "removed-mark")
LETTERS = ("code-keyword", "code-string", "code-number", "code-name", "code-comment")


def luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_code_is_readable_on_every_ground_of_a_diff() -> None:
    tokens = {name: (light, dark) for name, light, dark in PAIR.findall(TOKENS.read_text())}
    pairs = {(ground, name, scheme) for ground, name in product(GROUNDS, LETTERS) for scheme in (0, 1)}
    found = {key: contrast(tokens[key[0]][key[2]], tokens[key[1]][key[2]]) for key in pairs}
    assert {key: round(value, 2) for key, value in found.items() if value < 4.5} == {}
