"""Words of 60 characters, in every title, key and text of a workflow, make no page wider than a phone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import OpenPage
from tests.e2e.looks import check_width
from tests.e2e.moves import start_run
from tests.e2e.server import Server, serving, shell, wait_until

FOUND = """
import json
from checkpoints.models import HumanRequest
asked = HumanRequest.objects.order_by("created").first()
print(json.dumps(asked and {"name": asked.workflow, "request": asked.pk, "run": asked.run_id,
    "checkpoint": asked.run.checkpoints.order_by("n").first().pk}))
"""
PAGES = [
    *("/?tab=all", "/runs/", "/workflows/", "/schedules/new/", "/notifications/", "/statistics/", "/settings/tokens/"),
    *("/workflows/{name}/", "/people/access/?workflow={name}", "/schedules/new/?workflow={name}", "/focus/?tab=all"),
    *("/requests/{request}/", "/requests/{request}/similar/", "/runs/{run}/", "/runs/{run}/events/"),
    *("/runs/{run}/state/?what=input", "/runs/{run}/checkpoints/", "/runs/{run}/beside/", "/runs/{run}/cancel/"),
    *("/runs/{run}/compare/?a=1&b=2", "/runs/{run}/checkpoints/{checkpoint}/edit/"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Server]:
    file = Path(__file__).with_name("long_words.py")
    with serving(Server(tmp_path_factory.mktemp("words") / "data", files=[file], template=sqlite_template)) as server:
        shell(server, "from django.contrib.auth.models import User; User.objects.create_superuser('adam')")
        yield server


def test_no_page_scrolls_sideways(person: OpenPage, server: Server) -> None:
    page = person("adam")
    page.set_viewport_size({"width": 390, "height": 844})
    for _ in range(2):
        start_run(page, "w" * 60)
    found = wait_until(lambda: json.loads(shell(server, FOUND)), what="a request")
    for address in PAGES:
        page.goto(address.format(**found))
        check_width(page)
