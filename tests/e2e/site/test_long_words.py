"""Words of 60 characters, in every title, key and text of a workflow, make no page wider than a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import OpenPage
from tests.e2e.looks import check_width
from tests.e2e.moves import start_run
from tests.e2e.server import Server, serving, shell

PAGES = "/?tab=all /runs/ /workflows/ /schedules/new/ /notifications/ /statistics/ /focus/?tab=all /settings/tokens/"
OF_WORKFLOW = "/workflows/{name}/ /people/access/?workflow={name} /schedules/new/?workflow={name}"
OF_RUN = "/ /events/ /state/?what=input /checkpoints/ /beside/ /cancel/ /compare/?a=1&b=2"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path) -> Iterator[Server]:
    file = Path(__file__).with_name("long_words.py")
    with serving(Server(tmp_path_factory.mktemp("words") / "data", files=[file], template=sqlite_template)) as server:
        shell(server, "from django.contrib.auth.models import User; User.objects.create_superuser('adam')")
        yield server


def test_no_page_scrolls_sideways(person: OpenPage) -> None:
    page, name = person("adam"), "w" * 60
    page.set_viewport_size({"width": 390, "height": 844})
    runs = [start_run(page, name) for _ in range(2)]
    request = page.locator("#run-requests a[href*='/requests/']").first.get_attribute("href") or ""
    addresses = [*PAGES.split(), *OF_WORKFLOW.format(name=name).split(), request, f"{request.split('?')[0]}similar/"]
    for address in [*addresses, *(f"/runs/{runs[0]}{part}" for part in OF_RUN.split())]:
        page.goto(address)
        check_width(page)
