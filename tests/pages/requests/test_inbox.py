from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints.models import HumanRequest
from tests import people
from tests.pages.markup import flat


def test_the_inbox_lists_what_waits_and_opens_the_first(run, as_):
    people.ask(run, "First?"), people.ask(run, "Second?")
    page = as_("ana").get("/").content.decode()
    assert page.index("First?") < page.index("Second?")
    assert 'id="card-subject">First?' in page
    assert 'name="_action" value="approve"' in flat(page)


def test_the_selected_request_is_in_the_address(run, as_):
    people.ask(run, "First?")
    second = people.ask(run, "Second?")
    page = as_("ana").get(f"/?request={second.pk}").content.decode()
    assert 'id="card-subject">Second?' in page
    assert "<strong>2</strong> of 2" in page
    assert page.count("<h1") == 1
    assert "Request not found" in as_("ana").get("/?request=nonsense").content.decode()


def test_rows_of_alike_requests_mark_what_they_begin_with(run, as_):
    for customer in ("Contoso", "Müller"):
        people.ask(run, f"Sign the contract with {customer} for 2027?", kind="approval")
    page = as_("ana").get("/").content.decode()
    same = '<span class="row-same">Sign the contract with </span><span class="row-own">'
    assert f"{same}Contoso for 2027?</span>" in page
    assert f"{same}Müller for 2027?</span>" in page


def test_rows_of_the_same_subject_have_no_beginning_of_their_own(run, as_):
    for _ in range(3):
        people.ask(run, "Continue beyond 0.1 EUR?", kind="approval")
    assert "row-same" not in as_("ana").get("/").content.decode()


def test_tabs_count_what_they_list(run, everybody, as_):
    people.ask(run, "For finance", by=["finance"])
    people.answered(people.ask(run, "Done"), everybody["ben"])
    ben = as_("ben")
    assert "Your queue is empty" in ben.get("/").content.decode()
    assert "For finance" in ben.get("/?tab=all").content.decode()
    assert "Done" in ben.get("/?tab=answered").content.decode()


def test_the_list_alone_can_be_fetched(run, as_):
    people.ask(run, "First?")
    page = as_("ana").get("/?fragment=list").content.decode()
    assert flat(page).startswith('<div id="inbox-list"')
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


def test_a_filter_that_is_none_names_the_part_and_lists_nothing_and_the_help_every_key(run, as_):
    people.ask(run, "First?")
    page = as_("ana").get("/?q=risk:huge").content.decode()
    assert "Invalid filter" in page
    assert "<code>risk:huge</code>" in page
    assert "First?" not in page
    assert all(f"<code>{example}</code>" in page for example in ("workflow:refund", "risk:high", "assignee:me"))


def test_news_say_what_became_of_rows_and_how_many_are_new(run, everybody, as_):
    gone, stays = people.ask(run, "Gone?"), people.ask(run, "Stays?")
    people.answered(gone, everybody["ben"])
    since = (timezone.now()).isoformat()
    people.ask(run, "New?", created=timezone.now() + timedelta(seconds=5))
    page = as_("ana").get("/", {"fragment": "news", "since": since, "ids": f"{gone.pk},{stays.pk}"}).content.decode()
    assert "ben approved it" in page
    assert 'data-new="1"' in page
    assert "New?" not in page


def test_focus_mode_shows_one_card_and_where_it_is(run, as_):
    first, second = people.ask(run, "First?"), people.ask(run, "Second?")
    client = as_("ana")
    page = client.get("/focus/?tab=mine", follow=True).content.decode()
    assert "<strong>1</strong> of 2" in page
    assert "This is the first of 2 requests" in page
    assert 'id="card-subject">First?' in page
    assert "Second?" not in page
    answer = client.post(f"/requests/{first.pk}/?tab=mine&focus=1&of=2", {"_action": "approve"})
    assert f"request={second.pk}" in answer["Location"]
    page = client.get(answer["Location"]).content.decode()
    assert re.search(r"<strong>1</strong> of 1<span[^>]*>, 1 decided</span>", page)
    assert "This is the last of 1 request" in page
    assert "<strong>1</strong> of 2 left" in client.get("/?tab=mine&focus=1&of=2&request=gone").content.decode()


def test_focus_mode_says_once_that_all_is_done(run, as_):
    first = people.ask(run, "First?")
    client = as_("ana")
    answer = client.post(f"/requests/{first.pk}/?tab=mine&focus=1&of=1", {"_action": "approve"})
    for address, said in ((answer["Location"], "You reviewed 1 request."), ("/?tab=mine&focus=1", "<h1>All done</h1>")):
        title, _, page = client.get(address).content.decode().partition("</title>")
        assert "All done" in title
        assert (page.count("All done"), said in page) == (1, True), address


def test_empty_tabs_teach(run, as_):
    client = as_("ben")
    for tab, words in (
        ("groups", "You are not in a group"),
        ("asked", "No questions for you"),
        ("all", "No open requests"),
    ):
        assert words in client.get(f"/?tab={tab}").content.decode()


def test_alike_ones_are_offered_together(run, as_):
    first, *_ = (people.ask(run, f"Refund {number}?") for number in range(3))
    page = as_("ana").get("/?sort=alike").content.decode()
    assert f"/requests/{first.pk}/similar/?" in page
    assert "Review 3 similar requests together" in page
    assert "together:" in as_("ana").get("/").content.decode()


def test_one_press_decides_only_where_an_answer_can_be_taken_back(run, as_, settings):
    settings.WFDASH_UNDO = 10
    people.ask(run, "First?")
    final = people.ask(run, "Final?", policy={"undo": 0})
    client = as_("ana")
    assert "data-one-press" in client.get("/?focus=1&tab=mine").content.decode()
    assert "data-one-press" not in client.get(f"/?focus=1&tab=mine&request={final.pk}").content.decode()


def valued(run, proposal, evidence=(), context=None, **facts):
    card = {"subject": "Pay?", "proposal": proposal, "evidence": [*evidence, 7], "context": context or {}}
    return people.ask(run, card=card, **facts)


def cells(client, names: str, **query: str) -> list[list[str]]:
    """Return the values that each row shows, without their labels."""
    page = flat(client.get("/", {"tab": "all", "columns": names, **query}).content.decode())
    rows = page.split('<span class="row-values">')[-page.count("data-row=") :] if "row-values" in page else []
    value = r'<span class="row-value[^>]*><span class="row-label">[^<]*</span>(.*?)</span>'
    return [[unescape(one).strip() for one in re.findall(value, row)] for row in rows]


def test_values_of_cards_are_columns_beside_the_subject(run, as_):
    table = {"kind": "table", "title": "Order", "value": [{"Customer": "<b>Contoso</b>"}]}
    valued(run, {"amount": 48000.5, "tax": {"rate": "19.00"}}, [table])
    valued(run, "a text", [table | {"kind": "text"}], {"amount": 7})
    names = "proposal.amount,evidence.Customer,proposal.tax.rate"
    assert cells(as_("ana"), names) == [["48,000.5", "<b>Contoso</b>", "19.00"], ["", "", ""]]
    page = flat(as_("ana").get(f"/?tab=all&columns={names}").content.decode())
    assert '<span class="row-value is-number" title="Amount: 48,000.5"><span class="row-label">Amount</span>48' in page
    assert 'class="row-value is-number" title="proposal.tax.rate">Tax › Rate</span>' in page


def test_what_a_card_hides_or_has_several_of_is_an_empty_cell(run, as_, settings):
    form = {"type": "object", "properties": {"pin": {"type": "string", "format": "password"}}}
    rows = {"kind": "table", "value": [{"sku": "A"}, {"sku": "B"}]}
    valued(run, {"pin": "hush", "lines": [{"n": 1}, {"n": 2}]}, [rows], answer_schema=form)
    valued(run, {"pin": "theirs"}, by=["admins"]), valued(run, {"pin": "long", "big": "x" * 100_000})
    names = "proposal.pin,proposal.lines.n,evidence.sku,proposal.big"
    assert cells(as_("ana"), names) == [[""] * 4] * 3
    HumanRequest.objects.update(assignee=people.make_people()["ana"])
    assert cells(as_("ana"), names)[1] == ["theirs", "", "", ""]
    settings.WFDASH_ENCRYPTION_KEYS = "a-secret-that-is-long-enough-to-be-one"
    assert cells(as_("ana"), "proposal.pin") == [[""]] * 3


def test_columns_are_offered_chosen_and_kept_and_cost_one_query(run, as_):
    asked, client = valued(run, {"amount": 5, "text": "x" * 90}, context={"a\u202e.b": 1, "$opaque": 2}), as_("ana")
    offered = client.get("/?tab=all&fragment=columns").content.decode()
    assert re.findall(r'name="column" value="([^"]*)"', offered) == ["proposal.amount", "context.a\u202e.b"]
    assert "a[U+202E] › B</label>" in offered
    usual = 0
    for query, more in (("", 0), ("&columns=proposal.amount,proposal.gone", 1), ("&choose=1", 1)):
        with CaptureQueriesContext(connection) as queries:
            page = client.get(f"/?tab=all{query}").content.decode()
        usual = usual or len(queries)
        assert (len(queries) - usual, 'name="column"' in page) == (more, bool(more))
    chosen = ["proposal.amount", "status", "input.amount", "proposal.<x>,y"]
    answer = client.post("/inbox/columns/", {"column": chosen, "query": "tab=all&q=pay"})
    assert answer["Location"] == "/?tab=all&q=pay&columns=proposal.amount%2Cproposal.%3Cx%3E"
    assert cells(client, "") == [["5", ""]]
    news = {"fragment": "news", "ids": asked.pk}
    assert (cells(client, "", **news), cells(client, "proposal.amount", **news)) == ([], [["5"]])
    assert cells(client, "none") == cells(as_("ben"), "") == []
    assert "row-values" not in client.get("/focus/?tab=all", follow=True).content.decode()
