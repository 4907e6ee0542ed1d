"""Addresses that are opened by mistake or by browsers themselves, and what a role is offered."""

from __future__ import annotations

import pytest
from django.templatetags.static import static

from tests import people
from wfdash.web.pages.ui.event_text import describe
from wfdash.web.pages.ui.forms import read as scalars


def text(answer) -> str:
    return answer.content.decode()


@pytest.mark.parametrize("path", ["/views/", "/batch/undo/", "/requests/undo/"])
def test_an_address_for_forms_alone_says_so(everybody, as_, path):
    answer = as_("ana").get(path)
    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")
    assert "only accepts form submissions" in text(answer)


def test_browsers_find_the_icon_where_they_look_for_it(client):
    assert client.get("/favicon.ico").url == static("img/favicon.svg")


@pytest.mark.parametrize("path", ["/", "/runs/", "/?tab=all"])
def test_only_those_who_may_start_runs_are_offered_it(everybody, as_, path):
    assert "Start a run" not in text(as_("vera").get(path))
    assert "Start a run" in text(as_("otto").get(path))


def test_a_log_line_that_a_role_does_not_show_says_so():
    assert describe("log", "pay", {"level": "INFO"}) == "Pay wrote a log record. Your role cannot view it."
    assert describe("log", "pay", {"message": "Paid"}) == "Paid"


def test_a_reviewer_s_events_have_no_holes(everybody, as_):
    run = people.make_run()
    people.happen(run, ("log", "pay", {"message": "IBAN 123", "level": "INFO", "activation": "pay:1"}))
    page = text(as_("ana").get(f"/runs/{run.pk}/events/"))
    assert "wrote a log record" in page
    assert "IBAN" not in page


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        *[("2500.50", "2500.50"), ("2500.5", 2500.5), ("2500.00", "2500.00"), ("2500", 2500), ("0.10", "0.10")],
        *[("1e3", 1000), ("12345678901234567890.12", "12345678901234567890.12")],
    ],
)
def test_a_decimal_keeps_every_digit_that_was_typed(typed, read):
    value = scalars._read_decimal(typed)
    assert (value, type(value)) == (read, type(read) if typed != "1e3" else float)
