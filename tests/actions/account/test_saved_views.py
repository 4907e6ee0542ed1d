from __future__ import annotations

import pytest

from checkpoints.models import AuditEntry, SavedView
from wfdash.actions.account import change_view, delete_view, save_view
from wfdash.domain.errors import Invalid, NotFound
from wfdash.queries.account import read_view, read_views


def test_a_view_is_kept_found_and_deleted(person):
    ana = person("ana", "reviewer")
    view = save_view(ana, "  My   urgent ones ", "tab=mine&q=risk%3Ahigh")
    (found,) = read_views(ana)
    assert (found.name, found.query, found.mine, found.shared) == (
        "My urgent ones",
        "tab=mine&q=risk%3Ahigh",
        True,
        False,
    )
    delete_view(ana, view.pk)
    assert read_views(ana) == ()


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("role", ["reviewer", "operator", "admin"])
def test_others_see_a_view_once_it_is_shared_and_never_change_it(person, role, shared):
    ana, ben = person("ana", "reviewer"), person("ben", role)
    view = save_view(ana, "Urgent", "tab=all")
    with pytest.raises(NotFound):
        read_view(ben, view.pk)
    change_view(ana, view.pk, name="Urgent", shared=shared)
    if shared:
        assert read_view(ben, view.pk).owner == "ana"
        assert not read_view(ben, view.pk).mine
    for act in (
        lambda: change_view(ben, view.pk, name="Mine now"),
        lambda: change_view(ben, view.pk, name="Urgent", query="tab=mine", shared=True),
        lambda: delete_view(ben, view.pk),
    ):
        with pytest.raises(NotFound):
            act()
    found = SavedView.objects.get()
    assert (found.owner, found.name, found.query, found.shared) == (ana.user, "Urgent", "tab=all", shared)


def test_a_person_without_any_right_sees_no_shared_view(person):
    save_view(person("ana", "reviewer"), "Urgent", "tab=all", shared=True)
    assert read_views(person("sam")) == ()


def test_own_views_come_first(person):
    ana, ben = person("ana", "reviewer"), person("ben", "reviewer")
    save_view(ben, "A shared one", "tab=all", shared=True)
    save_view(ana, "Zebra", "tab=mine")
    assert [view.name for view in read_views(ana)] == ["Zebra", "A shared one"]


def test_a_change_renames_and_may_take_another_filter(person):
    ana = person("ana", "reviewer")
    view = save_view(ana, "Old", "tab=mine")
    change_view(ana, view.pk, name="New")
    change_view(ana, view.pk, name="New", query="tab=all")
    assert read_view(ana, view.pk).query == "tab=all"


@pytest.mark.parametrize(("name", "query"), [("", "tab=mine"), ("   ", "tab=mine"), ("x" * 81, ""), ("x", "q" * 1001)])
def test_a_view_without_a_proper_name_or_too_long_is_refused(person, name, query):
    with pytest.raises(Invalid):
        save_view(person("ana", "reviewer"), name, query)


def test_two_views_of_one_name_are_refused_whichever_way(person):
    ana = person("ana", "reviewer")
    save_view(ana, "One", "tab=mine")
    other = save_view(ana, "Two", "tab=all")
    with pytest.raises(Invalid, match="see the errors"):
        save_view(ana, "One", "tab=all")
    with pytest.raises(Invalid) as caught:
        change_view(ana, other.pk, name="One")
    assert "Choose another name" in caught.value.errors[0]["msg"]
    save_view(person("ben", "reviewer"), "One", "tab=mine")


def test_no_one_keeps_views_without_end(person, monkeypatch):
    monkeypatch.setattr("wfdash.actions.account.MAX_SAVED_VIEWS", 2)
    ana = person("ana", "reviewer")
    for number in range(2):
        save_view(ana, str(number), "tab=mine")
    with pytest.raises(Invalid):
        save_view(ana, "one more", "tab=mine")
    assert SavedView.objects.count() == 2


def test_what_others_are_shown_is_audited_and_own_settings_are_not(person):
    ana = person("ana", "reviewer")
    kept = save_view(ana, "For me", "tab=mine")
    change_view(ana, kept.pk, name="Still for me")
    delete_view(ana, kept.pk)
    view = save_view(ana, "Urgent", "q=risk%3Ahigh", shared=True)
    change_view(ana, view.pk, name="Urgent", shared=True)
    change_view(ana, view.pk, name="Urgent", query="q=risk%3Alow", shared=True)
    change_view(ana, view.pk, name="Urgent", shared=False)
    change_view(ana, view.pk, name="Urgent", shared=True)
    delete_view(ana, view.pk)
    rows = AuditEntry.objects.order_by("n").values_list("verb", "actor", "facts__query")
    assert list(rows) == [
        ("share view", "ana", "q=risk%3Ahigh"),
        ("share view", "ana", "q=risk%3Alow"),
        ("unshare view", "ana", "q=risk%3Alow"),
        ("share view", "ana", "q=risk%3Alow"),
        ("unshare view", "ana", "q=risk%3Alow"),
    ]
