from __future__ import annotations

from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests import people


def test_the_inbox_lists_what_waits_and_opens_the_first(run, as_):
    people.ask(run, "First?"), people.ask(run, "Second?")
    page = as_("ana").get("/").content.decode()
    assert page.index("First?") < page.index("Second?")
    assert 'id="card-subject">First?' in page
    assert 'name="_action" value="approve"' in page


def test_the_selected_request_is_in_the_address(run, as_):
    people.ask(run, "First?")
    second = people.ask(run, "Second?")
    assert 'id="card-subject">Second?' in as_("ana").get(f"/?request={second.pk}").content.decode()


def test_a_selected_request_that_is_gone_says_so(as_):
    assert "not there any more" in as_("ana").get("/?request=nonsense").content.decode()


def test_tabs_count_what_they_list(run, everybody, as_):
    people.ask(run, "For finance", by=["finance"])
    people.answered(people.ask(run, "Done"), everybody["ben"])
    ben = as_("ben")
    assert "Nothing waits for you" in ben.get("/").content.decode()
    assert "For finance" in ben.get("/?tab=all").content.decode()
    assert "Done" in ben.get("/?tab=answered").content.decode()


def test_the_list_alone_can_be_fetched(run, as_):
    people.ask(run, "First?")
    page = as_("ana").get("/?fragment=list").content.decode()
    assert page.startswith('<div id="inbox-list"')
    assert "card-subject" not in page


def test_untrusted_text_is_escaped(run, as_):
    people.ask(run, "<script>alert(1)</script>", card={"subject": "<script>alert(1)</script>", "body": "<img src=x>"})
    page = as_("ana").get("/").content.decode()
    assert "<script>alert" not in page
    assert "<img src=x" not in page


def test_the_inbox_takes_the_same_number_of_queries_however_long(run, as_, django_assert_num_queries):
    client = as_("ana")
    for number in range(60):
        people.ask(run, f"q{number}")
        if number == 2:
            client.get("/")
            with CaptureQueriesContext(connection) as few:
                client.get("/")
    with django_assert_num_queries(len(few)):
        client.get("/")
    assert len(few) <= 20
