from __future__ import annotations

import pytest
from django.db import OperationalError
from django.test import RequestFactory

from checkpoints import errors as ground
from checkpoints.ids import new_run_id
from wfdash.access.signin.sessions import SessionStore
from wfdash.domain import errors
from wfdash.web.pages.site.error_pages import ErrorPages, server_error


def handle(error: Exception, path: str = "/api/v1/x"):
    return ErrorPages(lambda request: None).process_exception(RequestFactory().get(path), error)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.NotFound(), 404),
        (errors.NotAllowed(), 403),
        (errors.Invalid([{"loc": ["a"], "msg": "no"}]), 422),
        (errors.AlreadyAnswered("ben was first", by="ben"), 409),
        (ground.Damaged(), 409),
    ],
)
def test_known_errors_become_answers_with_their_facts(error, status):
    answer = handle(error)
    assert answer.status_code == status
    assert answer["Content-Type"] == "application/problem+json"


def test_unknown_errors_are_left_to_django():
    assert handle(RuntimeError("secret")) is None


def test_the_last_page_needs_nothing_and_tells_nothing():
    page = server_error(RequestFactory().get("/runs/"))
    assert page.status_code == 500
    assert b"No partial changes were saved" in page.content


def test_a_form_with_too_much_text_has_a_page_of_its_own(as_, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 2_000_000
    answer = as_("ana").post("/views/", {"name": "x" * 2_000_001})
    assert (answer.status_code, "more than 2 MB of text" in answer.content.decode()) == (413, True)


def test_an_error_page_says_what_to_do(as_):
    answer = as_("ana").get("/runs/nothing/")
    assert answer.status_code == 404
    assert "do not have access" in answer.content.decode()


OLD, NEW = "019b8e2f-0000-7000-8000-000000000000", str(new_run_id())


@pytest.mark.parametrize("path", ["/runs/{}/", "/requests/{}/", "/api/v1/runs/{}"])
def test_a_link_so_old_that_its_run_may_have_been_removed_says_so(settings, as_, path):
    ana = as_("ana")
    for rules, id_, said in (
        ({"*": 90, "ledger": None}, OLD, True),
        ({"*": 90}, NEW, False),
        ({"*": 90}, "r-1", False),
        (None, OLD, False),
    ):
        settings.WFDASH_KEEP_RUNS = rules
        answer = ana.get(path.format(id_))
        assert answer.status_code == 404
        words = "This address is from 05 January 2026, and runs may be removed 90 days after their end"
        assert (words in answer.content.decode()) is said


@pytest.mark.parametrize("path", ["/runs/", "/api/v1/runs"])
@pytest.mark.parametrize("embedded", [False, True])
def test_a_session_that_cannot_be_read_means_that_the_database_is_unavailable(
    as_, settings, monkeypatch, caplog, path, embedded
):
    """Of a project that embeds wfdash only its own pages know errors of middleware: ours lets none out."""
    if embedded:
        settings.MIDDLEWARE = [one for one in settings.MIDDLEWARE if not one.startswith("wfdash.")]
    browser = as_("ana")
    browser.raise_request_exception = embedded

    def refuse(self: SessionStore) -> None:
        raise OperationalError("terminating connection due to administrator command")

    monkeypatch.setattr(SessionStore, "_get_session_from_db", refuse)
    answer = browser.get(path)
    assert answer.status_code == 503
    assert "No partial changes were saved. Try again in a moment." in answer.content.decode()
    assert f"Database unavailable for {path}" in caplog.text
    assert "terminating connection due to administrator command" in caplog.text
