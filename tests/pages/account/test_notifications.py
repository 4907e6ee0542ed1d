from __future__ import annotations

import re

from django.test import Client

from checkpoints.database.storage import write
from checkpoints.models import Grant, Notice
from tests.pages.markup import flat
from tests.people import answered, ask, make_run
from wfdash.notifications.write import notify


def say(kind: str, request, *users, **facts) -> None:
    with write():
        notify(kind, request, users, facts=facts)


def test_notices_are_listed_and_counted_in_the_bar(ana: Client, people) -> None:
    run = make_run()
    say("mentioned", ask(run, "Pay <900>?"), people["ana"], people["ben"], by="ben", text="see <b>here</b>")
    say("opened", ask(run, "Pay 20?"), people["ana"])
    shown = ana.get("/notifications/").content.decode()
    assert "ben mentioned you: Pay &lt;900&gt;?" in shown
    assert "see &lt;b&gt;here&lt;/b&gt;" in shown
    assert "2 unread" in shown
    assert '<span dir="auto">Expenses</span>' in shown, "the run by its title"
    assert "data-notice-count>2<" in flat(ana.get("/runs/").content.decode())


def test_opening_one_reads_it(ana: Client, people) -> None:
    request = ask(make_run())
    say("assigned", request, people["ana"], by="ben")
    notice = Notice.objects.get()
    assert ana.get(f"/notifications/{notice.pk}/")["Location"] == f"/requests/{request.pk}/"
    notice.refresh_from_db()
    assert notice.read is not None
    assert ana.get("/notifications/none/").status_code == 404


def test_having_a_request_open_reads_what_was_told_of_it(ana: Client, people) -> None:
    request, other = ask(make_run()), ask(make_run())
    for each in (request, other):
        say("assigned", each, people["ana"], by="ben")
    ana.post(f"/requests/{request.pk}/presence/")
    assert Notice.objects.get(read__isnull=True).request == other


def test_all_can_be_read_at_once(ana: Client, people) -> None:
    for n in range(3):
        say("assigned", ask(make_run(), f"claim {n}"), people["ana"], people["ben"], by="otto")
    assert ana.post("/notifications/").status_code == 302
    assert Notice.objects.filter(read__isnull=True).count() == 3
    assert "All read" in ana.get("/notifications/").content.decode()


def test_alike_ones_are_one_group_of_their_workflow(ana: Client, people) -> None:
    run = make_run()
    for n in range(4):
        say("opened", ask(run, f"claim {n}"), people["ana"])
    say("mentioned", ask(run, "urgent"), people["ana"], by="ben")
    shown = ana.get("/notifications/").content.decode()
    (group,) = re.findall(r'<details class="notice-group">(.*?)</details>', shown, re.DOTALL)
    assert "New request for me · " in group
    assert "4 notifications" in group
    assert group.count("data-notice=") == 4
    assert "urgent" not in group


def test_what_was_decided_since_neither_counts_nor_is_listed(ana: Client, people) -> None:
    request = ask(make_run())
    say("reminder", request, people["ana"])
    answered(request, people["ben"])
    shown = ana.get("/notifications/").content.decode()
    assert "Pay?" not in shown
    assert "Nothing yet" in shown
    assert "All read" in shown


def test_what_is_no_longer_theirs_to_see_is_gone(ana: Client, people) -> None:
    say("mentioned", ask(make_run(), "secret plan"), people["ana"], by="ben")
    Grant.objects.filter(user=people["ana"]).delete()
    assert "secret plan" not in ana.get("/notifications/").content.decode()
    assert ana.get(f"/notifications/{Notice.objects.get().pk}/").status_code == 404


def test_the_menu_s_part_names_the_newest_and_what_is_loud(ana: Client, people) -> None:
    run = make_run()
    for n in range(12):
        say("opened", ask(run, f"claim {n}"), people["ana"])
    say("mentioned", ask(run, "urgent"), people["ana"], by="ben")
    part = ana.get("/notifications/?fragment=menu").content.decode()
    assert 'data-count="13"' in part
    assert part.count("data-notice=") == 8
    assert part.count("data-loud") == 1
    assert "<html" not in part


def test_a_hundred_and_more_are_counted_as_99_and_more(ana: Client, people) -> None:
    request = ask(make_run())
    for count, shown in ((99, "99"), (101, "99+")):
        for _ in range(count - Notice.objects.count()):
            say("mentioned", request, people["ana"], by="ben")
        assert f'data-count="{shown}"' in ana.get("/notifications/?fragment=menu").content.decode()
        page = ana.get("/notifications/").content.decode()
        assert f">{shown}</span>" in page
        assert f'aria-label="Notifications, {shown} unread"' in page
        assert f"<p>{shown} unread</p>" in page


def test_older_ones_are_a_page_away(ana: Client, people, django_assert_max_num_queries) -> None:
    run = make_run()
    request = ask(run)
    for n in range(115):
        say("mentioned", request, people["ana"], by="ben", text=f"number {n}.")
    with django_assert_max_num_queries(14):
        first = ana.get("/notifications/").content.decode()
    assert "number 114." in first
    assert "number 14." not in first
    older = first.split('rel="next"')[0].rsplit('href="', 1)[1].split('"')[0]
    second = ana.get(older.replace("&amp;", "&")).content.decode()
    assert "number 14." in second
    assert "number 0." in second
    assert 'rel="next"' not in second
