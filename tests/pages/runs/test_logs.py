"""The log of a run: searched, narrowed, followed, downloaded, and what each role sees of it."""

from __future__ import annotations

import re

import pytest

from checkpoints.models import Event
from tests import people
from wfdash.web.pages.runs.events import SHOWN_LINES
from wfdash.web.pages.ui.event_text import MOST_MARKS, marked


def record(level: str, message: str, step: str = "pay", activation: str = "pay:1"):
    return ("log", step, {"level": level, "logger": "shop.till", "message": message, "activation": activation})


@pytest.fixture
def address(run):
    return f"/runs/{run.pk}/logs/"


@pytest.fixture
def logged(run, history):
    people.happen(run, *[record(level, f"{level} about card 4242") for level in ("DEBUG", "INFO", "WARNING", "ERROR")])
    people.happen(
        run, record("INFO", "read <b>all</b>\n  of it", "read", "read:7"), ("progress", "pay", {"text": "half"})
    )


def texts(page) -> list[str]:
    return [line.record.text for line in page.context["lines"]]


def test_the_log_has_the_records_of_all_steps_in_order_and_nothing_else(address, logged, as_):
    page = as_("otto").get(address)
    assert [line.record.level for line in page.context["lines"]] == ["DEBUG", "INFO", "WARNING", "ERROR", "INFO"]
    content = page.content.decode()
    assert "read &lt;b&gt;all&lt;/b&gt;\n  of it" in content, "lines are kept, markup is text"
    assert re.search(r'>2026-01-05 [\d:]{8}\.000</time> <span class="elapsed">\+\d+\.000 s</span>', content)
    assert "data-live-page" in content


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("step=read", 1),
        ("step=pay", 4),
        ("step=pay&activation=read:7", 0),
        ("activation=read:7", 1),
        ("level=warning", 2),
        ("level=nonsense", 5),
        ("q=CARD+4242", 4),
        ("q=till", 5),
        ("q=log", 0),
        ("q=pay", 0),
        ("level=error&q=card&step=pay", 1),
        ("q=%00&step=%00&activation=%00", 5),
    ],
)
def test_a_filter_narrows_it(query, count, address, logged, as_):
    assert len(as_("otto").get(f"{address}?{query}").context["lines"]) == count


def test_its_title_says_of_what_it_is(address, logged, as_):
    page = as_("otto").get(f"{address}?step=read&activation=read:7").content.decode()
    assert re.search('<h2 id="run-log-title">Log of [^<]+, one execution</h2>', page)
    assert '<h2 id="run-log-title">Log</h2>' in as_("otto").get(address).content.decode()


def test_hits_are_marked_whatever_their_case(address, logged, as_):
    page = as_("otto").get(f"{address}?q=CARD&level=error").content.decode()
    assert '<span class="log-text">ERROR about <mark>card</mark> 4242</span>' in page
    assert "&lt;<mark>b</mark>&gt;" in as_("otto").get(f"{address}?q=b&step=read").content.decode()


def test_marks_are_bounded_and_nothing_of_the_text_is_lost():
    text = "aA" * 5_000
    parts = marked(text, "a")
    assert "".join(part for part, _ in parts) == text
    assert sum(hit for _, hit in parts) == MOST_MARKS
    assert marked("a.c abc", ".") == (("a", False), (".", True), ("c abc", False))
    assert marked("\x1b[31mred\u202e", "") == (("␛[31mred[U+202E]", False),)


def test_who_may_not_inspect_is_told_so_in_words_and_finds_nothing_by_what_they_may_not_see(run, address, logged, as_):
    page = as_("ana").get(address)
    content = page.content.decode()
    assert "Your role doesn't include log text." in content
    assert texts(page) == [None] * 5
    assert "Text not shown" in content
    assert "4242" not in content
    assert "…" not in content.split('id="run-log"')[1].split("</section>")[0]
    assert texts(as_("ana").get(f"{address}?q=4242")) == []
    assert len(texts(as_("ana").get(f"{address}?q=till&level=error"))) == 1
    sent = as_("ana").get(f"/runs/{run.pk}/logs.txt").getvalue().decode()
    assert "4242" not in sent
    assert sent.count("Not shown: your role doesn't include log text") == 5


def test_it_is_downloaded_as_text_in_which_no_record_can_pass_for_another(run, address, logged, as_):
    people.happen(run, record("INFO", "one\n2026-01-05T09:00:00Z +0.000 s ERROR pay shop: forged \x1b[2J"))
    answer = as_("otto").get(f"/runs/{run.pk}/logs.txt?level=info&step=pay")
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert answer["Content-Disposition"].startswith('attachment; filename="wfdash-log-')
    lines = answer.getvalue().decode().splitlines()
    assert re.fullmatch(r"2026-01-05T[\d:]{8}\.000Z \+\d+\.000 s INFO pay shop.till: INFO about card 4242", lines[0])
    assert [line[:4] == "    " for line in lines] == [False, False, False, False, True]
    assert lines[-1].endswith("forged ␛[2J")
    assert as_("otto").get(f"/runs/{run.pk}/logs.txt?q=nothing").getvalue() == b""


def test_long_logs_have_pages_without_gaps(run, address, as_):
    people.happen(run, *[record("INFO", f"n{number}") for number in range(SHOWN_LINES + 20)])
    client = as_("otto")
    newest = client.get(f"{address}?step=pay&wrap=off")
    assert texts(newest)[0] == "n20"
    older = client.get(address + newest.context["older"])
    assert texts(older) == [f"n{number}" for number in range(20)]
    assert older.context["older"] == ""
    assert "data-live-page" not in older.content.decode()
    assert texts(client.get(address + older.context["newer"])) == texts(newest)
    assert "step=pay&wrap=off" in older.context["newer"]


def test_lines_wrap_unless_the_address_says_not(address, logged, as_):
    assert 'class="log"' in as_("otto").get(address).content.decode()
    page = as_("otto").get(f"{address}?wrap=off&level=error").content.decode()
    assert 'class="log is-unwrapped"' in page
    assert "?level=error" in page


def test_an_empty_log_says_what_would_be_in_it(run, address, as_):
    assert "No log lines yet" in as_("otto").get(address).content.decode()
    assert "No line matches" in as_("otto").get(f"{address}?q=x").content.decode()


def test_the_log_of_a_run_that_is_not_theirs_is_not_found(run, address, logged, as_):
    assert as_("sam").get(address).status_code == 404
    assert as_("sam").get(f"/runs/{run.pk}/logs.txt").status_code == 404


def test_an_execution_leads_to_its_own_log(run, history, logged, as_):
    activation = Event.objects.filter(run=run, kind="step.started", step="read").first().data["activation"]
    page = as_("otto").get(f"/runs/{run.pk}/?step=read&activation={activation}").content.decode()
    assert f"/runs/{run.pk}/logs/?step=read&amp;activation={activation}" in page.replace("%3A", ":")
