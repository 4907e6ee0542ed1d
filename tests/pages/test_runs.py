from __future__ import annotations

from tests import people


def test_runs_show_status_and_what_they_wait_for(run, as_):
    people.ask(run, "Pay 900?")
    page = as_("vera").get("/runs/").content.decode()
    assert 'data-status="waiting"' in page
    assert "Pay 900?" in page


def test_the_filter_is_in_the_address_and_names_what_it_does_not_know(run, as_):
    page = as_("vera").get("/runs/?q=status:failed").content.decode()
    assert "No run matches" in page
    assert "There is no filter &quot;colour&quot;" in as_("vera").get("/runs/?q=colour:red").content.decode()


def test_pages_are_linked_by_cursor(everybody, as_):
    for _ in range(31):
        people.make_run()
    client = as_("vera")
    page = client.get("/runs/?q=status:waiting")
    assert len(page.context["rows"]) == 30
    assert len(client.get("/runs/" + page.context["older"]).context["rows"]) == 1


def test_the_list_alone_can_be_fetched(run, as_):
    page = as_("vera").get("/runs/?fragment=list").content.decode()
    assert page.startswith('<div id="runs-list"')


def test_the_list_takes_the_same_number_of_queries_however_long(everybody, as_, django_assert_max_num_queries):
    for _ in range(25):
        people.ask(people.make_run())
    client = as_("otto")
    with django_assert_max_num_queries(9):
        client.get("/runs/")
