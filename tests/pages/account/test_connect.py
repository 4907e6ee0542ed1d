from __future__ import annotations

import re
import runpy

import pytest
from django.utils import timezone

from checkpoints.models import Token
from tests import people
from tests.documentation.test_types import ROOT
from wfdash.web.pages.account.connect import HOSTS, PLACE, RIGHTS


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.key)
def test_each_host_has_its_lines_with_the_address_and_a_token_that_only_asks(host, as_) -> None:
    otto, page = as_("otto"), f"/settings/connect/?host={host.key}"
    assert PLACE in otto.get(page).content.decode()
    shown = otto.post(page, follow=True).content.decode()
    text = re.search(r"wfd_\w{8}_[\w-]+", shown)
    assert text
    assert PLACE not in shown
    token = Token.objects.get(revoked=None)
    assert (set(token.rights), token.workflows) == (set(RIGHTS), [host.workflow])
    assert text[0] not in otto.get(page).content.decode()


def test_the_first_question_appears_and_others_do_not(as_) -> None:
    otto = as_("otto")
    fragment = "/settings/connect/?host=curl&fragment=first"
    people.make_run(workflow="ask_people", created=timezone.now(), created_by=people.viewer("ana").user)
    assert "The first one appears here" in otto.get(fragment).content.decode()
    mine = people.make_run(workflow="ask_people", created=timezone.now(), created_by=people.viewer("otto").user)
    assert f"/runs/{mine.pk}/" in otto.get(fragment).content.decode()


def test_who_may_not_ask_is_told_whom_to_ask(as_) -> None:
    page = as_("vera").get("/settings/connect/").content.decode()
    assert "ask an admin" in page
    assert "Make a token" not in page


def test_the_page_of_the_docs_is_made_from_the_same_list() -> None:
    assert "<!-- hosts -->" in (ROOT / "docs/connect.md").read_text()
    made = runpy.run_path(str(ROOT / ".ci/docs_lists.py"))["hosts"]()
    assert [one.name for one in HOSTS] == re.findall(r"^## (.+)$", made, re.MULTILINE)
    assert all((ROOT / f"docs/{one.page}.md").exists() for one in HOSTS)
