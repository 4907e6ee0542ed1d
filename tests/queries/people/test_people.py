"""Who sees whom, and what is said about each: the same as what the resolver decides."""

from __future__ import annotations

import itertools
import random

import pytest
from django.contrib.auth.models import Group, User

from checkpoints.models import Absence, Grant
from tests import people
from tests.people import WORKFLOW, viewer
from wfdash.access.viewer import ORDER, RIGHTS, questions, roles_of, sources, viewer_for
from wfdash.domain.errors import NotAllowed, NotFound
from wfdash.queries import people as queries

pytestmark = pytest.mark.django_db


@pytest.fixture
def everyone() -> dict[str, User]:
    made = people.make_people()
    made["wanda"] = User.objects.create_user("wanda", email="wanda@example.org")
    made["petra"] = User.objects.create_user("petra")
    Grant.objects.create(user=made["wanda"], role="admin", workflow=WORKFLOW)
    Grant.objects.create(user=made["petra"], role="operator", workflow="payroll")
    return made


def names(page: queries.PeoplePage) -> list[str]:
    return [row.name for row in page.rows]


@pytest.mark.parametrize("seed", range(8))
def test_every_right_that_is_shown_is_the_one_that_decides(seed: int) -> None:
    chance = random.Random(seed)
    users = [User.objects.create_user(f"u{n}", is_superuser=chance.random() < 0.1) for n in range(6)]
    teams = [Group.objects.create(name=f"g{n}") for n in range(3)]
    for user in users:
        user.groups.set(chance.sample(teams, chance.randint(0, 3)))
    for _ in range(8):
        to = {"user": chance.choice(users)} if chance.random() < 0.5 else {"group": chance.choice(teams)}
        Grant.objects.create(**to, role=chance.choice(list(RIGHTS)), workflow=chance.choice(["*", "a", "b"]))
    roles = roles_of(users)
    for user, workflow, right in itertools.product(users, ["a", "b", "c"], ORDER):
        assert bool(sources(roles[user.pk], workflow)[right]) == viewer_for(user).may(right, workflow)
    assert set(ORDER) == RIGHTS["admin"]


@pytest.mark.parametrize("name", ["ana", "vera", "otto", "sam"])
def test_people_are_for_admins(name: str, everyone) -> None:
    for look in (
        lambda v: queries.people(v),
        lambda v: queries.person(v, name),
        lambda v: queries.groups(v),
        lambda v: queries.group(v, "finance"),
        lambda v: queries.needs(v),
        lambda v: queries.managed_workflows(v),
        lambda v: queries.workflow_access(v, WORKFLOW),
    ):
        with pytest.raises(NotAllowed):
            look(viewer(name))


def test_an_admin_of_one_workflow_sees_its_people_and_nothing_else_about_them(everyone) -> None:
    everyone["ana"].email = "ana@example.org"
    everyone["ana"].save()
    wanda = viewer("wanda")
    assert names(queries.people(wanda)) == ["adam", "ana", "ben", "otto", "vera", "wanda"]
    assert names(queries.people(wanda, "example.org")) == []
    assert names(queries.people(wanda, "finance")) == []
    assert names(queries.people(wanda, show="off")) == names(queries.people(wanda))
    row = next(row for row in queries.people(wanda).rows if row.name == "ana")
    assert (row.email, row.groups, row.last_sign_in, row.second_factor) == ("", (), None, False)
    for hidden in ("petra", "sam", "no one", "x\0"):
        with pytest.raises(NotFound):
            queries.person(wanda, hidden)
    for look in (lambda: queries.groups(wanda), lambda: queries.needs(wanda), lambda: queries.group(wanda, "finance")):
        with pytest.raises(NotAllowed):
            look()
    with pytest.raises(NotFound):
        queries.workflow_access(wanda, "payroll")
    assert [name for name, _ in queries.managed_workflows(wanda)] == [WORKFLOW]


def test_an_admin_of_one_workflow_is_shown_no_role_for_another(everyone) -> None:
    Grant.objects.create(user=everyone["ana"], role="operator", workflow="payroll")
    view = queries.person(viewer("wanda"), "ana")
    assert {role.workflow for role in view.row.roles} == {"*"}
    assert [one.workflow for one in view.rights] == ["*"]
    assert not view.whole
    assert view.obstacle
    assert all(one.question.workflow == WORKFLOW for one in view.answers)
    assert "payroll" in {role.workflow for role in queries.person(viewer("adam"), "ana").row.roles}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("an", ["ana", "wanda"]),
        ("wanda@", ["wanda"]),
        ("finance", ["ana"]),
        ("payroll", ["petra"]),
        ("AN wa", ["wanda"]),
    ],
)
def test_people_are_found_by_what_is_said_of_them(text: str, found: list[str], everyone) -> None:
    assert names(queries.people(viewer("adam"), text)) == found


def test_the_tabs_are_what_they_say(everyone, django_assert_num_queries) -> None:
    from django.utils import timezone

    now = timezone.now()
    Absence.objects.create(
        user=everyone["ana"], delegate=everyone["ben"], since=now, until=now + timezone.timedelta(days=1)
    )
    User.objects.filter(username="sam").update(is_active=False)
    adam = viewer("adam")
    assert names(queries.people(adam, show="away")) == ["ana"]
    assert names(queries.people(adam, show="off")) == ["sam"]
    assert "sam" not in names(queries.people(adam))
    assert len(names(queries.people(adam, show="all"))) == len(everyone)
    with django_assert_num_queries(8):
        row = next(row for row in queries.people(adam).rows if row.name == "ana")
    assert row.delegate == "ben"


def test_five_hundred_people_are_pages_of_fifty(everyone, django_assert_num_queries) -> None:
    User.objects.bulk_create(User(username=f"person{n:03}") for n in range(500))
    adam = viewer("adam")
    with django_assert_num_queries(8):
        page = queries.people(adam, number=3)
    assert (len(page.rows), page.pages, page.found) == (50, 11, 508)
    assert queries.people(adam, number=99).number == 11
    assert queries.people(adam, number=-5).number == 1


def test_who_may_answer_is_what_the_resolver_says(everyone) -> None:
    run = people.make_run(created_by=everyone["ben"])
    people.ask(run, by=["finance"], not_by=["requester"])
    people.ask(run, by=["finance"], not_by=["requester"])
    people.ask(run, by=["legal"], policy={"override": False})
    people.ask(run, not_by=["ana"], by=["requester", "ben"])
    access = queries.workflow_access(viewer("adam"), WORKFLOW)
    by = {one.question.by: one for one in access.questions if one.question.open}
    finance = by[("finance",)]
    assert finance.question.open == 2
    assert [(name, standing.words, standing.own) for name, standing in finance.may] == [
        ("ana", "group finance", "not in runs they started")
    ]
    assert {name for name, _ in finance.override} == {"adam", "otto", "wanda"}
    legal = by[("legal",)]
    assert (legal.may, legal.override) == ((), ())
    assert [(need.name, need.problem) for need in legal.needs] == [("legal", "missing")]
    assert legal.few
    third = by[("requester", "ben")]
    assert dict(third.excluded)["ana"].words == "by name"
    assert dict(third.may)["ben"].words == "named: ben"
    assert dict(third.may)["otto"].own == "only in runs they started"


def test_a_delegate_may_answer_and_it_says_for_whom(everyone) -> None:
    from django.utils import timezone

    now = timezone.now()
    Absence.objects.create(
        user=everyone["ana"], delegate=everyone["ben"], since=now, until=now + timezone.timedelta(days=1)
    )
    people.ask(people.make_run(), by=["finance"])
    access = queries.workflow_access(viewer("adam"), WORKFLOW)
    found = dict(next(one for one in access.questions if one.question.open).may)
    assert found["ben"].words == "group finance, on behalf of ana"


def test_a_name_that_no_one_answers_to_is_needed(everyone) -> None:
    run = people.make_run()
    for name in ("legal", "empty", "weak", "sam", "finance", "banned", "gone"):
        people.ask(run, by=[name] if name != "banned" else [], not_by=["banned"] if name == "banned" else [])
    Group.objects.create(name="empty").user_set.add(User.objects.create_user("left", is_active=False))
    Group.objects.create(name="weak").user_set.add(everyone["vera"])
    User.objects.create_user("gone", is_active=False)
    found = {
        need.name: need.problem for need in queries.needs(viewer("adam")) if any(one.open for one in need.questions)
    }
    assert found == {"legal": "missing", "empty": "empty", "weak": "powerless", "banned": "missing", "gone": "empty"}


def test_a_group_knows_who_is_in_it_and_what_needs_it(everyone, django_assert_max_num_queries) -> None:
    Grant.objects.create(group=Group.objects.get(name="finance"), role="viewer", workflow="payroll")
    people.ask(people.make_run(), by=["finance"])
    adam = viewer("adam")
    with django_assert_max_num_queries(10):
        view = queries.group(adam, "finance")
    assert view.members == (("ana", True),)
    assert [role.name for role in view.row.roles] == ["viewer"]
    assert any(one.open for one in view.row.needed)
    with pytest.raises(NotFound):
        queries.group(viewer("adam"), "finance\0")


def test_a_question_of_the_code_and_an_open_one_like_it_are_one(everyone) -> None:
    known = [one for one in questions([WORKFLOW]) if one.by]
    before = len(questions([WORKFLOW]))
    assert [one.by for one in known] == [("finance",)]
    people.ask(people.make_run(), step=known[0].step, by=["finance"], not_by=list(known[0].not_by))
    (after,) = [one for one in questions([WORKFLOW]) if one.open]
    assert len(questions([WORKFLOW])) == before
    assert after.open == 1


def test_someone_who_is_deactivated_may_do_nothing_until_they_are_back(everyone) -> None:
    User.objects.filter(username="ana").update(is_active=False)
    view = queries.person(viewer("adam"), "ana")
    assert (view.rights, view.answers) == ((), ())
    assert view.row.roles, "the roles stay"
    assert not viewer("ana").may_anywhere("see")
    assert "ana" not in [row.name for row in queries.workflow_access(viewer("adam"), WORKFLOW).rows]
