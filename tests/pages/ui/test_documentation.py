"""Links to the documentation: there where an installation says where it is, and they lead to sections that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from checkpoints.models import Run
from wfdash.installation.environment import as_address
from wfdash.records.runs import RunError
from wfdash.web.pages.runs.header import ERRORS, HINTS, SECTIONS, section_about
from wfdash.web.pages.ui.fragments import guide

DOCS = Path(__file__).parents[3] / "docs"
ADDRESS = "https://docs.example/wfdash"


@pytest.mark.parametrize("path", ["/runs/", "/nowhere/"])
def test_menu_and_error_pages_lead_to_it_where_it_is_served(path, as_, settings):
    assert ADDRESS not in as_("otto").get(path).content.decode()
    settings.WFDASH_DOCS = ADDRESS
    assert f'href="{ADDRESS}/index.html"' in as_("otto").get(path).content.decode()


def test_the_search_over_everything_finds_it(as_, settings):
    question = {"q": "manual", "fragment": "options"}
    assert "Documentation" not in as_("otto").get("/search/", question).content.decode()
    settings.WFDASH_DOCS = ADDRESS
    assert f'href="{ADDRESS}/index.html"' in as_("otto").get("/search/", question).content.decode()


def test_a_failed_run_leads_to_the_section_about_its_error(as_, settings, run):
    error = {"type": "wfdash.workflow.errors.NotStorable", "message": "a socket"}
    Run.objects.filter(pk=run.pk).update(phase="failed", error=error)
    settings.WFDASH_DOCS = ADDRESS
    shown = as_("otto").get(f"/runs/{run.pk}/").content.decode()
    assert f'<a href="{ADDRESS}/steps.html#what-can-be-stored">Read more</a>' in shown


def slugs(page: str) -> set[str]:
    """Return the addresses of a page's sections, as the site makes them."""
    titles = re.findall(r"^#+ (.+)$", (DOCS / f"{page}.md").read_text(), re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


def test_each_error_is_explained_in_a_section_that_exists():
    assert SECTIONS.keys() <= HINTS.keys()
    for page, section in {*SECTIONS.values(), ERRORS}:
        assert section in slugs(page), f"{page}: {section}"
    assert section_about(RunError(type="builtins.ValueError")) == ERRORS == section_about(None)
    assert guide(*ERRORS) == ""


@pytest.mark.parametrize("address", ["javascript:alert(1)", "docs.example", "https://", "/docs"])
def test_what_is_no_address_of_a_web_page_is_refused(address):
    with pytest.raises(ValueError, match="WFDASH_DOCS must be an address that begins with https:// or http://"):
        as_address("WFDASH_DOCS", address)
    assert as_address("WFDASH_DOCS", "https://docs.example/wfdash/") == ADDRESS
